package process

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"workspaced/internal/output"
)

// pump moves output from a descriptor into the buffer.
type pump struct {
	file    *os.File
	taken   atomic.Uint64 // bytes that are in the buffer
	waiting atomic.Int64  // since when nothing came; 0 while it is at work
	done    chan struct{}
}

const bufferSize = 32 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// readable reports whether something waits to be read. Poll also flushes what a
// terminal has not passed on yet.
func readable(fd uintptr) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	_, err := unix.Poll(poll, 0)
	return err != nil || poll[0].Revents != 0
}

// mark is how much a pump has taken once it has all of an ended process.
type mark struct {
	bytes uint64
	set   bool
	exact bool
}

// measure sets the mark. While the pump is at work, it may hold what is neither in
// the pipe nor in the buffer: that is added at its largest, and measured again.
func (one *pump) measure(m *mark) {
	if m.exact {
		return
	}
	waiting := one.waiting.Load()
	raw, err := one.file.SyscallConn()
	if err != nil {
		return
	}
	pending := 0
	_ = raw.Control(func(fd uintptr) {
		if readable(fd) {
			pending, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		}
	})
	taken := one.taken.Load()
	m.exact = waiting != 0 && one.waiting.Load() == waiting
	if m.exact || !m.set {
		m.bytes, m.set = taken+uint64(max(pending, 0)), true
		if !m.exact {
			m.bytes += bufferSize
		}
	}
}

// idle reports whether nothing came for a while since a time, and nothing waits to
// be read: on a busy machine this may look before the pump does.
func (one *pump) idle(from time.Time) bool {
	waiting := one.waiting.Load()
	if waiting == 0 || time.Since(from) < lingering || time.Since(time.Unix(0, waiting)) < lingering {
		return false
	}
	raw, err := one.file.SyscallConn()
	if err != nil {
		return false // closed: the pump is about to end
	}
	waits := true
	err = raw.Control(func(fd uintptr) { waits = readable(fd) })
	// Unchanged: the pump has not read between the two looks.
	return err == nil && !waits && one.waiting.Load() == waiting
}

// run reads until the other side is closed. A buffer is held only while there is
// something to read.
func (one *pump) run(kind output.Kind, into *output.Buffer, touch func()) {
	defer close(one.done)
	defer func() {
		if kind != output.PTY {
			one.file.Close()
		}
	}()
	raw, err := one.file.SyscallConn()
	if err != nil {
		return
	}
	for {
		var data []byte
		var inner error
		err := raw.Read(func(fd uintptr) bool {
			one.waiting.Store(0)
			buffer := buffers.Get().(*[bufferSize]byte)
			defer buffers.Put(buffer)
			for {
				count, err := syscall.Read(int(fd), buffer[:])
				if err == syscall.EINTR {
					continue
				}
				if err == syscall.EAGAIN {
					one.waiting.Store(time.Now().UnixNano())
					return false
				}
				if inner = err; err == nil && count > 0 {
					data = append(data, buffer[:count]...)
				}
				return true
			}
		})
		if err != nil || inner != nil || len(data) == 0 {
			return // closed, EIO of a terminal without processes, or end of file
		}
		touch()
		into.Append(kind, data)
		one.taken.Add(uint64(len(data)))
	}
}

const (
	lingering = 250 * time.Millisecond
	longest   = 2 * time.Second
	pollDrain = 10 * time.Millisecond
)

// drain waits until all output of an ended process was taken. Descendants that hold
// its pipes open do not hold its end back: it comes once nothing was written for a
// while, and from those that keep writing after 2 s, when all that lay in the pipes
// at the end was taken. What they write later is discarded.
func (p *Process) drain() {
	ended := time.Now()
	marks := make([]mark, len(p.pumps))
	for {
		open := false
		for i, one := range p.pumps {
			select {
			case <-one.done:
				continue
			default:
			}
			one.measure(&marks[i])
			complete := time.Since(ended) >= longest && one.taken.Load() >= marks[i].bytes
			open = open || !complete && !one.idle(ended)
		}
		if !open {
			return
		}
		timer := time.NewTimer(pollDrain)
		select {
		case <-p.nextDone():
			timer.Stop()
		case <-timer.C:
		}
	}
}

// nextDone returns the channel of a pump that still works.
func (p *Process) nextDone() <-chan struct{} {
	last := p.pumps[len(p.pumps)-1]
	for _, one := range p.pumps {
		select {
		case <-one.done:
		default:
			return one.done
		}
	}
	return last.done
}
