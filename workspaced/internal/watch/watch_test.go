package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"workspaced/internal/partial"
)

func add(t *testing.T, h *Hub, root string, recursive bool) *Watch {
	t.Helper()
	w, err := h.Add(root, recursive)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// expect takes events until one has that name, and returns all names and operations.
func expect(t *testing.T, w *Watch, name string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var all []string
	for {
		if err := w.Wait(ctx); err != nil {
			t.Fatalf("%s did not come; got %v", name, all)
		}
		events, err := w.Take()
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, event := range events {
			all = append(all, event.Name+" "+event.Op.String())
			found = found || event.Name == name
		}
		if found {
			return all
		}
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyARecursiveWatchSeesWhatIsBelow(t *testing.T) {
	root, h := t.TempDir(), NewHub()
	flat, deep := add(t, h, root, false), add(t, h, root, true)
	if err := os.MkdirAll(filepath.Join(root, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	expect(t, deep, "a/b")
	touch(t, filepath.Join(root, "a/b/x"))
	expect(t, deep, "a/b/x")
	touch(t, filepath.Join(root, "last"))
	for _, one := range expect(t, flat, "last") {
		if strings.Contains(one, "/") {
			t.Errorf("the flat watch got %s", one)
		}
	}
}

func TestUploadsAreSeenAsTheFileTheyReplace(t *testing.T) {
	root, h := t.TempDir(), NewHub()
	w := add(t, h, root, true)
	temporary := filepath.Join(root, partial.Name("x"))
	touch(t, temporary)
	if err := os.Rename(temporary, filepath.Join(root, "x")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for len(got) < 3 {
		got = append(got, expect(t, w, "x")...)
	}
	if !slices.Equal(got, []string{"x CREATE", "x CHMOD", "x WRITE"}) {
		t.Fatal(got)
	}
}

func TestTheEndOfTheFolder(t *testing.T) {
	root := filepath.Join(t.TempDir(), "folder")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	w := add(t, NewHub(), root, false)
	if err := os.Remove(root); err != nil {
		t.Fatal(err)
	}
	for {
		if err := w.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Take(); errors.Is(err, ErrRootGone) {
			return
		}
	}
}

func TestLostEventsAreReportedOnce(t *testing.T) {
	w := &Watch{root: "/r", signal: make(chan struct{}, 1)}
	for i := range queueLength + 10 {
		w.push(Event{Path: fmt.Sprintf("/r/%d", i), Op: 1})
	}
	events, err := w.Take()
	if len(events) != queueLength || err != nil {
		t.Fatal(len(events), err)
	}
	if _, err := w.Take(); !errors.Is(err, ErrLost) {
		t.Fatal(err)
	}
	if _, err := w.Take(); err != nil {
		t.Fatal(err)
	}
}

func TestBoundsAndRelease(t *testing.T) {
	root, h := t.TempDir(), NewHub()
	for range maxWatches {
		add(t, h, root, false)
	}
	if _, err := h.Add(root, false); !errors.Is(err, ErrTooMany) {
		t.Fatal(err)
	}
	for w := range h.watches {
		w.Close()
	}
	if h.notify != nil || len(h.folders) != 0 {
		t.Fatalf("%v %v", h.notify, h.folders)
	}
	if _, err := h.Add(filepath.Join(root, "nope"), false); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	touch(t, filepath.Join(root, "file"))
	if _, err := h.Add(filepath.Join(root, "file"), false); !errors.Is(err, ErrNoFolder) {
		t.Fatal(err)
	}
}
