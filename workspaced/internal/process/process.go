// Package process runs the processes of callers: with pipes or a terminal, in a
// session of their own, for as long as they run and not as long as somebody looks.
package process

import (
	"context"
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"workspaced/internal/output"
	"workspaced/internal/procs"
	"workspaced/internal/reaper"
)

// Errors of input and signals.
var (
	ErrNotFound   = errors.New("no such process")
	ErrNoTerminal = errors.New("the process has no terminal")
	ErrNoStdin    = errors.New("the standard input of the process is closed or was not requested")
)

// End is how a process ended.
type End struct {
	Code   int // -1 after a signal
	Exited bool
	Signal syscall.Signal
	Status string
}

// Process is a started process.
type Process struct {
	PID    int
	Spec   Spec
	Output *output.Buffer

	manager *Manager
	ended   chan struct{} // closed once End is known and the output is complete
	exit    chan reaper.Exit
	end     End
	endedAt time.Time
	timer   *time.Timer
	pumps   []*pump
	tty     *os.File

	turn  chan struct{} // held by the one who writes input
	input *os.File
}

// Ended returns a channel that is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// End returns how the process ended; it is valid after Ended.
func (p *Process) End() End { return p.end }

// Running reports whether the process runs.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Write writes to the standard input or the terminal of the process. It blocks
// while the process does not read, until the context is done.
func (p *Process) Write(ctx context.Context, terminal bool, data []byte) error {
	if terminal != (p.Spec.Terminal != nil) {
		if terminal {
			return ErrNoTerminal
		}
		return ErrNoStdin
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	target := p.input
	if terminal {
		target = p.tty
	}
	if target == nil || !p.Running() {
		return ErrNoStdin
	}
	_ = target.SetWriteDeadline(time.Time{})
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = target.SetWriteDeadline(time.Unix(1, 0))
	})
	defer func() {
		if !stop() {
			<-interrupted
		}
	}()
	_, err := target.Write(data)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) {
		return ErrNoStdin
	}
	p.manager.touch()
	return err
}

// CloseInput closes the standard input.
func (p *Process) CloseInput() error {
	if p.Spec.Terminal != nil {
		return ErrNoStdin
	}
	// Without waiting for a turn: closing ends a write that is blocked.
	if p.input == nil {
		return ErrNoStdin
	}
	if err := p.input.Close(); err != nil {
		return ErrNoStdin
	}
	return nil
}

// Resize sets the size of the terminal.
func (p *Process) Resize(size Size) error {
	if p.tty == nil {
		return ErrNoTerminal
	}
	raw, err := p.tty.SyscallConn()
	if err != nil {
		return ErrNotFound
	}
	var inner error
	err = raw.Control(func(fd uintptr) {
		inner = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: size.Cols, Row: size.Rows})
	})
	return errors.Join(err, inner)
}

// Signal signals the process group, and the whole session where the signal ends
// processes: jobs of a shell have groups of their own.
func (p *Process) Signal(signal syscall.Signal) error {
	if err := p.manager.reaper.Signal(p.PID, signal); err != nil {
		return ErrNotFound
	}
	switch signal {
	case syscall.SIGKILL, syscall.SIGTERM, syscall.SIGHUP:
		procs.SignalSession(p.PID, signal)
	}
	return nil
}

// HangUp closes the terminal and hangs up its session, as when a terminal's window
// is closed.
func (p *Process) HangUp() {
	if p.tty != nil {
		_ = p.Signal(syscall.SIGHUP)
		_ = p.Signal(syscall.SIGCONT)
		p.tty.Close()
	}
}

// supervise waits for the end of a process and for its output.
func (p *Process) supervise() {
	exit := <-p.exit
	p.drain()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.end = describe(exit.Status)
	p.endedAt = time.Now()
	close(p.ended)
	p.Output.Close()
	if p.input != nil {
		p.input.Close()
	}
	p.manager.finished(p)
}

func describe(status syscall.WaitStatus) End {
	if status.Signaled() {
		text := "signal: " + status.Signal().String()
		if status.CoreDump() {
			text += " (core dumped)"
		}
		return End{Code: -1, Signal: status.Signal(), Status: text}
	}
	return End{Code: status.ExitStatus(), Exited: true, Status: "exit status " + strconv.Itoa(status.ExitStatus())}
}
