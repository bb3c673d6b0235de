// Package worktree keeps a folder on a local disk that outlives its pod: a store on a
// network file system gets its changes at every interval and at the end, and a new
// pod starts from the store.
//
// Files are compared with what they were at the last synchronisation, in memory, so
// that an interval without changes reads the local disk alone. Each file of the store
// is replaced at once. What is neither a file, a folder nor a link is left out.
package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"workspaced/internal/partial"
)

const (
	// workers copy files at the same time: most of a small file's time is the network's.
	workers = 16
	// tick is longer than a step of the clock of a local file system. Two writes within
	// one step may leave the same times.
	tick = 20 * time.Millisecond
)

// State is how the store is, for /status.
type State struct {
	Synced time.Time `json:"synced_at,omitzero"` // the changes before this time are in the store
	Error  string    `json:"error,omitempty"`    // of the last synchronisation
}

// Tree is a local folder and its store.
type Tree struct {
	local, store *os.Root
	known        map[string]version // what the store has, by path

	busy  sync.Mutex // one synchronisation at a time
	mu    sync.Mutex
	state State
}

// version tells one content of a path from another without reading it.
type version struct {
	mode             fs.FileMode
	size             int64
	modified, change int64
	inode            uint64
}

// Open opens a local folder and its store, which is created if it does not exist.
func Open(local, store string) (*Tree, error) {
	if err := os.MkdirAll(store, 0o755); err != nil {
		return nil, err
	}
	from, err := os.OpenRoot(local)
	if err != nil {
		return nil, err
	}
	to, err := os.OpenRoot(store)
	if err != nil {
		return nil, err
	}
	return &Tree{local: from, store: to, known: map[string]version{}}, nil
}

// State returns how the store is.
func (t *Tree) State() State {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

// Restore copies the store into the local folder, which is empty in a new pod. What the
// folder has already is newer, as after a restart of the container, and stays.
func (t *Tree) Restore(ctx context.Context) error {
	t.busy.Lock()
	defer t.busy.Unlock()
	began := time.Now()
	existing, err := entries(ctx, t.local)
	if err != nil {
		return err
	}
	stored, err := entries(ctx, t.store)
	if err != nil {
		return err
	}
	if len(existing) > 0 {
		// The next synchronisation replaces whatever differs, and removes what is gone here.
		for path := range stored {
			t.known[path] = version{}
		}
		return nil
	}
	if err := t.copyAll(ctx, t.store, t.local, stored); err != nil {
		return err
	}
	if t.known, err = entries(ctx, t.local); err == nil && len(t.known) > 0 {
		slog.Info("work tree restored", "entries", len(t.known), "seconds", time.Since(began).Seconds())
	}
	return err
}

// Run synchronises at every interval until the context ends.
func (t *Tree) Run(ctx context.Context, interval time.Duration) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			if err := t.Sync(ctx); err != nil && ctx.Err() == nil {
				slog.Warn("work tree", "error", err.Error())
			}
		}
	}
}

// Sync brings the changes of the local folder to the store.
func (t *Tree) Sync(ctx context.Context) error {
	t.busy.Lock()
	defer t.busy.Unlock()
	began := time.Now()
	err := t.sync(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state.Error = ""
	if err != nil {
		t.state.Error = err.Error()
		return err
	}
	t.state.Synced = began.UTC()
	return nil
}

func (t *Tree) sync(ctx context.Context) error {
	current, err := entries(ctx, t.local)
	if err != nil {
		return err
	}
	changed := map[string]version{}
	for path, now := range current {
		if before, found := t.known[path]; !found || before != now {
			if found && (before.mode.Type() != now.mode.Type() || before == version{}) && !(now.mode.IsDir() && before.mode.IsDir()) {
				if err := t.replaceable(path, now); err != nil {
					return err
				}
			}
			changed[path] = now
		}
	}
	copied := t.copyAll(ctx, t.local, t.store, changed)
	// The deepest first: what was renamed is in the store by now, under its other name.
	for _, path := range deepestFirst(t.known) {
		if _, found := current[path]; found {
			continue
		}
		// Its folder may be a file by now.
		if err := t.store.RemoveAll(path); err != nil && !errors.Is(err, syscall.ENOTDIR) {
			return errors.Join(copied, err)
		}
		delete(t.known, path)
	}
	return copied
}

// replaceable removes what the store has at a path if it is of another type.
func (t *Tree) replaceable(path string, now version) error {
	there, err := t.store.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || there.Mode().Type() == now.mode.Type() {
		return err
	}
	return t.store.RemoveAll(path)
}

// copyAll copies entries, folders first, and notes in the index what was copied.
func (t *Tree) copyAll(ctx context.Context, from, to *os.Root, paths map[string]version) error {
	began := time.Now()
	var failures []error
	var noting sync.Mutex
	note := func(path string, err error) {
		noting.Lock()
		defer noting.Unlock()
		switch {
		case err == nil:
			t.known[path] = paths[path].settled(began)
		case paths[path].mode.IsDir() && errors.Is(err, errMoving):
			t.known[path] = version{mode: paths[path].mode, size: -1} // the store has it: it is to be removed
		case errors.Is(err, errMoving) || gone(from, path):
		default:
			failures = append(failures, fmt.Errorf("%s: %w", path, err))
			if errors.Is(err, fs.ErrNotExist) {
				// Somebody removed a folder of the copy: the next turn creates it.
				for above := filepath.Dir(path); above != "."; above = filepath.Dir(above) {
					delete(t.known, above)
				}
			}
		}
	}
	var files []string
	for path, one := range paths {
		if one.mode.IsDir() {
			continue
		}
		files = append(files, path)
	}
	for _, path := range shallowestFirst(paths) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if mode := paths[path].mode; mode.IsDir() {
			note(path, folder(from, to, path, mode))
		}
	}
	work := make(chan string)
	var running sync.WaitGroup
	for range min(workers, len(files)) {
		running.Go(func() {
			for path := range work {
				note(path, copyFile(from, to, path, paths[path]))
			}
		})
	}
	for _, path := range files {
		if ctx.Err() != nil {
			break
		}
		work <- path
	}
	close(work)
	running.Wait()
	if len(failures) > 3 {
		failures = append(failures[:3], fmt.Errorf("and %d more", len(failures)-3))
	}
	return errors.Join(append(failures, ctx.Err())...)
}

// errMoving says that a file changed while it was copied: the next turn copies it.
var errMoving = errors.New("it changed while it was copied")

// moving returns errMoving for a file that is not there: it may be again by now.
func moving(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errMoving
	}
	return err
}

func gone(root *os.Root, path string) bool {
	_, err := root.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func folder(from, to *os.Root, path string, mode fs.FileMode) error {
	err := to.Mkdir(path, mode.Perm()|0o700)
	if errors.Is(err, fs.ErrExist) {
		err = to.Chmod(path, mode.Perm()|0o700)
	}
	if err != nil {
		return err
	}
	return own(from, to, path, path)
}

func copyFile(from, to *os.Root, path string, known version) error {
	temporary := filepath.Join(filepath.Dir(path), partial.Name(filepath.Base(path)))
	err := write(from, to, path, temporary, known)
	if err == nil {
		err = own(from, to, path, temporary)
	}
	if err == nil {
		err = to.Rename(temporary, path)
	}
	if err != nil {
		_ = to.Remove(temporary)
	}
	return err
}

func write(from, to *os.Root, path, temporary string, known version) error {
	if known.mode.Type() == fs.ModeSymlink {
		target, err := from.Readlink(path)
		if err != nil {
			return moving(err)
		}
		return to.Symlink(target, temporary)
	}
	source, err := from.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return moving(err)
	}
	defer source.Close()
	target, err := to.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, known.mode.Perm()|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	if closed := target.Close(); err == nil {
		err = closed // a network file system says here that it is full
	}
	if err != nil {
		return err
	}
	if err := to.Chmod(temporary, known.mode.Perm()); err != nil {
		return err
	}
	now, err := source.Stat()
	if err != nil {
		return err
	}
	if versionOf(now) != known {
		return errMoving
	}
	return to.Chtimes(temporary, now.ModTime(), now.ModTime())
}

// own gives a copy to the owner of its original, where this process may: as root.
func own(from, to *os.Root, path, copied string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := from.Lstat(path)
	if err != nil {
		return moving(err)
	}
	system, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return to.Lchown(copied, int(system.Uid), int(system.Gid))
}

// entries returns the files, folders and links below a root.
func entries(ctx context.Context, root *os.Root) (map[string]version, error) {
	found := map[string]version{}
	err := fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // removed meanwhile
			}
			return err
		}
		kind := entry.Type()
		if path == "." || kind&^(fs.ModeDir|fs.ModeSymlink) != 0 || partial.Is(entry.Name()) {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		found[path] = versionOf(info)
		return nil
	})
	return found, err
}

func versionOf(info fs.FileInfo) version {
	one := version{mode: info.Mode()}
	if info.IsDir() {
		return one // the times of a folder change with its content
	}
	one.size, one.modified = info.Size(), info.ModTime().UnixNano()
	if system, ok := info.Sys().(*syscall.Stat_t); ok {
		one.change, one.inode = system.Ctim.Nano(), system.Ino
	}
	return one
}

// settled returns the version of a path whose copy began at a time. A later change of the
// same tick could leave the same times, so a version of that tick equals no other.
func (v version) settled(began time.Time) version {
	if !v.mode.IsDir() && began.UnixNano()-v.change < int64(tick) {
		v.change = 0
	}
	return v
}

func shallowestFirst(paths map[string]version) []string {
	sorted := make([]string, 0, len(paths))
	for path := range paths {
		sorted = append(sorted, path)
	}
	slices.SortFunc(sorted, func(a, b string) int {
		return strings.Count(a, "/") - strings.Count(b, "/")
	})
	return sorted
}

func deepestFirst(paths map[string]version) []string {
	sorted := shallowestFirst(paths)
	slices.Reverse(sorted)
	return sorted
}
