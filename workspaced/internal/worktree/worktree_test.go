package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

type pair struct{ local, store string }

func opened(t *testing.T) (*Tree, pair) {
	t.Helper()
	at := pair{t.TempDir(), filepath.Join(t.TempDir(), "deep", "store")}
	return reopen(t, at), at
}

func reopen(t *testing.T, at pair) *Tree {
	t.Helper()
	tree, err := Open(at.local, at.store)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func put(t *testing.T, folder, path, content string) {
	t.Helper()
	path = filepath.Join(folder, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, folder, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(folder, path))
	if errors.Is(err, fs.ErrNotExist) {
		return "(none)"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func synced(t *testing.T, tree *Tree) {
	t.Helper()
	if err := tree.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func restored(t *testing.T, at pair) string {
	t.Helper()
	at.local = t.TempDir()
	if err := reopen(t, at).Restore(context.Background()); err != nil {
		t.Fatal(err)
	}
	return at.local
}

func TestANewPodHasWhatTheLastOneHad(t *testing.T) {
	tree, at := opened(t)
	put(t, at.local, "src/main.go", "package main")
	put(t, at.local, "run", "#!/bin/sh")
	put(t, at.local, ".git/HEAD", "ref")
	for _, err := range []error{
		os.Chmod(filepath.Join(at.local, "run"), 0o550),
		os.Chmod(filepath.Join(at.local, ".git/HEAD"), 0o444),
		os.Symlink("src/main.go", filepath.Join(at.local, "link")),
		os.Symlink("/nowhere", filepath.Join(at.local, "dangling")),
		os.Mkdir(filepath.Join(at.local, "empty"), 0o750),
		syscall.Mkfifo(filepath.Join(at.local, "pipe"), 0o600),
		os.Chtimes(filepath.Join(at.local, "run"), time.Unix(1e9, 0), time.Unix(1e9, 0)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	synced(t, tree)
	local := restored(t, at)
	if content(t, local, "src/main.go") != "package main" || content(t, local, "link") != "package main" || content(t, local, ".git/HEAD") != "ref" {
		t.Fatal("a file is missing")
	}
	run, err := os.Stat(filepath.Join(local, "run"))
	if err != nil || run.Mode().Perm() != 0o550 || !run.ModTime().Equal(time.Unix(1e9, 0)) {
		t.Fatal(run, err)
	}
	if target, err := os.Readlink(filepath.Join(local, "dangling")); err != nil || target != "/nowhere" {
		t.Fatal(target, err)
	}
	if empty, err := os.Stat(filepath.Join(local, "empty")); err != nil || empty.Mode().Perm() != 0o750 {
		t.Fatal(empty, err)
	}
	if _, err := os.Lstat(filepath.Join(local, "pipe")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("a pipe was copied")
	}
}

func TestOnlyChangesAreCopied(t *testing.T) {
	tree, at := opened(t)
	put(t, at.local, "same", "same")
	put(t, at.local, "gone/deep/file", "gone")
	put(t, at.local, "becomes-folder", "file")
	put(t, at.local, "becomes-file/inner", "inner")
	put(t, at.local, "touched", "before")
	same := func() os.FileInfo {
		synced(t, tree)
		info, _ := os.Stat(filepath.Join(at.store, "same"))
		return info
	}
	before := same()
	for settled := false; !settled; { // what changed a moment ago is copied once more
		now := same()
		settled, before = os.SameFile(before, now), now
	}
	for _, path := range []string{"gone", "becomes-folder", "becomes-file"} {
		if err := os.RemoveAll(filepath.Join(at.local, path)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, at.local, "becomes-folder/inner", "inner")
	put(t, at.local, "becomes-file", "file")
	// The same size and time of modification: only the time of the change differs.
	touched := filepath.Join(at.local, "touched")
	info, _ := os.Stat(touched)
	put(t, at.local, "touched", "after!")
	if err := os.Chtimes(touched, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, same()) {
		t.Fatal("a file that did not change was written again")
	}
	for path, expected := range map[string]string{
		"gone/deep/file": "(none)", "becomes-folder/inner": "inner", "becomes-file": "file", "touched": "after!",
	} {
		if found := content(t, at.store, path); found != expected {
			t.Errorf("%s is %q", path, found)
		}
	}
	if _, err := os.Stat(filepath.Join(at.store, "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("a removed folder is left")
	}
}

func TestAfterARestartOfTheContainerTheLocalFolderWins(t *testing.T) {
	tree, at := opened(t)
	put(t, at.local, "kept", "old")
	put(t, at.local, "removed", "x")
	put(t, at.local, "type", "file")
	synced(t, tree)
	put(t, at.local, "kept", "new")
	for _, path := range []string{"removed", "type"} {
		if err := os.Remove(filepath.Join(at.local, path)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, at.local, "type/inner", "folder")
	again := reopen(t, at)
	if err := again.Restore(context.Background()); err != nil {
		t.Fatal(err)
	}
	if content(t, at.local, "kept") != "new" || content(t, at.local, "removed") != "(none)" {
		t.Fatal("the store replaced newer files")
	}
	synced(t, again)
	if content(t, at.store, "kept") != "new" || content(t, at.store, "removed") != "(none)" || content(t, at.store, "type/inner") != "folder" {
		t.Fatal("the store was not brought up to date")
	}
}

func TestALinkLeadsNobodyOutOfTheStore(t *testing.T) {
	tree, at := opened(t)
	outside := t.TempDir()
	put(t, at.local, "folder/file", "mine")
	synced(t, tree)
	if err := os.RemoveAll(filepath.Join(at.store, "folder")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(at.store, "folder")); err != nil {
		t.Fatal(err)
	}
	put(t, at.local, "folder/file", "changed")
	if err := tree.Sync(context.Background()); err == nil {
		t.Fatal("it wrote through a link")
	}
	if tree.State().Error == "" || content(t, outside, "file") != "(none)" {
		t.Fatal("a file left the store", tree.State())
	}
}

func TestAFolderThatWasRemovedFromTheStoreIsCreatedAgain(t *testing.T) {
	tree, at := opened(t)
	put(t, at.local, "a/b/file", "old")
	synced(t, tree)
	if err := os.RemoveAll(filepath.Join(at.store, "a")); err != nil {
		t.Fatal(err)
	}
	put(t, at.local, "a/b/file", "changed")
	if err := tree.Sync(context.Background()); err == nil {
		t.Fatal("nothing was reported")
	}
	synced(t, tree)
	if content(t, at.store, "a/b/file") != "changed" {
		t.Fatal("the change is not in the store")
	}
}

func TestAnInterruptedSynchronisationIsContinued(t *testing.T) {
	tree, at := opened(t)
	for number := range 200 {
		put(t, at.local, fmt.Sprintf("file%d", number), "content")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := tree.Sync(ctx); !errors.Is(err, context.Canceled) || !tree.State().Synced.IsZero() {
		t.Fatal(err, tree.State())
	}
	synced(t, tree)
	if content(t, at.store, "file199") != "content" || tree.State().Synced.IsZero() || tree.State().Error != "" {
		t.Fatal(tree.State())
	}
}

func TestAVersionOfTheTickOfItsCopyEqualsNoOther(t *testing.T) {
	began := time.Unix(100, 0)
	for age, equal := range map[time.Duration]bool{-time.Millisecond: false, 0: false, tick - 1: false, tick: true, time.Hour: true} {
		file := version{mode: 0o644, size: 1, change: began.Add(-age).UnixNano(), inode: 1}
		if (file.settled(began) == file) != equal {
			t.Fatal(age)
		}
	}
	if folder := (version{mode: fs.ModeDir}); folder.settled(time.Unix(0, 0)) != folder {
		t.Fatal("a folder")
	}
}

func TestChangesWithinATickOfTheFileSystemsClockAreCopied(t *testing.T) {
	tree, at := opened(t)
	for number := range 200 {
		for _, letter := range []string{"a", "b"} {
			text := fmt.Sprintf("%s%03d", letter, number)
			put(t, at.local, "f", text)
			synced(t, tree)
			if stored := content(t, at.store, "f"); stored != text {
				t.Fatalf("%s is in the store in place of %s", stored, text)
			}
		}
	}
}

func TestWritersDoNotDisturbIt(t *testing.T) {
	tree, at := opened(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for number := 0; ctx.Err() == nil; number++ {
			path := filepath.Join(at.local, fmt.Sprintf("f%d", number%20))
			_ = os.WriteFile(path, fmt.Appendf(nil, "%050d", number), 0o644)
			_ = os.Remove(filepath.Join(at.local, fmt.Sprintf("f%d", (number+7)%20)))
		}
	}()
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		tree.Run(ctx, time.Millisecond)
	}()
	for range 50 {
		synced(t, tree)
	}
	cancel()
	<-done
	<-ran
	synced(t, tree)
	local, _ := entries(context.Background(), tree.local)
	store, _ := entries(context.Background(), tree.store)
	if len(local) != len(store) {
		t.Fatal(len(local), len(store))
	}
	for path := range local {
		if content(t, at.local, path) != content(t, at.store, path) {
			t.Fatal(path)
		}
	}
}
