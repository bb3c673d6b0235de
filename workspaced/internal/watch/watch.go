// Package watch watches folders through one inotify instance and hands events to
// bounded queues.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"

	"workspaced/internal/partial"
)

const (
	queueLength = 4096
	maxWatches  = 256
	// maxFolders bounds the folders of one recursive watch.
	maxFolders = 8192
)

// Errors of watches.
var (
	ErrLost     = errors.New("events were lost, because they were not taken in time; list the folder again")
	ErrTooMany  = errors.New("too many watches")
	ErrNoFolder = errors.New("not a folder")
	ErrClosed   = errors.New("the watch was removed")
	ErrRootGone = errors.New("the watched folder was removed or moved")
	errKernel   = "the kernel's limit on watches is reached"
)

// Op is what happened.
type Op = fsnotify.Op

// Event is a change below a watched folder.
type Event struct {
	Name string // relative to the folder
	Path string
	Op   Op
}

// Hub shares one inotify instance between watches: the number of instances is
// limited for each user of the node, and not for each sandbox.
type Hub struct {
	mu      sync.Mutex
	notify  *fsnotify.Watcher
	watches map[*Watch]struct{}
	folders map[string]int // how many watches want it
	// replaced is the folder in which an upload's file was just renamed: the next
	// creation there is a file with new content.
	replaced string
}

// NewHub returns a hub. The inotify instance is made with the first watch.
func NewHub() *Hub {
	return &Hub{watches: map[*Watch]struct{}{}, folders: map[string]int{}}
}

// Watch is a subscription to a folder.
type Watch struct {
	hub       *Hub
	root      string
	recursive bool
	folders   map[string]struct{}

	mu     sync.Mutex
	queue  []Event
	lost   bool
	err    error
	signal chan struct{} // has one element while there is something to take
}

// Add watches a folder. A link to a folder is followed once.
func (h *Hub) Add(root string, recursive bool) (*Watch, error) {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(real)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%w: %s", ErrNoFolder, root)
	}
	w := &Watch{hub: h, root: real, recursive: recursive, folders: map[string]struct{}{}, signal: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.watches) >= maxWatches {
		return nil, fmt.Errorf("%w: %d", ErrTooMany, maxWatches)
	}
	if h.notify == nil {
		if h.notify, err = fsnotify.NewBufferedWatcher(1024); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrTooMany, err)
		}
		go h.dispatch(h.notify)
	}
	h.watches[w] = struct{}{}
	if err := h.follow(w, real, false); err != nil {
		h.remove(w)
		return nil, err
	}
	return w, nil
}

// follow watches a folder, and for a recursive watch those below it. Found entries
// of a new folder are announced: they may be older than its watch.
func (h *Hub) follow(w *Watch, folder string, announce bool) error {
	if err := h.want(w, folder); err != nil {
		return err
	}
	if !w.recursive {
		return nil
	}
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return nil // what vanished meanwhile, or cannot be read
		}
		if announce && !partial.Is(entry.Name()) {
			w.push(Event{Path: path, Op: fsnotify.Create})
		}
		if !entry.IsDir() {
			return nil
		}
		if err := h.want(w, path); err != nil {
			if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
				return filepath.SkipDir
			}
			return err
		}
		return nil
	})
}

func (h *Hub) want(w *Watch, folder string) error {
	if _, has := w.folders[folder]; has {
		return nil
	}
	if len(w.folders) >= maxFolders {
		return fmt.Errorf("%w: more than %d folders below %s", ErrTooMany, maxFolders, w.root)
	}
	if h.folders[folder] == 0 {
		if err := h.notify.Add(folder); err != nil {
			if errors.Is(err, syscall.ENOSPC) {
				return fmt.Errorf("%w: %s", ErrTooMany, errKernel)
			}
			return err
		}
	}
	h.folders[folder]++
	w.folders[folder] = struct{}{}
	return nil
}

// forget drops a folder of a watch.
func (h *Hub) forget(w *Watch, folder string) {
	if _, has := w.folders[folder]; !has {
		return
	}
	delete(w.folders, folder)
	if h.folders[folder]--; h.folders[folder] <= 0 {
		delete(h.folders, folder)
		_ = h.notify.Remove(folder)
	}
}

func (h *Hub) remove(w *Watch) {
	delete(h.watches, w)
	for folder := range w.folders {
		h.forget(w, folder)
	}
	if len(h.watches) == 0 && h.notify != nil {
		// Nobody watches: the instance and its memory go.
		notify := h.notify
		h.notify = nil
		go notify.Close()
	}
}

func (h *Hub) dispatch(notify *fsnotify.Watcher) {
	for {
		select {
		case event, ok := <-notify.Events:
			if !ok {
				return
			}
			h.deliver(notify, event)
		case err, ok := <-notify.Errors:
			if !ok {
				return
			}
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				h.mu.Lock()
				for w := range h.watches {
					w.lose()
				}
				h.mu.Unlock()
			}
		}
	}
}

func (h *Hub) deliver(from *fsnotify.Watcher, event fsnotify.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.notify != from {
		return
	}
	folder := filepath.Dir(event.Name)
	if partial.Is(filepath.Base(event.Name)) {
		if event.Has(fsnotify.Rename) {
			h.replaced = folder
		}
		return
	}
	operations := []Op{event.Op}
	if event.Has(fsnotify.Create) && h.replaced == folder {
		// envd creates the file, gives it to its user and writes it.
		operations = []Op{event.Op, fsnotify.Chmod, fsnotify.Write}
	}
	h.replaced = ""
	gone := event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename)
	for w := range h.watches {
		if event.Name == w.root {
			if gone {
				w.fail(ErrRootGone)
			}
			continue
		}
		if _, has := w.folders[folder]; !has {
			continue
		}
		for _, op := range operations {
			w.push(Event{Path: event.Name, Op: op})
		}
		if !w.recursive {
			continue
		}
		if gone {
			for below := range w.folders {
				if below == event.Name || strings.HasPrefix(below, event.Name+"/") {
					h.forget(w, below)
				}
			}
		}
		if event.Has(fsnotify.Create) {
			if info, err := os.Lstat(event.Name); err == nil && info.IsDir() {
				if err := h.follow(w, event.Name, true); errors.Is(err, ErrTooMany) {
					w.fail(err)
				}
			}
		}
	}
}

func (w *Watch) push(event Event) {
	name, err := filepath.Rel(w.root, event.Path)
	if err != nil {
		return
	}
	event.Name = name
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := len(w.queue) - 1; last >= 0 && w.queue[last] == event {
		return // repeated writes tell nothing new
	}
	if len(w.queue) >= queueLength {
		w.lost = true
	} else {
		w.queue = append(w.queue, event)
	}
	w.wake()
}

func (w *Watch) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = true
	w.wake()
}

func (w *Watch) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.wake()
}

func (w *Watch) wake() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// Take returns the events since the last call without waiting. ErrLost comes once.
func (w *Watch) Take() ([]Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.queue
	w.queue = nil
	if len(events) > 0 {
		return events, nil
	}
	if w.lost {
		w.lost = false
		return nil, ErrLost
	}
	return nil, w.err
}

// Wait waits until there is something to take.
func (w *Watch) Wait(ctx context.Context) error {
	select {
	case <-w.signal:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close removes the watch.
func (w *Watch) Close() {
	w.hub.mu.Lock()
	w.hub.remove(w)
	w.hub.mu.Unlock()
	w.fail(ErrClosed)
}
