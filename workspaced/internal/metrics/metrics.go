// Package metrics reads what the sandbox uses: from its cgroup where there is one,
// else from the machine.
package metrics

import (
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Metrics is the document of envd's /metrics.
type Metrics struct {
	Timestamp int64   `json:"ts"`
	CPUCount  int     `json:"cpu_count"`
	CPUUsed   float32 `json:"cpu_used_pct"`
	MemTotal  uint64  `json:"mem_total"`
	MemUsed   uint64  `json:"mem_used"`
	MemCache  uint64  `json:"mem_cache"`
	TotalMiB  uint64  `json:"mem_total_mib"`
	UsedMiB   uint64  `json:"mem_used_mib"`
	DiskUsed  uint64  `json:"disk_used"`
	DiskTotal uint64  `json:"disk_total"`

	CPUSeconds float64 `json:"-"`
}

// Reader reads metrics; CPU use is over the time since the reading before.
type Reader struct {
	root string // of the file system, for tests
	disk string

	mu   sync.Mutex
	at   time.Time
	used float64
	last float32
}

// NewReader returns a reader; the disk is the one that holds the path.
func NewReader(root, disk string) *Reader {
	r := &Reader{root: root, disk: disk, at: time.Now()}
	r.used, _ = r.cpuSeconds()
	return r
}

// Read returns the metrics of now.
func (r *Reader) Read() Metrics {
	m := Metrics{Timestamp: time.Now().Unix(), CPUCount: r.cpus()}
	m.CPUUsed, m.CPUSeconds = r.cpu(m.CPUCount)
	r.memory(&m)
	m.TotalMiB, m.UsedMiB = m.MemTotal>>20, m.MemUsed>>20
	var stat unix.Statfs_t
	if unix.Statfs(r.disk, &stat) == nil {
		size := uint64(stat.Bsize)
		m.DiskTotal, m.DiskUsed = stat.Blocks*size, (stat.Blocks-stat.Bfree)*size
	}
	return m
}

func (r *Reader) text(path string) string {
	raw, err := os.ReadFile(r.root + path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// cpus returns the CPUs of the cgroup's limit, rounded up.
func (r *Reader) cpus() int {
	quota, period, _ := strings.Cut(r.text("/sys/fs/cgroup/cpu.max"), " ")
	limit, err1 := strconv.ParseFloat(quota, 64)
	every, err2 := strconv.ParseFloat(period, 64)
	if err1 != nil || err2 != nil || every <= 0 {
		return runtime.NumCPU()
	}
	return max(1, min(runtime.NumCPU(), int(math.Ceil(limit/every))))
}

func (r *Reader) cpu(count int) (percent float32, seconds float64) {
	used, ok := r.cpuSeconds()
	if !ok {
		return 0, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if elapsed := now.Sub(r.at).Seconds(); elapsed >= 0.1 {
		r.last = float32(max(0, min(100, (used-r.used)/elapsed/float64(count)*100)))
		r.at, r.used = now, used
	}
	return r.last, used
}

func (r *Reader) cpuSeconds() (float64, bool) {
	if usage, ok := field(r.text("/sys/fs/cgroup/cpu.stat"), "usage_usec"); ok {
		return float64(usage) / 1e6, true
	}
	// All of the machine's, in hundredths of a second, without idle and iowait.
	first, _, _ := strings.Cut(r.text("/proc/stat"), "\n")
	fields := strings.Fields(first)
	if len(fields) < 8 || fields[0] != "cpu" {
		return 0, false
	}
	total := 0.0
	for i, text := range fields[1:8] {
		if value, err := strconv.ParseFloat(text, 64); err == nil && i != 3 && i != 4 {
			total += value
		}
	}
	return total / 100, true
}

func (r *Reader) memory(m *Metrics) {
	info := r.text("/proc/meminfo")
	total, _ := field(info, "MemTotal:")
	available, _ := field(info, "MemAvailable:")
	cached, _ := field(info, "Cached:")
	m.MemTotal, m.MemUsed, m.MemCache = total<<10, max(total, available)<<10-available<<10, cached<<10
	current, err := strconv.ParseUint(r.text("/sys/fs/cgroup/memory.current"), 10, 64)
	if err != nil {
		return
	}
	m.MemCache, _ = field(r.text("/sys/fs/cgroup/memory.stat"), "file")
	m.MemUsed = current - min(current, m.MemCache)
	if limit, err := strconv.ParseUint(r.text("/sys/fs/cgroup/memory.max"), 10, 64); err == nil {
		m.MemTotal = limit
	}
}

// field returns the number that follows a name at the start of a line.
func field(text, name string) (uint64, bool) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == name {
			value, err := strconv.ParseUint(fields[1], 10, 64)
			return value, err == nil
		}
	}
	return 0, false
}

// OwnMemory returns the resident bytes of this process.
func OwnMemory() uint64 {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}
