package output

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func read(t *testing.T, r *Reader, count int) []byte {
	t.Helper()
	var all []byte
	for len(all) < count {
		chunk, err := r.Next(context.Background(), 0)
		if err != nil {
			t.Fatalf("after %d bytes: %v", len(all), err)
		}
		all = append(all, chunk.Data...)
	}
	return all
}

func TestWithoutReadersTheOldestIsDropped(t *testing.T) {
	b := New(1000, time.Minute)
	for i := range 100 {
		b.Append(Stdout, bytes.Repeat([]byte{byte(i)}, 100))
	}
	if b.size > 1000 {
		t.Fatalf("%d bytes are held", b.size)
	}
	reader := b.Attach()
	got := read(t, reader, 600)
	if got[len(got)-1] != 99 || len(got) != 600 || b.Dropped() != 100*100-600 {
		t.Fatalf("%d bytes, last %d, dropped %d", len(got), got[len(got)-1], b.Dropped())
	}
}

func TestAReaderHoldsTheWriterBackAndLosesNothing(t *testing.T) {
	b := New(4<<10, time.Minute)
	reader := b.Attach()
	source := make([]byte, 1<<20)
	for i := range source {
		source[i] = byte(rand.Uint32())
	}
	go func() {
		for rest := source; len(rest) > 0; {
			count := min(len(rest), 1+rand.IntN(2000))
			b.Append(Stdout, rest[:count])
			rest = rest[count:]
		}
		b.Close()
	}()
	if got := read(t, reader, len(source)); !bytes.Equal(got, source) {
		t.Fatal("the bytes differ")
	}
	if _, err := reader.Next(context.Background(), 0); !errors.Is(err, ErrEnd) {
		t.Fatal(err)
	}
	if b.Dropped() != 0 {
		t.Fatalf("dropped %d", b.Dropped())
	}
}

func TestAStalledReaderIsDetachedAndTheWriterGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(1000, time.Minute)
		stalled := b.Attach()
		began := time.Now()
		for range 10 {
			b.Append(Stdout, make([]byte, 500))
		}
		if waited := time.Since(began); waited != time.Minute {
			t.Fatalf("the writer waited %v", waited)
		}
		if _, err := stalled.Next(t.Context(), 0); !errors.Is(err, ErrSlow) {
			t.Fatalf("the reader is told %v", err)
		}
	})
}

func TestABlockingReaderIsNotDetached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(1000, time.Minute)
		paused := b.AttachBlocking()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 10 {
				b.Append(PTY, make([]byte, 500))
			}
		}()
		time.Sleep(time.Hour) // of the bubble's clock
		synctest.Wait()
		if got := read(t, paused, 5000); len(got) != 5000 {
			t.Fatalf("%d bytes", len(got))
		}
		<-done
	})
}

func TestDetachLetsTheWriterGo(t *testing.T) {
	b := New(1000, time.Hour)
	reader := b.Attach()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 10 {
			b.Append(Stdout, make([]byte, 500))
		}
	}()
	_, _ = reader.Next(context.Background(), 0)
	reader.Detach()
	<-done
}

func TestNextEndsWithItsContextAndTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(1000, time.Minute)
		reader := b.Attach()
		if _, err := reader.Next(t.Context(), 5*time.Second); !errors.Is(err, ErrTimeout) {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := reader.Next(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	})
}

func TestManyReadersAndWriters(t *testing.T) {
	b := New(2000, time.Minute)
	var readers, writers sync.WaitGroup
	for range 8 {
		reader := b.Attach()
		readers.Go(func() {
			total := 0
			for {
				chunk, err := reader.Next(context.Background(), 0)
				if errors.Is(err, ErrEnd) {
					break
				}
				total += len(chunk.Data)
			}
			if total != 4*200*10 {
				t.Errorf("%d bytes", total)
			}
		})
	}
	for kind := range 4 {
		writers.Go(func() {
			for range 200 {
				b.Append(Kind(kind%2), make([]byte, 10))
			}
		})
	}
	writers.Wait()
	b.Close()
	readers.Wait()
}
