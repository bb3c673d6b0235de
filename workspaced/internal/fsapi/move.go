package fsapi

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"workspaced/internal/partial"
)

// move renames a file or folder. To another file system it copies it and removes the
// source, as mv does: /tmp and the home of a sandbox are two. The home itself stays.
func move(source, destination, home string) error {
	err := os.Rename(source, destination)
	if !errors.Is(err, syscall.EXDEV) || strings.HasPrefix(home+"/", source+"/") {
		return err
	}
	// Under the name of an upload first: nobody sees a part of it at the destination.
	temporary := filepath.Join(filepath.Dir(destination), partial.Name(filepath.Base(destination)))
	err = copyTree(source, temporary)
	if err == nil {
		err = os.Rename(temporary, destination)
	}
	if err != nil {
		_ = os.RemoveAll(temporary)
		return err
	}
	return os.RemoveAll(source)
}

// copyTree copies a file, link or folder with modes, times and metadata.
func copyTree(source, target string) error {
	info, err := os.Lstat(source)
	if err != nil {
		return err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(source)
		if err != nil {
			return err
		}
		return os.Symlink(to, target)
	case info.IsDir():
		entries, err := os.ReadDir(source)
		if err == nil {
			err = os.Mkdir(target, 0o700)
		}
		for _, entry := range entries {
			if err == nil {
				err = copyTree(filepath.Join(source, entry.Name()), filepath.Join(target, entry.Name()))
			}
		}
		if err != nil {
			return err
		}
	case info.Mode().IsRegular():
		if err := copyFile(source, target); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s is neither a file nor a folder: %w", source, syscall.EXDEV)
	}
	for key, value := range metadata(source) {
		// A file system without metadata takes the content alone.
		if err := unix.Lsetxattr(target, MetadataPrefix+key, []byte(value), 0); err != nil && !errors.Is(err, syscall.ENOTSUP) {
			return err
		}
	}
	if err := os.Chmod(target, info.Mode().Perm()); err != nil {
		return err
	}
	return os.Chtimes(target, time.Time{}, info.ModTime())
}

func copyFile(source, target string) error {
	from, err := os.OpenFile(source, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close()) // a network file system reports a full disk here
}
