package fsapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"connectrpc.com/connect"

	"workspaced/gen/filesystem"
	"workspaced/gen/filesystem/filesystemconnect"
	"workspaced/internal/account"
	"workspaced/internal/processapi"
	"workspaced/internal/watch"
)

const (
	maxMessage = 1 << 20
	// maxEntries bounds the answer of a list.
	maxEntries = 20_000
)

// Service implements filesystem.Filesystem.
type Service struct {
	accounts *account.Directory
	hub      *watch.Hub
	polled   *polled
	limit    int // of the entries of a list
}

// NewHandler returns the path and handler of the service.
func NewHandler(d *account.Directory, hub *watch.Hub) (string, http.Handler) {
	return filesystemconnect.NewFilesystemHandler(&Service{d, hub, newPolled(), maxEntries},
		connect.WithReadMaxBytes(maxMessage), connect.WithCompressMinBytes(1<<16))
}

// resolve returns the account of a request and the absolute form of a path.
func (s *Service) resolve(header http.Header, path string) (account.Account, string, error) {
	who, err := processapi.Account(s.accounts, header)
	if err != nil {
		return who, "", err
	}
	if strings.ContainsRune(path, 0) {
		return who, "", connect.NewError(connect.CodeInvalidArgument, errors.New("a NUL byte in the path"))
	}
	return who, who.Resolve(path), nil
}

// Stat returns what is known about a path.
func (s *Service) Stat(_ context.Context, r *connect.Request[filesystem.StatRequest]) (*connect.Response[filesystem.StatResponse], error) {
	who, path, err := s.resolve(r.Header(), r.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	var entry *filesystem.EntryInfo
	err = who.As(func() (err error) { entry, err = Entry(s.accounts, path); return err })
	if errors.Is(err, syscall.ENOTDIR) {
		// Nothing exists below a file: callers ask by this whether something does.
		return nil, connect.NewError(connect.CodeNotFound, err)
	}
	if err != nil {
		return nil, problem(err)
	}
	return connect.NewResponse(&filesystem.StatResponse{Entry: entry}), nil
}

// MakeDir creates a folder and the ones above it.
func (s *Service) MakeDir(_ context.Context, r *connect.Request[filesystem.MakeDirRequest]) (*connect.Response[filesystem.MakeDirResponse], error) {
	who, path, err := s.resolve(r.Header(), r.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	var entry *filesystem.EntryInfo
	err = who.As(func() error {
		if info, err := os.Stat(path); err == nil {
			if info.IsDir() {
				return fmt.Errorf("directory %s: %w", path, fs.ErrExist)
			}
			return fmt.Errorf("%s: %w", path, syscall.ENOTDIR)
		}
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		entry, err = Entry(s.accounts, path)
		return err
	})
	if err != nil {
		return nil, problem(err)
	}
	return connect.NewResponse(&filesystem.MakeDirResponse{Entry: entry}), nil
}

// Move renames a file or folder, and creates the folders above its new path.
func (s *Service) Move(_ context.Context, r *connect.Request[filesystem.MoveRequest]) (*connect.Response[filesystem.MoveResponse], error) {
	who, source, err := s.resolve(r.Header(), r.Msg.GetSource())
	if err != nil {
		return nil, err
	}
	_, destination, err := s.resolve(r.Header(), r.Msg.GetDestination())
	if err != nil {
		return nil, err
	}
	var entry *filesystem.EntryInfo
	err = who.As(func() error {
		if _, err := os.Lstat(source); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(destination), 0o755); err != nil {
			return err
		}
		if err := move(source, destination, who.Home); err != nil {
			return err
		}
		entry, err = Entry(s.accounts, destination)
		return err
	})
	if err != nil {
		return nil, problem(err)
	}
	return connect.NewResponse(&filesystem.MoveResponse{Entry: entry}), nil
}

// Remove removes a file or folder with all below it. What is not there is removed.
func (s *Service) Remove(_ context.Context, r *connect.Request[filesystem.RemoveRequest]) (*connect.Response[filesystem.RemoveResponse], error) {
	who, path, err := s.resolve(r.Header(), r.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	if path == "/" || r.Msg.GetPath() == "" {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("the root folder and the empty path are not removed"))
	}
	if err := who.As(func() error { return os.RemoveAll(path) }); err != nil {
		return nil, problem(err)
	}
	return connect.NewResponse(&filesystem.RemoveResponse{}), nil
}

// ListDir returns the entries below a folder.
func (s *Service) ListDir(ctx context.Context, r *connect.Request[filesystem.ListDirRequest]) (*connect.Response[filesystem.ListDirResponse], error) {
	who, root, err := s.resolve(r.Header(), r.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	depth := max(int(r.Msg.GetDepth()), 1)
	answer := &filesystem.ListDirResponse{}
	err = who.As(func() error {
		info, err := os.Stat(root)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fmt.Errorf("%s: %w", root, syscall.ENOTDIR)
		}
		answer.Entries, err = s.list(ctx, root, depth)
		return err
	})
	if err != nil {
		return nil, problem(err)
	}
	return connect.NewResponse(answer), nil
}

// list walks a folder; entries keep the path that the caller gave, also behind a link.
func (s *Service) list(ctx context.Context, root string, depth int) ([]*filesystem.EntryInfo, error) {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, err
	}
	var entries []*filesystem.EntryInfo
	err = filepath.WalkDir(real, func(path string, entry fs.DirEntry, err error) error {
		if path == real {
			return err
		}
		if err != nil {
			return skip(entry) // vanished meanwhile, or a folder that cannot be read
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if len(entries) >= s.limit {
			return connect.NewError(connect.CodeInvalidArgument,
				fmt.Errorf("more than %d entries below %s; list a folder below it, or use a smaller depth", s.limit, root))
		}
		info, err := entry.Info()
		if err != nil {
			return skip(entry)
		}
		relative, err := filepath.Rel(real, path)
		if err != nil {
			return err
		}
		entries = append(entries, describe(s.accounts, filepath.Join(root, relative), info))
		if entry.IsDir() && strings.Count(relative, "/")+1 >= depth {
			return filepath.SkipDir
		}
		return nil
	})
	return entries, err
}

func skip(entry fs.DirEntry) error {
	if entry != nil && entry.IsDir() {
		return filepath.SkipDir
	}
	return nil
}
