package process

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"workspaced/internal/account"
	"workspaced/internal/output"
	"workspaced/internal/procs"
	"workspaced/internal/reaper"
)

// ErrTooMany says that the bound on processes is reached; ErrStopping that the
// sandbox is being stopped.
var (
	ErrTooMany  = errors.New("too many processes")
	ErrStopping = errors.New("the sandbox is stopping")
)

// Limits bound what a manager holds.
type Limits struct {
	Processes int           // running at once
	Finished  int           // remembered for those who attach later
	Remember  time.Duration // how long
	Replay    int           // bytes of output kept for each process
	Stall     time.Duration // how long a reader may take nothing
}

// DefaultLimits fit the figures of a sandbox: hundreds of processes in 30 MB.
var DefaultLimits = Limits{
	Processes: 1024, Finished: 64, Remember: time.Minute,
	Replay: output.DefaultLimit, Stall: output.DefaultStall,
}

// Manager starts and finds processes.
type Manager struct {
	limits Limits
	reaper *reaper.Reaper
	env    *account.Environment
	touch  func()

	mu       sync.Mutex
	running  map[int]*Process
	past     []*Process
	starting int
	stopping bool
	started  uint64
}

// NewManager returns a manager. It calls touch whenever there is output or input.
func NewManager(r *reaper.Reaper, env *account.Environment, limits Limits, touch func()) *Manager {
	return &Manager{limits: limits, reaper: r, env: env, touch: touch, running: map[int]*Process{}}
}

// Start starts a process. A timeout other than 0 kills it when it is over.
func (m *Manager) Start(spec Spec, timeout time.Duration) (*Process, error) {
	if err := m.reserve(); err != nil {
		return nil, err
	}
	defer m.unreserve()
	if _, err := os.Stat(spec.Account.Home); spec.Dir == "" && err != nil {
		spec.Dir = "/" // a user of the image without a home
	}
	spec.Dir = spec.Account.Resolve(spec.Dir)
	if info, err := os.Stat(spec.Dir); err != nil {
		return nil, fmt.Errorf("%w: working directory %q: %w", ErrInvalid, spec.Dir, err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%w: working directory %q is no directory", ErrInvalid, spec.Dir)
	}
	if strings.ContainsRune(strings.Join(spec.Args, "")+spec.Command, 0) {
		return nil, fmt.Errorf("%w: a NUL byte in the arguments", ErrInvalid)
	}
	env := m.env.For(spec.Account, spec.Envs)
	path, err := locate(spec.Command, spec.Dir, env)
	if err != nil {
		return nil, err
	}
	e, err := open(spec)
	if err != nil {
		return nil, fmt.Errorf("open descriptors: %w", err)
	}
	defer e.closeChild()
	p := &Process{
		Spec: spec, manager: m, Output: output.New(m.limits.Replay, m.limits.Stall),
		ended: make(chan struct{}), exit: make(chan reaper.Exit, 1),
		turn: make(chan struct{}, 1), input: e.input, tty: e.tty,
	}
	files, sys := attributes(spec, e)
	name := spec.Name
	if name == "" {
		name = spec.Command
	}
	_, err = m.reaper.Start(reaper.Attr{
		Path: path, Args: append([]string{name}, spec.Args...), Env: env, Dir: spec.Dir,
		Files: files, Sys: sys,
		Started: func(pid int) {
			p.PID = pid
			m.mu.Lock()
			m.running[pid] = p
			m.started++
			m.mu.Unlock()
		},
	}, func(exit reaper.Exit) { p.exit <- exit })
	if err != nil {
		e.closeOwn()
		return nil, startError(spec, err)
	}
	p.pump(e)
	if timeout > 0 {
		p.timer = time.AfterFunc(timeout, func() { _ = p.Signal(syscall.SIGKILL) })
	}
	go p.supervise()
	return p, nil
}

func startError(spec Spec, err error) error {
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return fmt.Errorf("%w: the limit of the sandbox is reached", ErrTooMany)
	case errors.Is(err, syscall.E2BIG), errors.Is(err, syscall.ENAMETOOLONG): // the latter by gVisor
		return fmt.Errorf("%w %q: an argument or variable has more than 128 KiB, or all of them more than the system takes; write it to a file", ErrInvalid, spec.Command)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w %q: neither a program of this machine's architecture nor a script with #! and its interpreter", ErrInvalid, spec.Command)
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%w %q: its interpreter or loader is missing in the image", ErrInvalid, spec.Command)
	}
	return fmt.Errorf("%w %q: %w", ErrInvalid, spec.Command, err)
}

func (p *Process) pump(e *ends) {
	add := func(file *os.File, kind output.Kind) {
		one := &pump{file: file, done: make(chan struct{})}
		p.pumps = append(p.pumps, one)
		go one.run(kind, p.Output, p.manager.touch)
	}
	if e.tty != nil {
		add(e.tty, output.PTY)
		return
	}
	add(e.stdout, output.Stdout)
	add(e.stderr, output.Stderr)
}

func (m *Manager) reserve() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopping {
		return ErrStopping
	}
	if len(m.running)+m.starting >= m.limits.Processes {
		return fmt.Errorf("%w: %d run already", ErrTooMany, len(m.running))
	}
	m.starting++
	return nil
}

func (m *Manager) unreserve() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.starting--
}

func (m *Manager) finished(p *Process) {
	if p.tty != nil {
		p.tty.Close()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.running, p.PID)
	m.forget()
	if m.limits.Finished > 0 {
		if len(m.past) >= m.limits.Finished {
			m.past = slices.Delete(m.past, 0, 1)
		}
		m.past = append(m.past, p)
	}
	time.AfterFunc(m.limits.Remember+time.Second, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.forget()
	})
}

func (m *Manager) forget() {
	m.past = slices.DeleteFunc(m.past, func(p *Process) bool {
		return time.Since(p.endedAt) > m.limits.Remember
	})
}

// Stop refuses new processes from now on.
func (m *Manager) Stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopping = true
}

// HangUpShells hangs up the interactive shells whose jobs have all ended: such shells
// ignore SIGTERM, and would be waited for until the grace is over.
func (m *Manager) HangUpShells(left []procs.Process) {
	sessions := map[int]int{}
	for _, one := range left {
		sessions[one.Session]++
	}
	for _, p := range m.List() {
		if p.Spec.interactive() && sessions[p.PID] == 1 {
			_ = p.Signal(syscall.SIGHUP)
		}
	}
}

// Stopping reports whether the sandbox is being stopped.
func (m *Manager) Stopping() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stopping
}

// List returns the running processes by pid.
func (m *Manager) List() []*Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*Process, 0, len(m.running))
	for _, p := range m.running {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *Process) int { return a.PID - b.PID })
	return all
}

// Started returns how many processes were started.
func (m *Manager) Started() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.started
}

// ByPID returns a running process, or one that ended a short time ago.
func (m *Manager) ByPID(pid int) (*Process, error) {
	return m.find(func(p *Process) bool { return p.PID == pid })
}

// ByTag returns the newest process with a tag.
func (m *Manager) ByTag(tag string) (*Process, error) {
	return m.find(func(p *Process) bool { return p.Spec.Tag != "" && p.Spec.Tag == tag })
}

func (m *Manager) find(match func(*Process) bool) (*Process, error) {
	var newest *Process
	for _, p := range m.List() {
		if match(p) && (newest == nil || p.PID > newest.PID) {
			newest = p
		}
	}
	if newest != nil {
		return newest, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	for _, p := range slices.Backward(m.past) {
		if match(p) {
			return p, nil
		}
	}
	return nil, ErrNotFound
}
