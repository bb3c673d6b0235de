package fsapi

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	"workspaced/gen/filesystem"
	"workspaced/gen/filesystem/filesystemconnect"
	"workspaced/internal/account"
	"workspaced/internal/watch"
)

func client(t *testing.T) (filesystemconnect.FilesystemClient, string) {
	t.Helper()
	home := t.TempDir()
	_, handler := NewHandler(account.NewDirectory("/nonexistent", "ada", home), watch.NewHub())
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return filesystemconnect.NewFilesystemClient(server.Client(), server.URL, connect.WithProtoJSON()), home
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("abc"), 0o640); err != nil {
		t.Fatal(err)
	}
}

func request[T any](message *T) *connect.Request[T] { return connect.NewRequest(message) }

func TestStat(t *testing.T) {
	c, home := client(t)
	write(t, filepath.Join(home, "a/file"))
	for link, target := range map[string]string{"to-file": "a/file", "to-dir": "a", "dangling": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(home, link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]struct {
		kind   filesystem.FileType
		target string
	}{
		"a/file":   {filesystem.FileType_FILE_TYPE_FILE, ""},
		"~/a":      {filesystem.FileType_FILE_TYPE_DIRECTORY, ""},
		"to-file":  {filesystem.FileType_FILE_TYPE_FILE, filepath.Join(home, "a/file")},
		"to-dir":   {filesystem.FileType_FILE_TYPE_DIRECTORY, filepath.Join(home, "a")},
		"dangling": {filesystem.FileType_FILE_TYPE_SYMLINK, "nowhere"},
	} {
		r, err := c.Stat(t.Context(), request(&filesystem.StatRequest{Path: path}))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		entry := r.Msg.GetEntry()
		if entry.GetType() != want.kind || entry.GetSymlinkTarget() != want.target || entry.GetOwner() != "ada" {
			t.Errorf("%s: %v", path, entry)
		}
		if path == "a/file" && (entry.GetSize() != 3 || entry.GetMode() != 0o640 || entry.GetPermissions() != "-rw-r-----") {
			t.Errorf("%v", entry)
		}
	}
}

func TestErrors(t *testing.T) {
	c, home := client(t)
	write(t, filepath.Join(home, "file"))
	if err := os.Mkdir(filepath.Join(home, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, one := range map[string]struct {
		call func(context.Context) error
		want connect.Code
	}{
		"stat of nothing": {func(ctx context.Context) error {
			_, err := c.Stat(ctx, request(&filesystem.StatRequest{Path: "nope"}))
			return err
		}, connect.CodeNotFound},
		"stat below a file": {func(ctx context.Context) error {
			_, err := c.Stat(ctx, request(&filesystem.StatRequest{Path: "file/x"}))
			return err
		}, connect.CodeNotFound},
		"NUL": {func(ctx context.Context) error {
			_, err := c.Stat(ctx, request(&filesystem.StatRequest{Path: "a\x00"}))
			return err
		}, connect.CodeInvalidArgument},
		"existing folder": {func(ctx context.Context) error {
			_, err := c.MakeDir(ctx, request(&filesystem.MakeDirRequest{Path: "dir"}))
			return err
		}, connect.CodeAlreadyExists},
		"folder over a file": {func(ctx context.Context) error {
			_, err := c.MakeDir(ctx, request(&filesystem.MakeDirRequest{Path: "file"}))
			return err
		}, connect.CodeInvalidArgument},
		"list of a file": {func(ctx context.Context) error {
			_, err := c.ListDir(ctx, request(&filesystem.ListDirRequest{Path: "file"}))
			return err
		}, connect.CodeInvalidArgument},
		"move of nothing": {func(ctx context.Context) error {
			_, err := c.Move(ctx, request(&filesystem.MoveRequest{Source: "nope", Destination: "x"}))
			return err
		}, connect.CodeNotFound},
		"remove of the root": {func(ctx context.Context) error {
			_, err := c.Remove(ctx, request(&filesystem.RemoveRequest{Path: "/"}))
			return err
		}, connect.CodeInvalidArgument},
		"poll of nothing": {func(ctx context.Context) error {
			_, err := c.GetWatcherEvents(ctx, request(&filesystem.GetWatcherEventsRequest{WatcherId: "x"}))
			return err
		}, connect.CodeNotFound},
		"unknown user": {func(ctx context.Context) error {
			r := request(&filesystem.StatRequest{Path: "file"})
			r.Header().Set("Authorization", "Basic bm9ib2R5Og==")
			_, err := c.Stat(ctx, r)
			return err
		}, connect.CodeUnauthenticated},
	} {
		if err := one.call(t.Context()); connect.CodeOf(err) != one.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestListMoveRemove(t *testing.T) {
	c, home := client(t)
	write(t, filepath.Join(home, "top/a/b/c"))
	write(t, filepath.Join(home, "top/z"))
	if err := os.Symlink("top", filepath.Join(home, "link")); err != nil {
		t.Fatal(err)
	}
	list := func(path string, depth uint32) (names []string) {
		t.Helper()
		r, err := c.ListDir(t.Context(), request(&filesystem.ListDirRequest{Path: path, Depth: depth}))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range r.Msg.GetEntries() {
			names = append(names, strings.TrimPrefix(entry.GetPath(), home+"/"))
		}
		return names
	}
	for _, one := range []struct {
		path  string
		depth uint32
		want  string
	}{
		{"top", 0, "top/a top/z"}, {"top", 1, "top/a top/z"}, {"top", 2, "top/a top/a/b top/z"},
		{"top", 9, "top/a top/a/b top/a/b/c top/z"}, {"link", 1, "link/a link/z"},
	} {
		if got := strings.Join(list(one.path, one.depth), " "); got != one.want {
			t.Errorf("%s %d: %s", one.path, one.depth, got)
		}
	}
	if _, err := c.Move(t.Context(), request(&filesystem.MoveRequest{Source: "top/a", Destination: "new/place"})); err != nil {
		t.Fatal(err)
	}
	if got := list("new", 3); !slices.Equal(got, []string{"new/place", "new/place/b", "new/place/b/c"}) {
		t.Fatal(got)
	}
	for range 2 { // what is not there is removed
		if _, err := c.Remove(t.Context(), request(&filesystem.RemoveRequest{Path: "new"})); err != nil {
			t.Fatal(err)
		}
	}
	// A link is removed, and not what is behind it.
	if _, err := c.Remove(t.Context(), request(&filesystem.RemoveRequest{Path: "link"})); err != nil {
		t.Fatal(err)
	}
	if got := list("top", 1); len(got) != 1 {
		t.Fatal(got)
	}
}

func TestMoveBetweenFileSystems(t *testing.T) {
	c, home := client(t)
	other, err := os.MkdirTemp("/dev/shm", "workspaced")
	if err != nil {
		t.Skip("no second file system:", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(other) })
	if err := os.Rename(other, filepath.Join(home, "same")); !errors.Is(err, syscall.EXDEV) {
		t.Skip("one file system:", err)
	}
	move := func(from, to string) error {
		_, err := c.Move(t.Context(), request(&filesystem.MoveRequest{Source: from, Destination: to}))
		return err
	}
	write(t, filepath.Join(other, "tree/a/b"))
	if err := os.Chmod(filepath.Join(other, "tree/a"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a/b", filepath.Join(other, "tree/link")); err != nil {
		t.Fatal(err)
	}
	if err := move(filepath.Join(other, "tree"), "new/tree"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(home, "new/tree/a"))
	if err != nil || info.Mode().Perm() != 0o750 {
		t.Fatal(info, err)
	}
	info, err = os.Stat(filepath.Join(home, "new/tree/link"))
	if err != nil || info.Mode().Perm() != 0o640 || info.Size() != 3 {
		t.Fatal(info, err)
	}
	// An existing file is replaced; a folder is not, and nothing is lost or left then.
	write(t, filepath.Join(other, "file"))
	if err := os.WriteFile(filepath.Join(home, "new/file"), []byte("longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := move(filepath.Join(other, "file"), "new/file"); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(other, "file"))
	if err := syscall.Mkfifo(filepath.Join(other, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{filepath.Join(other, "file"): "new/tree", other: "new/pipe", home: filepath.Join(other, "home")} {
		if err := move(from, to); err == nil {
			t.Errorf("%s is at %s", from, to)
		}
	}
	for folder, want := range map[string][]string{other: {"file", "pipe"}, filepath.Join(home, "new"): {"file", "tree"}} {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s: %v", folder, names)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(home, "new/file")); string(raw) != "abc" {
		t.Fatal(string(raw), err)
	}
}

func TestAListIsBounded(t *testing.T) {
	home := t.TempDir()
	s := &Service{accounts: account.NewDirectory("/nonexistent", "ada", home), limit: 5}
	for i := range 6 {
		write(t, filepath.Join(home, fmt.Sprint(i)))
	}
	if _, err := s.ListDir(t.Context(), request(&filesystem.ListDirRequest{})); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(home, "0")); err != nil {
		t.Fatal(err)
	}
	if r, err := s.ListDir(t.Context(), request(&filesystem.ListDirRequest{})); err != nil || len(r.Msg.GetEntries()) != 5 {
		t.Fatal(err)
	}
}

func TestFullDiskIsNoRateLimit(t *testing.T) {
	// Clients of envd repeat what a rate limit refused.
	for _, err := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EXDEV} {
		if code := connect.CodeOf(problem(&os.PathError{Op: "mkdir", Path: "x", Err: err})); code != connect.CodeFailedPrecondition {
			t.Errorf("%v: %v", err, code)
		}
	}
}

func TestWatchDir(t *testing.T) {
	c, home := client(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := request(&filesystem.WatchDirRequest{Path: ".", IncludeEntry: true, AllowNetworkMounts: true})
	r.Header().Set("Keepalive-Ping-Interval", "1")
	stream, err := c.WatchDir(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	if !stream.Receive() || stream.Msg().GetStart() == nil {
		t.Fatalf("%v %v", stream.Msg(), stream.Err())
	}
	if !stream.Receive() || stream.Msg().GetKeepalive() == nil {
		t.Fatalf("no sign of life: %v %v", stream.Msg(), stream.Err())
	}
	write(t, filepath.Join(home, "x"))
	for stream.Receive() {
		if event := stream.Msg().GetFilesystem(); event.GetName() == "x" && event.GetType() == filesystem.EventType_EVENT_TYPE_CREATE {
			if event.GetEntry().GetPath() != filepath.Join(home, "x") {
				t.Fatalf("%v", event)
			}
			return
		}
	}
	t.Fatal(stream.Err())
}

func TestPolledWatch(t *testing.T) {
	c, home := client(t)
	created, err := c.CreateWatcher(t.Context(), request(&filesystem.CreateWatcherRequest{Path: ".", Recursive: true}))
	if err != nil {
		t.Fatal(err)
	}
	id := created.Msg.GetWatcherId()
	write(t, filepath.Join(home, "sub/deep/x"))
	seen := map[string]bool{}
	for !seen["sub/deep/x"] {
		events, err := c.GetWatcherEvents(t.Context(), request(&filesystem.GetWatcherEventsRequest{WatcherId: id}))
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range events.Msg.GetEvents() {
			seen[event.GetName()] = true
		}
		if t.Context().Err() != nil {
			t.Fatal(seen)
		}
	}
	if _, err := c.RemoveWatcher(t.Context(), request(&filesystem.RemoveWatcherRequest{WatcherId: id})); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RemoveWatcher(t.Context(), request(&filesystem.RemoveWatcherRequest{WatcherId: id})); connect.CodeOf(err) != connect.CodeNotFound {
		t.Fatal(err)
	}
}
