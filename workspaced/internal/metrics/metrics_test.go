package metrics

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for path, content := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOfACgroup(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"/sys/fs/cgroup/cpu.max": "50000 100000\n", "/sys/fs/cgroup/cpu.stat": "usage_usec 1000000\nuser_usec 1\n",
		"/sys/fs/cgroup/memory.current": "1000\n", "/sys/fs/cgroup/memory.stat": "anon 1\nfile 400\n",
		"/sys/fs/cgroup/memory.max": "2097152\n", "/proc/meminfo": "MemTotal: 100 kB\nMemAvailable: 60 kB\nCached: 5 kB\n",
	})
	r := NewReader(root, root)
	write(t, root, map[string]string{"/sys/fs/cgroup/cpu.stat": "usage_usec 1500000\n"})
	r.at = r.at.Add(-time.Second)
	m := r.Read()
	if m.CPUCount != 1 || m.MemTotal != 2<<20 || m.MemUsed != 600 || m.MemCache != 400 || m.TotalMiB != 2 || m.DiskTotal == 0 {
		t.Fatalf("%+v", m)
	}
	if m.CPUUsed < 40 || m.CPUUsed > 51 || m.CPUSeconds != 1.5 {
		t.Fatalf("%+v", m)
	}
}

func TestOfAMachine(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"/proc/meminfo": "MemTotal: 100 kB\nMemAvailable: 60 kB\nCached: 5 kB\n",
		"/proc/stat":    "cpu 100 0 100 900 900 0 0 0 0 0\n",
	})
	m := NewReader(root, root).Read()
	if m.MemTotal != 100<<10 || m.MemUsed != 40<<10 || m.MemCache != 5<<10 || m.CPUSeconds != 2 {
		t.Fatalf("%+v", m)
	}
	if empty := NewReader(filepath.Join(root, "nothing"), "/nonexistent").Read(); empty.MemTotal != 0 || empty.CPUCount < 1 {
		t.Fatalf("%+v", empty)
	}
}
