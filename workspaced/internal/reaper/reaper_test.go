package reaper

import (
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOrphansAreCollectedAndCounted(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Skip("no child subreaper here:", err)
	}
	r := New()
	exited := make(chan Exit, 1)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	// Its grandchild loses its parent before it ends.
	pid, err := r.Start(Attr{
		Path: "/bin/sh", Args: []string{"sh", "-c", "(sleep 0.1 & exec true) & wait; exit 3"},
		Files: []uintptr{null.Fd(), null.Fd(), null.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true},
	}, func(e Exit) { exited <- e })
	if err != nil {
		t.Fatal(err)
	}
	if end := <-exited; end.Status.ExitStatus() != 3 {
		t.Fatalf("%+v", end)
	}
	deadline := time.Now().Add(10 * time.Second)
	for r.Orphans() == 0 {
		if time.Now().After(deadline) {
			t.Fatal("no orphan was collected")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := r.Signal(pid, syscall.SIGKILL); err != syscall.ESRCH {
		t.Fatalf("a signal to a process that was collected: %v", err)
	}
	if _, err := r.Start(Attr{Path: "/no/such", Args: []string{"x"}}, nil); err != syscall.ENOENT {
		t.Fatalf("a program that is not there: %v", err)
	}
}
