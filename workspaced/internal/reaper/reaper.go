// Package reaper starts child processes and collects every process that ends.
//
// Orphans of the sandbox become children of this process (as process 1, or as a
// child subreaper), so all of them are waited for in one place. Nothing else in the
// program may wait for a process.
package reaper

import (
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
)

// Exit is how a process ended.
type Exit struct {
	Status syscall.WaitStatus
	Usage  syscall.Rusage
}

// Attr is what a process is started with.
type Attr struct {
	Path    string
	Args    []string
	Env     []string
	Dir     string
	Files   []uintptr
	Sys     *syscall.SysProcAttr
	Started func(pid int) // called before its end can be seen
}

// Reaper starts and collects processes.
type Reaper struct {
	starts chan request

	// mu is held while a process starts, is signalled or is collected: a pid that
	// is registered therefore names the process that was started.
	mu      sync.Mutex
	running map[int]func(Exit)
	orphans uint64
}

type request struct {
	attr   Attr
	exited func(Exit)
	answer chan<- result
}

type result struct {
	pid int
	err error
}

// New starts collecting. There may be one reaper in a process.
func New() *Reaper {
	r := &Reaper{starts: make(chan request), running: map[int]func(Exit){}}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGCHLD)
	go r.startLoop()
	go func() {
		for range changed {
			r.Collect()
		}
	}()
	r.Collect()
	return r
}

// Start starts a process and calls exited once when it has ended.
func (r *Reaper) Start(attr Attr, exited func(Exit)) (int, error) {
	if attr.Sys == nil || attr.Sys.Pdeathsig == 0 {
		return r.fork(attr, exited) // any thread will do, and none has to be woken for it
	}
	answer := make(chan result, 1)
	r.starts <- request{attr, exited, answer}
	got := <-answer
	return got.pid, got.err
}

// startLoop forks from a thread that never ends: the parent-death signal of a
// child is sent when the thread that forked it ends.
func (r *Reaper) startLoop() {
	runtime.LockOSThread()
	for one := range r.starts {
		pid, err := r.fork(one.attr, one.exited)
		one.answer <- result{pid, err}
	}
}

func (r *Reaper) fork(attr Attr, exited func(Exit)) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(attr.Path, attr.Args, &syscall.ProcAttr{
		Dir: attr.Dir, Env: attr.Env, Files: attr.Files, Sys: attr.Sys,
	})
	if err != nil {
		return 0, err
	}
	r.running[pid] = exited
	if attr.Started != nil {
		attr.Started(pid)
	}
	return pid, nil
}

// Collect waits for every process that has ended.
func (r *Reaper) Collect() {
	for {
		var exit Exit
		r.mu.Lock()
		pid, err := syscall.Wait4(-1, &exit.Status, syscall.WNOHANG, &exit.Usage)
		if err == syscall.EINTR {
			r.mu.Unlock()
			continue
		}
		if err != nil || pid <= 0 {
			r.mu.Unlock()
			return
		}
		exited := r.running[pid]
		delete(r.running, pid)
		if exited == nil {
			r.orphans++
		}
		r.mu.Unlock()
		if exited != nil {
			exited(exit)
		}
	}
}

// Signal sends a signal to the process group of a process that still runs.
func (r *Reaper) Signal(pid int, signal syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[pid] == nil {
		return syscall.ESRCH
	}
	return syscall.Kill(-pid, signal)
}

// Orphans returns how many processes were collected that nobody had started here.
func (r *Reaper) Orphans() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.orphans
}
