package activity

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestIdle(t *testing.T) {
	clock := time.Now()
	a := New(t.TempDir())
	a.now = func() time.Time { return clock }
	a.request, a.output = clock, clock
	step := func(want float64) {
		t.Helper()
		if got := a.Report(); got.Idle != want {
			t.Fatalf("%+v", got)
		}
	}
	clock = clock.Add(10 * time.Second)
	step(10)
	a.Touch()
	step(0)
	clock = clock.Add(5 * time.Second)
	end := a.Begin()
	clock = clock.Add(time.Hour)
	step(0) // a stream is open
	end()
	end()
	clock = clock.Add(7 * time.Second)
	step(7)
	if got := a.Report(); got.Open != 0 || got.SinceOutput != 3612 {
		t.Fatalf("%+v", got)
	}
}

func TestJobsAskToBeLeftRunning(t *testing.T) {
	dir := t.TempDir()
	a := New(dir)
	file := func(name string, modified time.Time) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, modified, modified); err != nil {
			t.Fatal(err)
		}
		return path
	}
	now := time.Now()
	file("over", now.Add(-time.Second))
	if a.Report().Busy {
		t.Fatal("an expired file counts")
	}
	file("until", now.Add(time.Hour))
	file("too long", now.Add(1000*time.Hour))
	held, err := os.Open(file("held", now.Add(-time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	_ = syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644)
	_ = os.Symlink("/dev/zero", filepath.Join(dir, "link"))
	jobs := a.Report().Jobs
	if len(jobs) != 3 || jobs[0].Name != "held" || !jobs[0].Locked || jobs[1].Name != "too long" || jobs[2].Name != "until" {
		t.Fatalf("%+v", jobs)
	}
	if jobs[1].Until.Sub(now) > LongestBusy+time.Minute {
		t.Fatalf("%v", jobs[1].Until)
	}
	held.Close()
	if jobs := a.Report().Jobs; len(jobs) != 2 {
		t.Fatalf("%+v", jobs)
	}
}
