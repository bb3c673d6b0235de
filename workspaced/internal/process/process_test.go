package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"workspaced/internal/account"
	"workspaced/internal/output"
	"workspaced/internal/procs"
	"workspaced/internal/reaper"
)

// The reaper collects every child of the test: there is one, and nothing here may
// use os/exec.
var shared = sync.OnceValue(reaper.New)

// What the test was started with is not inherited by children, as boot.Harden does.
func TestMain(m *testing.M) {
	// As `workspaced run` does: children inherit a signal that is ignored, as under nohup, and not one that is handled.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	_ = unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	os.Exit(m.Run())
}

func manager(t *testing.T, change ...func(*Limits)) *Manager {
	t.Helper()
	limits := DefaultLimits
	for _, f := range change {
		f(&limits)
	}
	m := NewManager(shared(), account.NewEnvironment([]string{"PATH=/usr/bin:/bin", "WORKSPACED_SECRET=x", "LANG=C"}), limits, func() {})
	t.Cleanup(func() {
		for _, p := range m.List() {
			_ = p.Signal(syscall.SIGKILL)
			<-p.Ended()
		}
	})
	return m
}

func self(t *testing.T) account.Account {
	t.Helper()
	return account.Account{Name: "user", UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Home: t.TempDir(), Shell: "/bin/sh"}
}

func sh(t *testing.T, script string) Spec {
	return Spec{Command: "/bin/sh", Args: []string{"-c", script}, Account: self(t)}
}

func start(t *testing.T, m *Manager, spec Spec) *Process {
	t.Helper()
	p, err := m.Start(spec, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// collect returns all output of a process by kind.
func collect(t *testing.T, p *Process) map[output.Kind]string {
	t.Helper()
	all := map[output.Kind]string{}
	reader := p.Output.Attach()
	defer reader.Detach()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		chunk, err := reader.Next(ctx, 0)
		if errors.Is(err, output.ErrEnd) {
			<-p.Ended()
			return all
		}
		if err != nil {
			t.Fatalf("%v after %q", err, all)
		}
		all[chunk.Kind] += string(chunk.Data)
	}
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatal("not within 20 s: " + what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestEnds(t *testing.T) {
	m := manager(t)
	for script, want := range map[string]End{
		"exit 0":     {Code: 0, Exited: true, Status: "exit status 0"},
		"exit 7":     {Code: 7, Exited: true, Status: "exit status 7"},
		"kill -9 $$": {Code: -1, Signal: syscall.SIGKILL, Status: "signal: killed"},
		"kill $$":    {Code: -1, Signal: syscall.SIGTERM, Status: "signal: terminated"},
	} {
		p := start(t, m, sh(t, script))
		collect(t, p)
		if p.End() != want {
			t.Errorf("%s: %+v", script, p.End())
		}
	}
}

func TestOutputEnvironmentAndFolder(t *testing.T) {
	spec := sh(t, `echo out; echo err >&2; pwd; echo $HOME $USER $TMPDIR; echo $X; env; ls /proc/self/fd | wc -l`)
	spec.Envs = map[string]string{"X": "y"}
	spec.Dir = "sub"
	if err := os.Mkdir(filepath.Join(spec.Account.Home, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	got := collect(t, start(t, manager(t), spec))
	lines := strings.Split(got[output.Stdout], "\n")
	if lines[0] != "out" || got[output.Stderr] != "err\n" || lines[1] != filepath.Join(spec.Account.Home, "sub") {
		t.Fatalf("%q", got)
	}
	if lines[2] != spec.Account.Home+" user "+os.TempDir() || lines[3] != "y" {
		t.Fatalf("%q", lines)
	}
	if strings.Contains(got[output.Stdout], "WORKSPACED_") {
		t.Fatal("the child has this program's own variables")
	}
	if !strings.Contains(got[output.Stdout], "PATH="+spec.Account.Home+"/.local/bin:") {
		t.Fatal("~/.local/bin is not in PATH")
	}
	if lines[len(lines)-2] != "4" { // 0, 1, 2 and the folder that ls reads
		t.Fatalf("%s descriptors", lines[len(lines)-2])
	}
}

func TestLongVariableIsRefusedWithItsReason(t *testing.T) {
	spec := sh(t, "true")
	spec.Envs = map[string]string{"X": strings.Repeat("y", 200<<10)}
	if _, err := manager(t).Start(spec, 0); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "128 KiB") {
		t.Fatal(err)
	}
}

func TestStdin(t *testing.T) {
	spec := sh(t, "cat")
	spec.Stdin = true
	p := start(t, manager(t), spec)
	if err := p.Write(t.Context(), false, []byte("abc")); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(t.Context(), true, []byte("x")); !errors.Is(err, ErrNoTerminal) {
		t.Fatal(err)
	}
	if err := p.CloseInput(); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, p); got[output.Stdout] != "abc" {
		t.Fatalf("%q", got)
	}
	if err := p.Write(t.Context(), false, []byte("x")); !errors.Is(err, ErrNoStdin) {
		t.Fatalf("after the end: %v", err)
	}
	closed := start(t, manager(t), sh(t, "cat"))
	if collect(t, closed); closed.End().Code != 0 {
		t.Fatal("without stdin the process does not see its end")
	}
}

func TestAWriterWaitsForASlowProcessAndCanGiveUp(t *testing.T) {
	spec := sh(t, "sleep 60")
	spec.Stdin = true
	p := start(t, manager(t), spec)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := p.Write(ctx, false, make([]byte, 1<<20))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
}

func TestTerminal(t *testing.T) {
	spec := sh(t, "stty size; read x; stty size; tty")
	spec.Terminal = &Size{Cols: 100, Rows: 30}
	p := start(t, manager(t), spec)
	reader := p.Output.Attach()
	defer reader.Detach()
	seen := ""
	for !strings.Contains(seen, "30 100") {
		chunk, err := reader.Next(t.Context(), 10*time.Second)
		if err != nil {
			t.Fatalf("%v after %q", err, seen)
		}
		seen += string(chunk.Data)
	}
	if err := p.Resize(Size{Cols: 120, Rows: 40}); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(t.Context(), true, []byte("\n")); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, p)[output.PTY]; !strings.Contains(got, "40 120") || !strings.Contains(got, "/dev/pts/") {
		t.Fatalf("%q", got)
	}
	plain := start(t, manager(t), sh(t, "sleep 60"))
	if err := plain.Resize(Size{1, 1}); !errors.Is(err, ErrNoTerminal) {
		t.Fatal(err)
	}
}

func TestHangUp(t *testing.T) {
	spec := sh(t, "sleep 600")
	spec.Terminal = &Size{Cols: 80, Rows: 24}
	p := start(t, manager(t), spec)
	p.HangUp()
	<-p.Ended()
	if p.End().Signal != syscall.SIGHUP {
		t.Fatalf("%+v", p.End())
	}
}

func TestShellsWithoutJobsAreHungUp(t *testing.T) {
	m := manager(t)
	terminal := func(command string, args ...string) *Process {
		spec := Spec{Command: command, Args: args, Account: sh(t, "").Account, Terminal: &Size{Cols: 80, Rows: 24}}
		return start(t, m, spec)
	}
	shell, busy := terminal("/bin/sh", "-i"), terminal("/bin/sh", "-i")
	script := terminal("/bin/sh", "-c", "sleep 600; true")
	left := []procs.Process{
		{PID: shell.PID, Session: shell.PID}, {PID: script.PID, Session: script.PID},
		{PID: busy.PID, Session: busy.PID}, {PID: 1 << 30, Parent: busy.PID, Session: busy.PID},
	}
	m.HangUpShells(left)
	<-shell.Ended()
	if !busy.Running() || !script.Running() {
		t.Fatal("what has jobs or is no shell was hung up, too")
	}
	busy.HangUp()
	script.HangUp()
}

func TestAKillReachesTheWholeSession(t *testing.T) {
	m := manager(t)
	// A job in a group of its own, a grandchild, and one that ignores SIGTERM.
	p := start(t, m, sh(t, `set -m; sleep 611 & (trap "" TERM; sleep 612) & sh -c "sleep 613; true" & echo ready; wait`))
	reader := p.Output.Attach()
	if _, err := reader.Next(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	reader.Detach()
	members := func() (count int) {
		for _, one := range procs.All() {
			if one.Session == p.PID && one.State != 'Z' {
				count++
			}
		}
		return count
	}
	until(t, "all have started", func() bool { return members() >= 5 })
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Ended()
	until(t, "the session is gone", func() bool { return members() == 0 })
	if err := p.Signal(syscall.SIGKILL); !errors.Is(err, ErrNotFound) {
		t.Fatalf("a signal after the end: %v", err)
	}
}

func TestTheTimeoutKills(t *testing.T) {
	p, err := manager(t).Start(sh(t, "sleep 600"), 30*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Ended()
	if p.End().Signal != syscall.SIGKILL {
		t.Fatalf("%+v", p.End())
	}
}

func TestADescendantThatHoldsThePipesDoesNotHoldTheEndBack(t *testing.T) {
	p := start(t, manager(t), sh(t, "sleep 614 & echo $!"))
	began := time.Now()
	got := collect(t, p)
	pid, err := strconv.Atoi(strings.TrimSpace(got[output.Stdout]))
	if err != nil {
		t.Fatalf("%q", got)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	if took := time.Since(began); took > 10*time.Second {
		t.Fatalf("the end came after %v", took)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the descendant is gone: %v", err)
	}
}

func TestOutputIsCompleteForASlowReader(t *testing.T) {
	p := start(t, manager(t), sh(t, "head -c 3000000 /dev/zero; echo end"))
	reader := p.Output.Attach()
	total, last := 0, []byte(nil)
	for {
		chunk, err := reader.Next(t.Context(), 0)
		if errors.Is(err, output.ErrEnd) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		total, last = total+len(chunk.Data), chunk.Data
		if total%7 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	if total != 3000004 || !bytes.HasSuffix(last, []byte("end\n")) {
		t.Fatalf("%d bytes, the last %q", total, last)
	}
}

func TestFindAndRemember(t *testing.T) {
	m := manager(t, func(l *Limits) { l.Finished = 2 })
	spec := sh(t, "echo $0 done")
	spec.Tag = "job"
	p := start(t, m, spec)
	<-p.Ended()
	until(t, "it is not listed", func() bool { return len(m.List()) == 0 })
	found, err := m.ByTag("job")
	if err != nil || found != p {
		t.Fatalf("%v %v", found, err)
	}
	if got := collect(t, found); !strings.Contains(got[output.Stdout], "done") {
		t.Fatalf("missed output: %q", got)
	}
	for range 2 {
		<-start(t, m, sh(t, "true")).Ended()
	}
	until(t, "only two are remembered", func() bool { _, err := m.ByTag("job"); return errors.Is(err, ErrNotFound) })
}

func TestLimits(t *testing.T) {
	m := manager(t, func(l *Limits) { l.Processes = 2 })
	start(t, m, sh(t, "sleep 600"))
	start(t, m, sh(t, "sleep 600"))
	if _, err := m.Start(sh(t, "true"), 0); !errors.Is(err, ErrTooMany) {
		t.Fatal(err)
	}
	m.Stop()
	if _, err := m.Start(sh(t, "true"), 0); !errors.Is(err, ErrStopping) {
		t.Fatal(err)
	}
}

func TestWhatCannotStartSaysWhy(t *testing.T) {
	m := manager(t)
	home := t.TempDir()
	plain := filepath.Join(home, "plain")
	script := filepath.Join(home, "script")
	for path, mode := range map[string]os.FileMode{plain: 0o644, script: 0o755} {
		if err := os.WriteFile(path, []byte("#!/no/such/interpreter\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, one := range map[string]struct {
		spec Spec
		want string
	}{
		"empty":       {Spec{}, "no command"},
		"not there":   {Spec{Command: "/no/such/program"}, "no such file"},
		"not in PATH": {Spec{Command: "no-such-program"}, "not found in PATH"},
		"mode":        {Spec{Command: plain}, "permission denied"},
		"folder":      {Spec{Command: home}, "is a directory"},
		"interpreter": {Spec{Command: script}, "interpreter"},
		"directory":   {Spec{Command: "true", Dir: "/no/such"}, "working directory"},
		"file as dir": {Spec{Command: "true", Dir: plain}, "no directory"},
		"NUL":         {Spec{Command: "true", Args: []string{"a\x00b"}}, "NUL"},
	} {
		one.spec.Account = self(t)
		_, err := m.Start(one.spec, 0)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(m.List()) != 0 {
		t.Fatal("something is listed")
	}
}

func TestAMissingShellIsReplacedOrNamed(t *testing.T) {
	path, err := locate("/no/bash", "/", nil)
	if err != nil || path != "/bin/sh" {
		t.Fatal(path, err)
	}
	if path, err = locate("zsh", "/", []string{"PATH=/nowhere"}); err != nil || path != "/bin/sh" {
		t.Fatal(path, err)
	}
}

func TestStartsAtOnce(t *testing.T) {
	m := manager(t)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			p, err := m.Start(Spec{Command: "/bin/sh", Args: []string{"-c", fmt.Sprintf("echo %d; exit %d", i, i)}, Account: account.Account{Home: "/"}}, 0)
			if err != nil {
				t.Error(err)
				return
			}
			if got := collect(t, p); got[output.Stdout] != fmt.Sprintln(i) || p.End().Code != i {
				t.Errorf("%d: %q %+v", i, got, p.End())
			}
		})
	}
	all.Wait()
	until(t, "none is listed", func() bool { return len(m.List()) == 0 })
}

func TestDescriptorsAreNotLost(t *testing.T) {
	m := manager(t)
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	collect(t, start(t, m, sh(t, "true")))
	before := count()
	for range 20 {
		collect(t, start(t, m, sh(t, "true")))
		spec := sh(t, "true")
		spec.Terminal = &Size{80, 24}
		collect(t, start(t, m, spec))
		_, _ = m.Start(Spec{Command: "/no/such", Account: self(t)}, 0)
	}
	until(t, "as many descriptors as before", func() bool { return count() <= before })
}

func TestADescendantThatKeepsWritingDoesNotHoldTheEndBack(t *testing.T) {
	p := start(t, manager(t), sh(t, "(while :; do echo x; sleep 0.02; done) & echo $!; head -c 50000 /dev/zero"))
	got := collect(t, p)
	first, _, _ := strings.Cut(strings.ReplaceAll(got[output.Stdout], "x\n", ""), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatalf("%q", got)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the descendant is gone: %v", err)
	}
	if zeros := strings.Count(got[output.Stdout], "\x00"); zeros != 50000 {
		t.Fatalf("%d bytes of the process itself", zeros)
	}
}

// On a busy machine a pump may come to its next read late: what lies in the pipe by
// then is still delivered.
func TestOutputThatWasNotReadYetHoldsTheEndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write, err := pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(write)
		file := own(read, "output")
		defer file.Close()
		if _, err := syscall.Write(write, []byte("last words")); err != nil {
			t.Fatal(err)
		}
		late := &pump{file: file, done: make(chan struct{})}
		late.waiting.Store(time.Now().UnixNano()) // it has seen an empty pipe, and nothing since
		p := &Process{pumps: []*pump{late}}
		drained := make(chan struct{})
		go func() { p.drain(); close(drained) }()
		time.Sleep(time.Minute) // of the bubble's clock
		select {
		case <-drained:
			t.Fatal("the end came before the output")
		default:
		}
		var buffer [64]byte
		if _, err := syscall.Read(read, buffer[:]); err != nil {
			t.Fatal(err)
		}
		<-drained
	})
}
