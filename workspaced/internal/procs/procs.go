// Package procs reads the process table and signals every process of the sandbox.
package procs

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Process is a row of the process table.
type Process struct {
	PID, Parent, Session int
	State                byte
}

// All returns the processes that this one can see, but not itself.
func All() []Process {
	folder, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer folder.Close()
	var all []Process
	for {
		names, err := folder.Readdirnames(256)
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil || pid == os.Getpid() {
				continue
			}
			raw, err := os.ReadFile("/proc/" + name + "/stat")
			if err != nil {
				continue
			}
			if one, ok := parseStat(raw); ok {
				all = append(all, one)
			}
		}
		if err != nil || len(names) == 0 {
			return all
		}
	}
}

// parseStat reads /proc/<pid>/stat; the command in it may hold anything. A process that
// is collected meanwhile has the pid 0 there under gVisor, and still its session: a
// signal to 0 would reach this process and all of its group.
func parseStat(raw []byte) (Process, bool) {
	open, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 1 || end < open {
		return Process{}, false
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(raw[:open])))
	fields := bytes.Fields(raw[end+1:])
	if err != nil || pid < 1 || len(fields) < 4 {
		return Process{}, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	session, err2 := strconv.Atoi(string(fields[3]))
	if err1 != nil || err2 != nil {
		return Process{}, false
	}
	return Process{PID: pid, Parent: parent, Session: session, State: fields[0][0]}, true
}

// Sandbox returns the living processes of the sandbox: all that process 1 sees, or
// the descendants of this one where it is not process 1.
func Sandbox() []Process {
	all := All()
	own := os.Getpid()
	parents := make(map[int]int, len(all))
	for _, one := range all {
		parents[one.PID] = one.Parent
	}
	living := all[:0]
	for _, one := range all {
		if one.State == 'Z' || one.State == 'X' {
			continue
		}
		if own == 1 || descends(one.PID, own, parents) {
			living = append(living, one)
		}
	}
	return living
}

func descends(pid, from int, parents map[int]int) bool {
	for range len(parents) + 1 {
		parent, found := parents[pid]
		if !found || parent == 0 {
			return false
		}
		if parent == from {
			return true
		}
		pid = parent
	}
	return false
}

// SignalSession signals every process of a session.
func SignalSession(session int, signal syscall.Signal) {
	for _, one := range All() {
		if one.Session == session {
			_ = syscall.Kill(one.PID, signal)
		}
	}
}

// SignalAll signals every process of the sandbox.
func SignalAll(signal syscall.Signal) {
	if os.Getpid() == 1 {
		_ = syscall.Kill(-1, signal)
		return
	}
	for _, one := range Sandbox() {
		_ = syscall.Kill(one.PID, signal)
	}
}

// ErrLeft says that processes outlived SIGKILL, as those in a hanging system call.
var ErrLeft = errors.New("processes are left")

// StopAll sends SIGTERM to every process, and SIGKILL to what is left after the
// grace. Processes that start meanwhile are signalled too. waiting is called with
// what is left while the grace lasts.
func StopAll(grace time.Duration, waiting func([]Process)) error {
	const poll = 20 * time.Millisecond
	deadline := time.Now().Add(grace)
	SignalAll(syscall.SIGTERM)
	SignalAll(syscall.SIGCONT) // a stopped process ends only once it continues
	for time.Now().Before(deadline) {
		left := Sandbox()
		if len(left) == 0 {
			return nil
		}
		waiting(left)
		time.Sleep(poll)
	}
	for range 100 {
		if len(Sandbox()) == 0 {
			return nil
		}
		SignalAll(syscall.SIGKILL)
		time.Sleep(poll)
	}
	return ErrLeft
}
