package integration

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"workspaced/gen/process"
	"workspaced/internal/harness"
)

var empty process.ListRequest

func pidOf(pid uint32) *process.ProcessSelector {
	return &process.ProcessSelector{Selector: &process.ProcessSelector_Pid{Pid: pid}}
}

func TestEveryProtocolAndCodec(t *testing.T) {
	s := sandbox(t)
	for name, c := range map[string]struct {
		client  *http.Client
		options []connect.ClientOption
	}{
		"connect":        {s.Client(everything, ""), nil},
		"connect JSON":   {s.Client(everything, ""), []connect.ClientOption{connect.WithProtoJSON()}},
		"connect HTTP/2": {s.Client2(everything, ""), nil},
		"gRPC":           {s.Client2(everything, ""), []connect.ClientOption{connect.WithGRPC()}},
		"gRPC-Web":       {s.Client(everything, ""), []connect.ClientOption{connect.WithGRPCWeb()}},
		"compressed":     {s.Client(everything, ""), []connect.ClientOption{connect.WithSendGzip()}},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, s.Processes(c.client, c.options...), "echo out; echo err >&2; exit 5")
			if r.stdout != "out\n" || r.stderr != "err\n" || r.end.GetExitCode() != 5 || r.end.GetStatus() != "exit status 5" || !r.end.GetExited() {
				t.Fatalf("%+v", r)
			}
		})
	}
}

func TestChildrenHaveNothingOfTheProgram(t *testing.T) {
	s, uid := ordinary(t)
	r := run(t, processes(s, ""), `id -u; env; ls -l /proc/self/fd; cat /proc/$PPID/environ; ls /proc/$PPID/fd/`)
	if strings.Contains(r.stdout, "WORKSPACED_") || strings.Contains(r.stdout, "socket:") || strings.Contains(r.stdout, "keys.json") {
		t.Fatalf("%q", r.stdout)
	}
	if !strings.HasPrefix(r.stdout, strconv.Itoa(uid)+"\n") || !strings.Contains(r.stdout, "HOME="+s.Home) || !strings.Contains(r.stdout, "WORKSPACE_BUSY_DIR=") {
		t.Fatalf("%q", r.stdout)
	}
	if strings.Count(r.stderr, "Permission denied") != 2 {
		t.Fatalf("it looks into the program: %q", r.stderr)
	}
}

func TestRootBecomesTheNamedUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root can become another user")
	}
	s := sandbox(t)
	for name, terminal := range map[string]*process.PTY{"pipes": nil, "terminal": {Size: &process.PTY_Size{Cols: 80, Rows: 24}}} {
		r := shell("id -u; id -G; echo $USER; pwd; cat /etc/shadow; test -w $(tty) && echo own")
		r.Msg.Pty = terminal
		r.Header().Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("nobody:")))
		stream, err := processes(s, "").Start(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		var got result
		for stream.Receive() {
			got.add(stream.Msg().GetEvent())
		}
		stream.Close()
		lines := strings.Fields(got.stdout)
		if len(lines) < 4 || lines[0] != "65534" || lines[1] != "65534" || lines[2] != "nobody" || lines[3] != "/" || strings.Contains(got.stdout, "root:") {
			t.Errorf("%s: %+v %v", name, got, stream.Err())
		}
		if terminal != nil && !strings.Contains(got.stdout, "own") {
			t.Errorf("the terminal is not the user's: %+v", got)
		}
	}
}

func TestAProcessOutlivesItsCaller(t *testing.T) {
	s := sandbox(t)
	ctx, cancel := context.WithCancel(t.Context())
	go_on := filepath.Join(s.Home, "go")
	_, pid := begin(t, ctx, processes(s, ""), `echo first; while [ ! -e go ]; do sleep 0.02; done; echo second; echo third >&2; exit 4`)
	cancel() // as if the caller had died in mid-stream
	if err := os.WriteFile(go_on, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	stream, err := processes(s, "").Connect(t.Context(), connect.NewRequest(&process.ConnectRequest{Process: pidOf(pid)}))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var r result
	for stream.Receive() {
		r.add(stream.Msg().GetEvent())
	}
	if r.pid != pid || r.stdout != "first\nsecond\n" || r.stderr != "third\n" || r.end.GetExitCode() != 4 {
		t.Fatalf("%v %+v", stream.Err(), r)
	}
	// And once more, after its end.
	again, err := processes(s, "").Connect(t.Context(), connect.NewRequest(&process.ConnectRequest{Process: pidOf(pid)}))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	var second result
	for again.Receive() {
		second.add(again.Msg().GetEvent())
	}
	if second.stdout != r.stdout || second.end.GetExitCode() != 4 {
		t.Fatalf("%v %+v", again.Err(), second)
	}
	if _, err := processes(s, "").SendSignal(t.Context(), connect.NewRequest(&process.SendSignalRequest{Process: pidOf(pid), Signal: process.Signal_SIGNAL_SIGKILL})); connect.CodeOf(err) != connect.CodeNotFound {
		t.Fatalf("a signal to an ended process: %v", err)
	}
}

func TestInput(t *testing.T) {
	s := sandbox(t)
	c := processes(s, "")
	open := true
	tag := "cat"
	stream, err := c.Start(t.Context(), connect.NewRequest(&process.StartRequest{
		Process: &process.ProcessConfig{Cmd: "cat"}, Stdin: &open, Tag: &tag,
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	selector := &process.ProcessSelector{Selector: &process.ProcessSelector_Tag{Tag: tag}}
	stdin := func(text string) *process.ProcessInput {
		return &process.ProcessInput{Input: &process.ProcessInput_Stdin{Stdin: []byte(text)}}
	}
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	if _, err := c.SendInput(t.Context(), connect.NewRequest(&process.SendInputRequest{Process: selector, Input: stdin("one ")})); err != nil {
		t.Fatal(err)
	}
	input := c.StreamInput(t.Context())
	for _, message := range []*process.StreamInputRequest{
		{Event: &process.StreamInputRequest_Start{Start: &process.StreamInputRequest_StartEvent{Process: selector}}},
		{Event: &process.StreamInputRequest_Data{Data: &process.StreamInputRequest_DataEvent{Input: stdin("two ")}}},
		{Event: &process.StreamInputRequest_Keepalive{Keepalive: &process.StreamInputRequest_KeepAlive{}}},
		{Event: &process.StreamInputRequest_Data{Data: &process.StreamInputRequest_DataEvent{Input: stdin("three")}}},
	} {
		if err := input.Send(message); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := input.CloseAndReceive(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CloseStdin(t.Context(), connect.NewRequest(&process.CloseStdinRequest{Process: selector})); err != nil {
		t.Fatal(err)
	}
	var r result
	for stream.Receive() {
		r.add(stream.Msg().GetEvent())
	}
	if r.stdout != "one two three" || r.end.GetExitCode() != 0 {
		t.Fatalf("%+v %v", r, stream.Err())
	}
	first := c.StreamInput(t.Context())
	_ = first.Send(&process.StreamInputRequest{Event: &process.StreamInputRequest_Data{Data: &process.StreamInputRequest_DataEvent{Input: stdin("x")}}})
	if _, err := first.CloseAndReceive(); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Fatalf("input for no process: %v", err)
	}
}

func TestTheTimeoutHeaderBoundsTheProcess(t *testing.T) {
	s := sandbox(t)
	r := shell("sleep 600")
	r.Header().Set("Connect-Timeout-Ms", "200")
	stream, err := processes(s, "").Start(t.Context(), r)
	if err == nil {
		for stream.Receive() {
		}
		stream.Close()
	}
	eventually(t, "it is gone", func() bool { return len(list(t, s)) == 0 })
}

func list(t *testing.T, s *harness.Sandbox) []*process.ProcessInfo {
	t.Helper()
	r, err := processes(s, "").List(t.Context(), connect.NewRequest(&process.ListRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	return r.Msg.GetProcesses()
}

func TestAStoppedReaderHoldsMemoryFlat(t *testing.T) {
	s := sandbox(t)
	stream, _ := begin(t, t.Context(), processes(s, ""), "echo up; cat /dev/zero")
	before, _, err := s.Memory()
	if err != nil {
		t.Fatal(err)
	}
	// Nothing is read: the process is held back by its pipe.
	cpu := func() string {
		raw, _ := os.ReadFile("/proc/" + strconv.Itoa(int(list(t, s)[0].GetPid())) + "/stat")
		return string(raw)
	}
	last := ""
	eventually(t, "the process stands still", func() bool {
		now := cpu()
		same := now == last
		last = now
		time.Sleep(200 * time.Millisecond)
		return same
	})
	after, _, err := s.Memory()
	if err != nil || after-before > 8<<20 {
		t.Fatalf("%d KiB more, %v", (after-before)>>10, err)
	}
	_ = stream
}

func alive(pid int) bool {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(raw), ") Z")
}

func readPID(t *testing.T, path string) int {
	t.Helper()
	var pid int
	eventually(t, path+" is there", func() bool {
		raw, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(raw)))
		return err == nil
	})
	return pid
}

func TestSuspendEndsEveryProcess(t *testing.T) {
	s := sandbox(t, "--grace", "1s", "--", "/bin/sh", "-c", `trap "echo bye; exit 0" TERM; echo command up; while :; do sleep 0.05; done`)
	// One that ends when asked, one that does not, and one that fled into a session
	// of its own and lost its parent.
	stream, polite := begin(t, t.Context(), processes(s, ""), `trap "echo asked; exit 3" TERM; echo up; while :; do sleep 0.05; done`)
	killed, stubborn := begin(t, t.Context(), processes(s, ""), `trap "" TERM; echo up; while :; do sleep 0.05; done`)
	run(t, processes(s, ""), `setsid sh -c 'echo $$ > fled; trap "" TERM; while :; do sleep 0.05; done' >/dev/null 2>&1 & true`)
	fled := readPID(t, filepath.Join(s.Home, "fled"))
	if total := status(t, s).Processes; total.Managed != 3 || total.Total < 4 {
		t.Fatalf("%+v", total)
	}
	response, err := s.Client("control", "").Post(s.URL+"/suspend", "", nil)
	if err != nil || response.StatusCode != http.StatusAccepted {
		t.Fatal(response, err)
	}
	var r result
	for stream.Receive() {
		r.add(stream.Msg().GetEvent())
	}
	if r.stdout != "asked\n" || r.end.GetExitCode() != 3 {
		t.Fatalf("it was not asked, or its end was not told: %+v %v", r, stream.Err())
	}
	// The connection of one that was killed is cut: clients look whether the sandbox runs.
	for killed.Receive() {
		if killed.Msg().GetEvent().GetEnd() != nil {
			t.Fatalf("an end: %+v", killed.Msg())
		}
	}
	if killed.Err() == nil || connect.IsWireError(killed.Err()) {
		t.Fatalf("an answer, and no cut connection: %v", killed.Err())
	}
	<-s.Exited()
	for _, pid := range []int{int(polite), int(stubborn), fled} {
		if alive(pid) {
			t.Errorf("%d lives", pid)
		}
	}
	if out := s.Out.String(); out != "command up\nbye\n" {
		t.Fatalf("the command's output: %q", out)
	}
}

func TestSuspendDoesNotWaitForShells(t *testing.T) {
	s := sandbox(t, "--grace", "1h")
	shell, err := processes(s, "").Start(t.Context(), connect.NewRequest(&process.StartRequest{
		Process: &process.ProcessConfig{Cmd: "/bin/bash", Args: []string{"-i", "-l"}},
		Pty:     &process.PTY{Size: &process.PTY_Size{Cols: 80, Rows: 24}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	for shown := ""; !strings.Contains(shown, "$ ") && !strings.Contains(shown, "# "); { // a shell at its prompt ignores SIGTERM
		if !shell.Receive() {
			t.Fatal(shown, shell.Err())
		}
		shown += string(shell.Msg().GetEvent().GetData().GetPty())
	}
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Exited():
	case <-time.After(3 * time.Minute):
		t.Fatal("it waits for a shell without jobs")
	}
}

func TestNoNewProcessesWhileStopping(t *testing.T) {
	s := sandbox(t, "--grace", "5s")
	begin(t, t.Context(), processes(s, ""), `trap "" TERM; echo up; while [ ! -e end ]; do sleep 0.05; done`)
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "health fails", func() bool {
		code, _, err := harness.Get(http.DefaultClient, s.URL+"/health")
		return err == nil && code == 503
	})
	stream, err := processes(s, "").Start(t.Context(), shell("true"))
	if err == nil {
		stream.Receive()
		err = stream.Err()
	}
	if connect.CodeOf(err) != connect.CodeUnavailable {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Home, "end"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	<-s.Exited()
}

func TestTheEndOfTheCommand(t *testing.T) {
	for script, want := range map[string]int{"exit 7": 7, "kill -9 $$": 137, "exit 0": 0} {
		s := sandbox(t, "--", "/bin/sh", "-c", "sleep 0.3; "+script)
		<-s.Exited()
		if s.ExitCode() != want {
			t.Errorf("%s: %d", script, s.ExitCode())
		}
	}
	s := sandbox(t, "--command-ends", "stay", "--", "/bin/sh", "-c", "echo done; exit 7")
	eventually(t, "the command has ended", func() bool { return status(t, s).Command.State == "ended" })
	if code := status(t, s).Command.Exit; code == nil || *code != 7 {
		t.Fatalf("%v", code)
	}
	if r := run(t, processes(s, ""), "echo still here"); r.stdout != "still here\n" {
		t.Fatalf("%+v", r)
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	s := sandbox(t, "--", "/bin/sh", "-c", `trap "echo usr1" USR1; echo up; while :; do sleep 0.05; done`)
	eventually(t, "the command is up", func() bool { return strings.Contains(s.Out.String(), "up") })
	if err := s.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has the signal", func() bool { return strings.Contains(s.Out.String(), "usr1") })
}

// Where the program is not process 1, its children go with it.
func TestKillingTheProgramLeavesNoChild(t *testing.T) {
	s := sandbox(t, "--", "/bin/sh", "-c", "exec sleep 600")
	_, pid := begin(t, t.Context(), processes(s, ""), "echo up; exec sleep 600")
	if err := s.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Exited()
	eventually(t, "the child is gone", func() bool { return !alive(int(pid)) })
}

// descendants returns the processes below one, without zombies.
func descendants(t *testing.T, root int) map[int]bool {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	parents := map[int]int{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		raw, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		if parent, err := strconv.Atoi(fields[1]); err == nil && fields[0] != "Z" {
			parents[pid] = parent
		}
	}
	found := map[int]bool{}
	for pid := range parents {
		for at := pid; at > 1; at = parents[at] {
			if parents[at] == root {
				found[pid] = true
				break
			}
		}
	}
	return found
}

func TestACallerThatGoesAtAnyStepLeavesOnlyProcessesThatAreListed(t *testing.T) {
	s := sandbox(t)
	// The last deadlines are long enough for a start, however busy the machine is.
	began := time.Now()
	first, err := processes(s, "").Start(t.Context(), shell("true"))
	if err != nil {
		t.Fatal(err)
	}
	for first.Receive() {
	}
	first.Close()
	step := max(time.Since(began)/8, 200*time.Microsecond)
	var callers sync.WaitGroup
	for i := range 120 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*step)
		callers.Add(1)
		go func() {
			defer callers.Done()
			defer cancel()
			r := shell("exec sleep 600")
			if i%3 == 0 {
				r.Msg.Pty = &process.PTY{Size: &process.PTY_Size{Cols: 80, Rows: 24}}
			}
			stream, err := processes(s, "").Start(ctx, r)
			if err != nil {
				return
			}
			defer stream.Close()
			for stream.Receive() {
			}
		}()
	}
	callers.Wait()
	eventually(t, "every process is listed", func() bool {
		running := descendants(t, s.PID())
		for _, one := range list(t, s) {
			delete(running, int(one.GetPid()))
		}
		return len(running) == 0
	})
	if len(list(t, s)) == 0 {
		t.Fatal("no caller came as far as a process")
	}
}

func TestKillingTheProgramAtAnyStepOfAStartLeavesNoChild(t *testing.T) {
	for i := range 12 {
		s := sandbox(t)
		stop := make(chan struct{})
		var starters sync.WaitGroup
		for range 4 {
			starters.Add(1)
			go func() {
				defer starters.Done()
				for {
					select {
					case <-stop:
						return
					default:
					}
					ctx, cancel := context.WithCancel(t.Context())
					if stream, err := processes(s, "").Start(ctx, shell("exec sleep 600")); err == nil {
						stream.Receive() // the process has started, and outlives its stream
						cancel()
						stream.Close()
					}
					cancel()
				}
			}()
		}
		var running map[int]bool
		eventually(t, "something runs", func() bool {
			running = descendants(t, s.PID())
			return len(running) > i
		})
		if err := s.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-s.Exited()
		close(stop)
		starters.Wait()
		eventually(t, "no process has its variables", func() bool { return len(ofHome(s.Home)) == 0 })
	}
}

// ofHome returns the processes that have a sandbox's home among their variables.
func ofHome(home string) []string {
	var found []string
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		raw, err := os.ReadFile("/proc/" + entry.Name() + "/environ")
		if err == nil && strings.Contains(string(raw), "HOME="+home+"\x00") {
			found = append(found, entry.Name())
		}
	}
	return found
}

func TestOrphansAreReaped(t *testing.T) {
	s := sandbox(t)
	run(t, processes(s, ""), `for i in 1 2 3; do (sleep 0.05 &) ; done`)
	eventually(t, "they are counted", func() bool {
		_, body, err := harness.Get(s.Client("control", ""), s.URL+"/metrics?format=prometheus")
		return err == nil && !strings.Contains(body, "workspaced_orphans_reaped_total 0\n") && strings.Contains(body, "workspaced_orphans_reaped_total")
	})
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(s.PID()) + "/task/" + strconv.Itoa(s.PID()) + "/children")
	if err == nil && len(raw) > 0 {
		t.Logf("children: %s", raw)
	}
}

func TestBusyJobsAndIdleTime(t *testing.T) {
	s := sandbox(t)
	run(t, processes(s, ""), `touch -d '+1 hour' "$WORKSPACE_BUSY_DIR/train"`)
	one := status(t, s)
	if !one.Busy || len(one.Jobs) != 1 || one.Jobs[0].Name != "train" || one.Open != 0 {
		t.Fatalf("%+v", one)
	}
	run(t, processes(s, ""), `rm "$WORKSPACE_BUSY_DIR/train"`)
	if status(t, s).Busy {
		t.Fatal("still busy")
	}
	begin(t, t.Context(), processes(s, ""), "echo up; sleep 600")
	if one := status(t, s); one.Open != 1 || one.Idle != 0 {
		t.Fatalf("%+v", one)
	}
}

func TestInit(t *testing.T) {
	s := sandbox(t)
	post := func(document string) int {
		response, err := s.Client("control", "").Post(s.URL+"/init", "application/json", strings.NewReader(document))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
	if code := post(`{"envVars":{"A":"b","WORKSPACED_X":"y"},"defaultWorkdir":"/tmp","timestamp":"2026-01-01T00:00:00Z"}`); code != 204 {
		t.Fatal(code)
	}
	if r := run(t, processes(s, ""), "echo $A $WORKSPACED_X; pwd"); r.stdout != "b\n/tmp\n" {
		t.Fatalf("%+v", r)
	}
	for _, document := range []string{`{"volumeMounts":[{"path":"/x","nfs_target":"y"}]}`, `{"caBundle":"x"}`, `{"defaultUser":"nobody-here"}`, `{`} {
		if code := post(document); code != 400 {
			t.Errorf("%s: %d", document, code)
		}
	}
}

// As in a pod: process 1 of a namespace of its own.
func TestAsProcessOne(t *testing.T) {
	need(t, "unshare")
	if os.Geteuid() != 0 {
		t.Skip("needs root: a process namespace is made")
	}
	wrapper := filepath.Join(t.TempDir(), "wrapper")
	content := "#!/bin/sh\nexec unshare --pid --fork --mount-proc --kill-child " + program + " \"$@\"\n"
	if err := os.WriteFile(wrapper, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "true").Run(); err != nil {
		t.Skip("no process namespaces here:", err)
	}
	s, err := harness.Start(wrapper, t.TempDir(), "--grace", "1s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	c := processes(s, "")
	if r := run(t, c, `echo $PPID; tr '\0' ' ' < /proc/1/cmdline`); !strings.HasPrefix(r.stdout, "1\n") || !strings.Contains(r.stdout, " run ") {
		t.Fatalf("%+v", r)
	}
	// A double fork becomes its child; a session of its own hides from its caller.
	run(t, c, `for i in 1 2 3; do (setsid sh -c 'trap "" TERM; sleep 600; true' >/dev/null 2>&1 &); done; (sleep 0.01 &)`)
	eventually(t, "orphans are collected", func() bool {
		_, body, err := harness.Get(s.Client("control", ""), s.URL+"/metrics?format=prometheus")
		return err == nil && !strings.Contains(body, "workspaced_orphans_reaped_total 0\n")
	})
	if r := run(t, c, `for one in /proc/[0-9]*/stat; do cat $one; done 2>/dev/null | grep -c ") Z"; true`); r.stdout != "0\n" {
		t.Fatalf("zombies: %s", r.stdout)
	}
	if total := status(t, s).Processes.Total; total < 3 {
		t.Fatalf("%d processes", total)
	}
	stream, _ := begin(t, t.Context(), c, `trap "echo asked; exit 3" TERM; echo up; while :; do sleep 0.05; done`)
	if _, err := s.Client("control", "").Post(s.URL+"/suspend", "", nil); err != nil {
		t.Fatal(err)
	}
	var r result
	for stream.Receive() {
		r.add(stream.Msg().GetEvent())
	}
	if r.stdout != "asked\n" || r.end.GetExitCode() != 3 {
		t.Fatalf("%+v %v", r, stream.Err())
	}
	<-s.Exited()
	if s.ExitCode() != 0 {
		t.Fatalf("exit code %d: %s", s.ExitCode(), s.Log)
	}
}
