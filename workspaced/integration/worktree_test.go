package integration

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"workspaced/internal/harness"
)

// withWorkTree starts a sandbox whose home is below a folder, with a new work tree, as in a new pod.
func withWorkTree(t *testing.T, folder, interval string) (*harness.Sandbox, string) {
	t.Helper()
	work := t.TempDir()
	s, err := harness.Start(program, folder, "--work-tree", work, "--work-tree-interval", interval)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s, work
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(raw)
}

func TestTheWorkTreeIsThereAfterSleepWithTheLastWritesOfItsProcesses(t *testing.T) {
	folder := t.TempDir()
	s, work := withWorkTree(t, folder, "1h")
	script := "cd " + work + `; mkdir src; echo mine > src/file
		(setsid sh -c 'trap "echo last > last; exit" TERM; touch trapped; while :; do sleep 0.05; done' >/dev/null 2>&1 &)
		until [ -e trapped ]; do sleep 0.01; done`
	if r := run(t, processes(s, ""), script); r.end.GetExitCode() != 0 {
		t.Fatalf("%+v", r)
	}
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-s.Exited()
	if !strings.Contains(s.Log.String(), "work tree synchronised") {
		t.Fatal(s.Log)
	}
	_, again := withWorkTree(t, folder, "1h")
	// It is there before anybody is admitted.
	if read(t, filepath.Join(again, "src", "file")) != "mine\n" || read(t, filepath.Join(again, "last")) != "last\n" {
		t.Fatal("the work tree is not restored")
	}
}

func TestAKilledSandboxLosesWhatCameAfterTheLastInterval(t *testing.T) {
	folder := t.TempDir()
	s, work := withWorkTree(t, folder, "1s")
	if r := run(t, processes(s, ""), "echo early > "+work+"/early"); r.end.GetExitCode() != 0 {
		t.Fatalf("%+v", r)
	}
	stored := filepath.Join(s.Home, ".local", "share", "workspaced", "work-tree", "early")
	for deadline := time.Now().Add(30 * time.Second); read(t, stored) != "early\n"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing was synchronised")
		}
	}
	if err := s.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Exited()
	if _, again := withWorkTree(t, folder, "1s"); read(t, filepath.Join(again, "early")) != "early\n" {
		t.Fatal("what was synchronised is lost")
	}
}

func TestAWorkTreeThatCannotBeOpenedIsRefused(t *testing.T) {
	if _, err := harness.Start(program, t.TempDir(), "--work-tree", "/nonexistent/work"); err == nil || !strings.Contains(err.Error(), "work tree") {
		t.Fatal(err)
	}
	if _, err := harness.Start(program, t.TempDir(), "--work-tree", t.TempDir(), "--work-tree-interval", "1ms"); err == nil {
		t.Fatal("an interval that is too short was accepted")
	}
}
