// Package integration tests the built program from outside: its promises to the
// service, to callers, and to the processes of a sandbox.
package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"workspaced/gen/process"
	"workspaced/gen/process/processconnect"
	"workspaced/internal/harness"
)

const everything = "api ssh ports control"

var program, tools string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "workspaced-build-")
	if err == nil {
		err = os.Chmod(folder, 0o755) // some tests run it as another user
	}
	if err == nil {
		program, err = harness.Build(folder, "workspaced")
	}
	if err == nil {
		tools, err = harness.Build(folder, "workspaced-dev")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

func sandbox(t *testing.T, options ...string) *harness.Sandbox {
	t.Helper()
	s, err := harness.Start(program, t.TempDir(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Stop()
		if log := s.Log.String(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic") {
			t.Errorf("the program's log: %s", log)
		}
	})
	return s
}

// ordinary runs a sandbox as a user without rights; root may look into everything.
func ordinary(t *testing.T) (s *harness.Sandbox, uid int) {
	t.Helper()
	uid = os.Geteuid()
	if uid == 0 {
		uid = 54321
	}
	folder := t.TempDir()
	for _, one := range []string{folder, filepath.Dir(folder)} {
		if err := os.Chmod(one, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s, err := harness.StartAs(uid, program, folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s, uid
}

func processes(s *harness.Sandbox, session string) processconnect.ProcessClient {
	return s.Processes(s.Client(everything, session))
}

func shell(script string) *connect.Request[process.StartRequest] {
	closed := false
	return connect.NewRequest(&process.StartRequest{
		Process: &process.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", script}}, Stdin: &closed,
	})
}

// result is what a stream of a process brought.
type result struct {
	pid    uint32
	stdout string
	stderr string
	end    *process.ProcessEvent_EndEvent
}

func (r *result) add(event *process.ProcessEvent) {
	switch one := event.GetEvent().(type) {
	case *process.ProcessEvent_Start:
		r.pid = one.Start.GetPid()
	case *process.ProcessEvent_Data:
		r.stdout += string(one.Data.GetStdout()) + string(one.Data.GetPty())
		r.stderr += string(one.Data.GetStderr())
	case *process.ProcessEvent_End:
		r.end = one.End
	}
}

// run runs a script to its end.
func run(t *testing.T, c processconnect.ProcessClient, script string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	stream, err := c.Start(ctx, shell(script))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var r result
	for stream.Receive() {
		r.add(stream.Msg().GetEvent())
	}
	if stream.Err() != nil || r.end == nil {
		t.Fatalf("%s: %v %+v", script, stream.Err(), r)
	}
	return r
}

// begin starts a script and returns its stream once it has printed a line.
func begin(t *testing.T, ctx context.Context, c processconnect.ProcessClient, script string) (*connect.ServerStreamForClient[process.StartResponse], uint32) {
	t.Helper()
	stream, err := c.Start(ctx, shell(script))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stream.Close() })
	var r result
	for r.stdout == "" {
		if !stream.Receive() {
			t.Fatalf("%v %+v", stream.Err(), r)
		}
		r.add(stream.Msg().GetEvent())
	}
	return stream, r.pid
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatal("not within 30 s: " + what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
