// Package output holds the recent output of a process and hands it to readers.
//
// The buffer is bounded. While nobody reads, the oldest output is dropped, so that
// a background process never blocks. While somebody reads, the process blocks like
// one writing into a pipe, so that a reader loses nothing and memory does not grow.
// A reader that takes nothing for the stall time is detached instead of holding the
// process for ever; those of terminals may pause.
package output

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Kind names the stream that a chunk came from.
type Kind uint8

// Kinds of output.
const (
	Stdout Kind = iota
	Stderr
	PTY
)

// Chunk is a piece of output. Its data must not be changed.
type Chunk struct {
	Kind Kind
	Data []byte
}

const (
	overhead = 64 // what a chunk costs besides its bytes
	// DefaultLimit is how much output is kept for those who attach later.
	DefaultLimit = 64 << 10
	// DefaultStall is how long a reader may take nothing while the buffer is full.
	DefaultStall = 60 * time.Second
)

// Errors of Reader.Next.
var (
	ErrEnd     = errors.New("end of output")
	ErrTimeout = errors.New("no output yet")
	ErrSlow    = errors.New("the reader was too slow and was detached; the process runs on")
)

// Buffer is a bounded, ordered log of chunks.
type Buffer struct {
	limit int
	stall time.Duration

	mu      sync.Mutex
	chunks  []Chunk
	first   uint64 // sequence number of chunks[0]
	size    int
	dropped uint64 // bytes that no reader took
	closed  bool
	readers map[*Reader]struct{}
	more    chan struct{} // closed when readers have something new to look at
	room    chan struct{} // closed when the writer may try again
}

// New returns an empty buffer with these bounds.
func New(limit int, stall time.Duration) *Buffer {
	return &Buffer{
		limit: limit, stall: stall, readers: map[*Reader]struct{}{},
		more: make(chan struct{}), room: make(chan struct{}),
	}
}

// Append adds a chunk, and blocks while readers are behind and the buffer is full.
// After Close it discards the chunk.
func (b *Buffer) Append(kind Kind, data []byte) {
	var timer *time.Timer
	for {
		b.mu.Lock()
		if b.closed {
			b.mu.Unlock()
			break
		}
		b.evict(len(data) + overhead)
		if len(b.chunks) == 0 || b.size+len(data)+overhead <= b.limit {
			b.chunks = append(b.chunks, Chunk{kind, data})
			b.size += len(data) + overhead
			b.wake()
			b.mu.Unlock()
			break
		}
		room := b.room
		b.mu.Unlock()
		if timer == nil {
			timer = time.NewTimer(b.stall)
		} else {
			timer.Reset(b.stall)
		}
		select {
		case <-room:
		case <-timer.C:
			b.detachSlowest()
		}
	}
	if timer != nil {
		timer.Stop()
	}
}

// evict drops the oldest chunks that every reader has taken until there is room.
func (b *Buffer) evict(need int) {
	least := b.first + uint64(len(b.chunks))
	for reader := range b.readers {
		least = min(least, reader.next)
	}
	count := 0
	for b.size+need > b.limit && count < len(b.chunks) && b.first+uint64(count) < least {
		b.size -= len(b.chunks[count].Data) + overhead
		if len(b.readers) == 0 {
			b.dropped += uint64(len(b.chunks[count].Data))
		}
		count++
	}
	if count == 0 {
		return
	}
	remaining := copy(b.chunks, b.chunks[count:])
	clear(b.chunks[remaining:])
	b.chunks = b.chunks[:remaining]
	b.first += uint64(count)
}

func (b *Buffer) detachSlowest() {
	b.mu.Lock()
	defer b.mu.Unlock()
	var slowest *Reader
	for reader := range b.readers {
		if slowest == nil || reader.next < slowest.next {
			slowest = reader
		}
	}
	if slowest != nil && !slowest.blocking {
		slowest.err = ErrSlow
		delete(b.readers, slowest)
		b.wake()
	}
}

// wake tells the readers to look again; b.mu is held.
func (b *Buffer) wake() {
	close(b.more)
	b.more = make(chan struct{})
}

// release tells the writer to try again; b.mu is held.
func (b *Buffer) release() {
	close(b.room)
	b.room = make(chan struct{})
}

// Close ends the output: readers get what is left and then ErrEnd.
func (b *Buffer) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		b.wake()
		b.release()
	}
}

// Dropped returns how many bytes were dropped while nobody read.
func (b *Buffer) Dropped() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropped
}

// Reader takes chunks in order from the oldest one that is still there.
type Reader struct {
	buffer   *Buffer
	next     uint64
	err      error
	blocking bool
}

// Attach returns a reader. It holds the writer back until Detach, or until it has
// taken nothing for the stall time.
func (b *Buffer) Attach() *Reader { return b.attach(false) }

// AttachBlocking returns a reader that may hold the writer back for ever, as a
// terminal whose user stopped it. Its owner must notice that nobody is there.
func (b *Buffer) AttachBlocking() *Reader { return b.attach(true) }

func (b *Buffer) attach(blocking bool) *Reader {
	b.mu.Lock()
	defer b.mu.Unlock()
	reader := &Reader{buffer: b, next: b.first, blocking: blocking}
	b.readers[reader] = struct{}{}
	return reader
}

// Detach stops reading.
func (r *Reader) Detach() {
	r.buffer.mu.Lock()
	defer r.buffer.mu.Unlock()
	delete(r.buffer.readers, r)
	r.buffer.release()
}

// Next returns the next chunk. It waits at most for the timeout, if that is not 0.
func (r *Reader) Next(ctx context.Context, timeout time.Duration) (Chunk, error) {
	var expired <-chan time.Time
	for {
		r.buffer.mu.Lock()
		chunk, more, err := r.take()
		r.buffer.mu.Unlock()
		if more == nil {
			return chunk, err
		}
		if timeout > 0 && expired == nil {
			timer := time.NewTimer(timeout)
			defer timer.Stop()
			expired = timer.C
		}
		select {
		case <-more:
		case <-expired:
			return Chunk{}, ErrTimeout
		case <-ctx.Done():
			return Chunk{}, ctx.Err()
		}
	}
}

// take returns a chunk or an error, or a channel to wait on.
func (r *Reader) take() (Chunk, <-chan struct{}, error) {
	b := r.buffer
	if r.err != nil {
		return Chunk{}, nil, r.err
	}
	if r.next < b.first+uint64(len(b.chunks)) {
		chunk := b.chunks[r.next-b.first]
		r.next++
		b.release()
		return chunk, nil, nil
	}
	if b.closed {
		return Chunk{}, nil, ErrEnd
	}
	return Chunk{}, b.more, nil
}
