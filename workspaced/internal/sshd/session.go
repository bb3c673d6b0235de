package sshd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"

	"workspaced/internal/output"
	"workspaced/internal/process"
)

const maxVariables = 256

// session is a session channel before and after its program has started.
type session struct {
	*connection
	channel  ssh.Channel
	envs     map[string]string
	terminal *process.Size
	started  bool
	process  *process.Process // nil where it could not start
}

func (c *connection) session(ctx context.Context, opening ssh.NewChannel) {
	channel, requests, err := opening.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	s := &session{connection: c, channel: channel, envs: map[string]string{}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	for {
		select {
		case request, ok := <-requests:
			if !ok { // the caller is gone
				s.abandon()
				return
			}
			accepted := s.handle(ctx, request, done)
			if request.WantReply {
				_ = request.Reply(accepted, nil)
			}
		case <-done:
			return
		case <-ctx.Done():
			s.abandon()
			return
		}
	}
}

// abandon hangs a terminal up. A program without one loses its input and runs on.
func (s *session) abandon() {
	if s.process == nil {
		return
	}
	if s.process.Spec.Terminal != nil {
		s.process.HangUp()
	} else {
		_ = s.process.CloseInput()
	}
}

func (s *session) handle(ctx context.Context, request *ssh.Request, done chan<- struct{}) bool {
	switch request.Type {
	case "env":
		name, value, ok := parseEnv(request.Payload)
		if !ok || len(s.envs) >= maxVariables || s.started {
			return false
		}
		s.envs[name] = value
		return true
	case "pty-req":
		term, size, ok := parseTerminal(request.Payload)
		if !ok || s.started {
			return false
		}
		s.terminal, s.envs["TERM"] = &size, term
		return true
	case "window-change":
		size, ok := parseWindow(request.Payload)
		return ok && s.process != nil && s.process.Resize(size) == nil
	case "signal":
		signal, ok := parseSignal(request.Payload)
		return ok && s.process != nil && s.process.Signal(signal) == nil
	case "auth-agent-req@openssh.com":
		path, err := s.forwardAgent()
		if err == nil {
			s.envs["SSH_AUTH_SOCK"] = path
		}
		return err == nil
	case "shell":
		return !s.started && s.run(ctx, "", done)
	case "exec":
		command, ok := parseString(request.Payload)
		return ok && !s.started && s.run(ctx, command, done)
	case "subsystem":
		name, ok := parseString(request.Payload)
		if !ok || name != "sftp" || s.started {
			return false
		}
		// A process of the account does the work: with its rights, and its memory
		// is not this program's.
		return s.start(ctx, process.Spec{Command: "/proc/self/exe", Name: "sftp-server", Args: []string{"sftp-server"}, Stdin: true, Tag: "sftp"}, done)
	}
	return false
}

// run starts the account's shell, for a command or as a login shell.
func (s *session) run(ctx context.Context, command string, done chan<- struct{}) bool {
	s.started = true
	shell := s.who.Shell
	if shell == "" {
		go s.fail(127, "workspaced: the image of this sandbox has no shell (neither /bin/bash nor /bin/sh); add one to it", done)
		return true
	}
	spec := process.Spec{Command: shell, Stdin: true, Terminal: s.terminal, Tag: "ssh"}
	if command == "" {
		spec.Name = "-" + filepath.Base(shell)
	} else {
		spec.Args = []string{"-c", command}
	}
	return s.start(ctx, spec, done)
}

func (s *session) start(ctx context.Context, spec process.Spec, done chan<- struct{}) bool {
	s.started = true
	s.envs["SSH_CONNECTION"] = "127.0.0.1 0 127.0.0.1 22"
	spec.Account, spec.Envs = s.who, s.envs
	p, err := s.processes.Start(spec, 0)
	if err != nil {
		go s.fail(126, "workspaced: "+err.Error(), done)
		return true
	}
	s.process = p
	go s.feed(ctx, p)
	go s.deliver(ctx, p, done)
	return true
}

// fail tells why there is no program, as a shell would.
func (s *session) fail(code uint32, message string, done chan<- struct{}) {
	defer close(done)
	fmt.Fprint(s.channel.Stderr(), message+"\r\n")
	_ = s.channel.CloseWrite()
	_, _ = s.channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{code}))
}

// feed passes the caller's input on.
func (s *session) feed(ctx context.Context, p *process.Process) {
	terminal := p.Spec.Terminal != nil
	size := 32 << 10
	if terminal {
		size = 4 << 10
	}
	buffer := make([]byte, size)
	for {
		count, err := s.channel.Read(buffer)
		if count > 0 {
			if failed := p.Write(ctx, terminal, buffer[:count]); failed != nil {
				// The window stays open, or the caller would wait for ever.
				_, _ = io.Copy(io.Discard, s.channel)
				return
			}
		}
		if err != nil {
			if !terminal {
				_ = p.CloseInput()
			}
			return
		}
	}
}

// deliver passes the program's output and its end on to the caller.
func (s *session) deliver(ctx context.Context, p *process.Process, done chan<- struct{}) {
	defer close(done)
	reader := p.Output.AttachBlocking()
	defer reader.Detach()
	for {
		chunk, err := reader.Next(ctx, 0)
		if errors.Is(err, output.ErrEnd) {
			break
		}
		if err != nil {
			return
		}
		to := io.Writer(s.channel)
		if chunk.Kind == output.Stderr {
			to = s.channel.Stderr()
		}
		if _, err := to.Write(chunk.Data); err != nil {
			return
		}
	}
	<-p.Ended()
	_ = s.channel.CloseWrite()
	end := p.End()
	if end.Signal != 0 {
		_, _ = s.channel.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Name    string
			Core    bool
			Message string
			Lang    string
		}{signalName(end.Signal), strings.Contains(end.Status, "core"), end.Status, ""}))
		return
	}
	_, _ = s.channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(end.Code)}))
}

var signals = map[string]syscall.Signal{
	"ABRT": syscall.SIGABRT, "ALRM": syscall.SIGALRM, "FPE": syscall.SIGFPE, "HUP": syscall.SIGHUP,
	"ILL": syscall.SIGILL, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "PIPE": syscall.SIGPIPE,
	"QUIT": syscall.SIGQUIT, "SEGV": syscall.SIGSEGV, "TERM": syscall.SIGTERM, "USR1": syscall.SIGUSR1,
	"USR2": syscall.SIGUSR2,
}

func signalName(number syscall.Signal) string {
	for name, one := range signals {
		if one == number {
			return name
		}
	}
	return "KILL"
}
