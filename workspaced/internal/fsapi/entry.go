// Package fsapi serves envd's filesystem protocol.
package fsapi

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/timestamppb"

	"workspaced/gen/filesystem"
	"workspaced/internal/account"
	"workspaced/internal/watch"
)

// MetadataPrefix is the namespace of extended attributes that hold metadata.
const MetadataPrefix = "user.e2b."

// Entry returns what is known about a path.
func Entry(d *account.Directory, path string) (*filesystem.EntryInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	return describe(d, path, info), nil
}

func describe(d *account.Directory, path string, info fs.FileInfo) *filesystem.EntryInfo {
	entry := &filesystem.EntryInfo{
		Name: filepath.Base(path), Path: path, Size: info.Size(),
		Mode: uint32(info.Mode().Perm()), Permissions: info.Mode().String(),
		Type: typeOf(info.Mode()), ModifiedTime: timestamppb.New(info.ModTime()),
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		entry.Owner, entry.Group = d.Names(stat.Uid, stat.Gid)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		// A link has the type and mode of its target, if it leads anywhere.
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			target, _ = os.Readlink(path)
		} else if behind, err := os.Stat(target); err == nil {
			entry.Type, entry.Mode = typeOf(behind.Mode()), uint32(behind.Mode().Perm())
		}
		entry.SymlinkTarget = &target
	} else {
		entry.Metadata = metadata(path)
	}
	return entry
}

func typeOf(mode fs.FileMode) filesystem.FileType {
	switch {
	case mode.IsRegular():
		return filesystem.FileType_FILE_TYPE_FILE
	case mode.IsDir():
		return filesystem.FileType_FILE_TYPE_DIRECTORY
	case mode&fs.ModeSymlink != 0:
		return filesystem.FileType_FILE_TYPE_SYMLINK
	}
	return filesystem.FileType_FILE_TYPE_UNSPECIFIED
}

// metadata returns the extended attributes of a file below the prefix.
func metadata(path string) map[string]string {
	var names [8192]byte
	size, err := unix.Llistxattr(path, names[:])
	if err != nil || size == 0 {
		return nil
	}
	found := map[string]string{}
	for name := range strings.SplitSeq(string(names[:size]), "\x00") {
		key, ours := strings.CutPrefix(name, MetadataPrefix)
		if !ours {
			continue
		}
		var value [4096]byte
		if length, err := unix.Lgetxattr(path, name, value[:]); err == nil {
			found[key] = string(value[:length])
		}
	}
	return found
}

// problem returns the protocol's error for one of the file system.
func problem(err error) error {
	var known *connect.Error
	if errors.As(err, &known) {
		return err
	}
	code := connect.CodeInternal
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = connect.CodeNotFound
	case errors.Is(err, fs.ErrExist):
		code = connect.CodeAlreadyExists
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		code = connect.CodePermissionDenied
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.EINVAL),
		errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, watch.ErrNoFolder):
		code = connect.CodeInvalidArgument
	case errors.Is(err, watch.ErrTooMany), errors.Is(err, watch.ErrLost), errors.Is(err, syscall.EMFILE):
		code = connect.CodeResourceExhausted
	// Clients of envd take an exhausted resource for a rate limit: a full disk does not pass by itself.
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EXDEV),
		errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, watch.ErrRootGone), errors.Is(err, watch.ErrClosed):
		code = connect.CodeFailedPrecondition
	}
	return connect.NewError(code, err)
}
