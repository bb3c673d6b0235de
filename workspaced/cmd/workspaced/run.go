package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"workspaced/internal/access"
	"workspaced/internal/account"
	"workspaced/internal/activity"
	"workspaced/internal/boot"
	"workspaced/internal/metrics"
	"workspaced/internal/output"
	"workspaced/internal/process"
	"workspaced/internal/procs"
	"workspaced/internal/reaper"
	"workspaced/internal/relay"
	"workspaced/internal/server"
	"workspaced/internal/sshd"
	"workspaced/internal/token"
	"workspaced/internal/worktree"
)

// run serves until the sandbox stops, and returns the exit code.
func run(arguments []string) (int, error) {
	o, err := parse(arguments)
	if err != nil {
		return 2, err
	}
	boot.Harden()
	debug.SetGCPercent(50) // a small heap: collecting more often costs less than memory
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	// A log whose reader is gone must not end the sandbox; ignored signals would be
	// inherited by children, handled ones are not.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	keys, err := token.OpenFile(o.keys)
	if err != nil {
		return 1, err
	}
	environment := account.NewEnvironment(os.Environ())
	environment.Set(map[string]string{account.BusyVariable: o.busyDir})
	if err := os.MkdirAll(o.busyDir, 0o777); err == nil && os.Geteuid() == 0 {
		_ = os.Chmod(o.busyDir, 0o1777) // other users of the image have jobs too
	}
	tracker := activity.New(o.busyDir)
	reap := reaper.New()
	limits := process.DefaultLimits
	limits.Replay, limits.Processes = o.replay, o.maxProcesses
	processes := process.NewManager(reap, environment, limits, tracker.Touch)
	accounts := account.NewDirectory("/etc/passwd", o.name, o.home)
	if err := account.WriteProfile(accounts.Self()); err != nil {
		slog.Warn("profile", "error", err.Error())
	}
	if err := environment.Restore(accounts.Self()); err != nil {
		slog.Warn("variables", "error", err.Error())
	}
	hostKey, err := sshd.LoadHostKey(o.hostKey)
	if err != nil {
		return 1, err
	}
	port, err := portOf(o.listen)
	if err != nil {
		return 2, err
	}
	work, err := openWorkTree(o)
	if err != nil {
		return 1, err
	}
	command := &command{}
	stop := make(chan struct{})
	s := server.New(server.Parts{
		Version: version, Gate: access.NewGate(keys, o.podUID), Keys: keys, Activity: tracker,
		Accounts: accounts, Environment: environment, Processes: processes, Reaper: reap,
		Metrics: metrics.NewReader("", accounts.Self().Home), Relay: relay.New(port),
		SSH:     sshd.New(processes, accounts, hostKey, func(to int) bool { return to == port }),
		Suspend: sync.OnceFunc(func() { close(stop) }), Command: command.state, OpenHealth: o.openHealth,
		WorkTree: work,
	})
	ended := command.start(processes, accounts.Self(), o)
	ctx, cancel := context.WithCancel(context.Background())
	if work != nil {
		go work.Run(ctx, o.workInterval)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, o.listen) }()

	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	slog.Info("started", "version", version, "listen", o.listen, "pid", os.Getpid())
	err = wait(o, command, signals, stop, ended, served)

	slog.Info("stopping", "grace", o.grace.String())
	s.Drain()
	if left := procs.StopAll(o.grace, processes.HangUpShells); left != nil {
		slog.Error("stop", "error", left.Error())
	}
	flush(work, o.workFlush)
	command.delivered()
	cancel()
	if err == nil {
		<-served
	}
	return command.code(), err
}

// wait waits for a reason to stop, and passes other signals on to the command.
func wait(o options, command *command, signals <-chan os.Signal, stop, ended <-chan struct{}, served <-chan error) error {
	for {
		select {
		case one := <-signals:
			number, ok := one.(syscall.Signal)
			if !ok {
				continue
			}
			if number == syscall.SIGTERM || number == syscall.SIGINT && !command.running() {
				return nil
			}
			command.signal(number)
		case <-stop:
			return nil
		case <-ended:
			if o.commandEnds == "exit" {
				return nil
			}
			ended = nil
		case err := <-served:
			return fmt.Errorf("serve: %w", err)
		}
	}
}

// openWorkTree opens the work tree, if the class has one, and fills it from its store:
// nothing runs before that.
func openWorkTree(o options) (*worktree.Tree, error) {
	if o.workTree == "" {
		return nil, nil
	}
	work, err := worktree.Open(o.workTree, o.workStore)
	if err != nil {
		return nil, fmt.Errorf("work tree: %w", err)
	}
	if err := work.Restore(context.Background()); err != nil {
		return nil, fmt.Errorf("work tree: %w", err)
	}
	return work, nil
}

// flush brings the last changes of the work tree to its store.
func flush(work *worktree.Tree, within time.Duration) {
	if work == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	began := time.Now()
	if err := work.Sync(ctx); err != nil {
		slog.Error("work tree", "error", err.Error(), "synced_at", work.State().Synced)
		return
	}
	slog.Info("work tree synchronised", "seconds", time.Since(began).Seconds())
}

// portOf returns this program's own port; 0 where it listens on a Unix socket.
func portOf(address string) (int, error) {
	if strings.HasPrefix(address, "unix:") {
		return 0, nil
	}
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return 0, fmt.Errorf("--listen: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		return 0, fmt.Errorf("--listen: %q is no port", text)
	}
	return port, nil
}

// command is the class's command, if it has one.
type command struct {
	process  *process.Process
	err      error
	finished chan struct{} // its output was forwarded
}

// start starts the command. The channel is closed when it has ended.
func (c *command) start(m *process.Manager, self account.Account, o options) <-chan struct{} {
	if len(o.command) == 0 {
		return nil
	}
	dir, _ := os.Getwd()
	c.process, c.err = m.Start(process.Spec{
		Command: o.command[0], Args: o.command[1:], Dir: dir, Account: self, Tag: "command",
	}, 0)
	c.finished = make(chan struct{})
	if c.err != nil {
		slog.Error("command", "error", c.err.Error())
		close(c.finished)
		return c.finished
	}
	go c.forward()
	return c.process.Ended()
}

// forward copies the command's output to this program's. If nobody takes that, the
// command is held back: nothing piles up here.
func (c *command) forward() {
	defer close(c.finished)
	reader := c.process.Output.AttachBlocking()
	defer reader.Detach()
	for {
		chunk, err := reader.Next(context.Background(), 0)
		if err != nil {
			return
		}
		to := os.Stdout
		if chunk.Kind == output.Stderr {
			to = os.Stderr
		}
		if _, err := to.Write(chunk.Data); errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EPIPE) {
			return
		}
	}
}

func (c *command) running() bool { return c.process != nil && c.process.Running() }

func (c *command) signal(number syscall.Signal) {
	if c.process != nil {
		_ = c.process.Signal(number)
	}
}

// delivered waits for the command's last output, if somebody takes it.
func (c *command) delivered() {
	if c.finished == nil {
		return
	}
	select {
	case <-c.finished:
	case <-time.After(2 * time.Second):
	}
}

func (c *command) state() server.CommandState { return server.State(c.process, c.err) }

func (c *command) code() int {
	if state := c.state(); state.Exit != nil {
		return *state.Exit
	}
	return 0
}
