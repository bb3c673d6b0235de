// Package activity knows how long nothing has happened and which jobs ask to be
// left running.
package activity

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// LongestBusy bounds how far ahead a job can ask.
	LongestBusy = 24 * time.Hour
	// maxJobs bounds the files that are looked at.
	maxJobs = 256
)

// Tracker records use.
type Tracker struct {
	now  func() time.Time
	dir  string
	open atomic.Int64

	mu      sync.Mutex
	request time.Time
	output  time.Time
}

// New returns a tracker; jobs put their files into the folder.
func New(dir string) *Tracker {
	now := time.Now()
	return &Tracker{now: time.Now, dir: dir, request: now, output: now}
}

// Begin records a request or stream; the function it returns ends it.
func (t *Tracker) Begin() func() {
	t.open.Add(1)
	t.mark(&t.request)
	return sync.OnceFunc(func() {
		t.mark(&t.request)
		t.open.Add(-1)
	})
}

// Touch records input or output of a process.
func (t *Tracker) Touch() { t.mark(&t.output) }

func (t *Tracker) mark(when *time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*when = t.now()
}

// Report is the use of a sandbox.
type Report struct {
	Idle         float64 `json:"idle_seconds"`
	SinceRequest float64 `json:"since_request_seconds"`
	SinceOutput  float64 `json:"since_output_seconds"`
	Open         int64   `json:"open_requests"`
	Busy         bool    `json:"busy"`
	Jobs         []Job   `json:"jobs,omitempty"`
}

// Job is one that asks to be left running.
type Job struct {
	Name   string     `json:"name"`
	Until  *time.Time `json:"until,omitempty"`
	Locked bool       `json:"locked,omitempty"`
}

// Report returns the use until now.
func (t *Tracker) Report() Report {
	t.mu.Lock()
	now := t.now()
	r := Report{
		SinceRequest: max(0, now.Sub(t.request).Seconds()),
		SinceOutput:  max(0, now.Sub(t.output).Seconds()),
	}
	t.mu.Unlock()
	if r.Open = t.open.Load(); r.Open > 0 {
		r.SinceRequest = 0
	}
	r.Idle = min(r.SinceRequest, r.SinceOutput)
	r.Jobs = t.jobs(now)
	r.Busy = len(r.Jobs) > 0
	return r
}

// jobs returns the files of the busy folder that count: one that a living process
// holds a flock on, and one whose modification time lies ahead.
func (t *Tracker) jobs(now time.Time) []Job {
	folder, err := os.Open(t.dir)
	if err != nil {
		return nil
	}
	defer folder.Close()
	entries, _ := folder.ReadDir(maxJobs)
	var jobs []Job
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		job := Job{Name: strings.ToValidUTF8(entry.Name(), "?")}
		if until := info.ModTime(); until.After(now) {
			until = until.UTC()
			if latest := now.Add(LongestBusy).UTC(); until.After(latest) {
				until = latest
			}
			job.Until = &until
		}
		job.Locked = locked(filepath.Join(t.dir, entry.Name()))
		if job.Locked || job.Until != nil {
			jobs = append(jobs, job)
		}
	}
	slices.SortFunc(jobs, func(a, b Job) int { return strings.Compare(a.Name, b.Name) })
	return jobs
}

// locked tries a shared lock and lets go of it at once.
func locked(path string) bool {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	raw, err := file.SyscallConn()
	if err != nil {
		return false
	}
	held := false
	_ = raw.Control(func(fd uintptr) {
		held = syscall.Flock(int(fd), syscall.LOCK_SH|syscall.LOCK_NB) == syscall.EWOULDBLOCK
	})
	return held
}
