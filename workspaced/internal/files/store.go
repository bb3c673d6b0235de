package files

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"workspaced/internal/account"
	"workspaced/internal/fsapi"
	"workspaced/internal/partial"
)

const prefixXattr = fsapi.MetadataPrefix

// store writes a file so that readers see the old content or the new one. It keeps
// the mode of an existing file and creates the folders above a new one.
func store(who account.Account, path string, body io.Reader, size int64, metadata map[string]string) error {
	var place placement
	if err := who.As(func() (err error) { place, err = prepare(path, size, len(metadata) > 0); return err }); err != nil {
		return err
	}
	defer place.file.Close()
	err := fill(place.file, body)
	if err == nil {
		err = setMetadata(place.file, metadata)
	}
	return place.publish(who, err)
}

// placement is where a body goes: a temporary file to be renamed, or the target
// itself where that cannot be replaced.
type placement struct {
	file      *os.File
	temporary string
	target    string
	mode      fs.FileMode
}

// publish closes the file and renames it to the target; after an error it removes it.
func (p placement) publish(who account.Account, err error) error {
	if err == nil && p.temporary != "" {
		err = p.file.Chmod(p.mode)
	}
	if closing := p.file.Close(); err == nil {
		err = closing // a network file system reports a full disk here
	}
	if p.temporary == "" {
		return err
	}
	return who.As(func() error {
		if err == nil {
			err = os.Rename(p.temporary, p.target)
		}
		if err != nil {
			_ = os.Remove(p.temporary)
		}
		return err
	})
}

func prepare(path string, size int64, withMetadata bool) (placement, error) {
	target, err := behindLinks(path)
	if err != nil {
		return placement{}, err
	}
	info, err := os.Stat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return placement{}, err
		}
	case err != nil:
		return placement{}, err
	case info.IsDir():
		return placement{}, badPath{path, "is a directory"}
	case !info.Mode().IsRegular():
		// A device or FIFO, as /dev/null: written to, never replaced.
		if withMetadata {
			return placement{}, badPath{path, "cannot hold metadata"}
		}
		file, err := os.OpenFile(target, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return placement{file: file, target: target}, err
	}
	if err := enough(filepath.Dir(target), size); err != nil {
		return placement{}, err
	}
	temporary := filepath.Join(filepath.Dir(target), partial.Name(filepath.Base(target)))
	mode := fs.FileMode(0o666) &^ umask
	if info != nil {
		mode = info.Mode().Perm()
	}
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrPermission) && info != nil {
		// A writable file in a folder that is not: it cannot be replaced.
		file, err = os.OpenFile(target, os.O_WRONLY|os.O_TRUNC, 0)
		return placement{file: file, target: target}, err
	}
	var failed *fs.PathError
	if errors.As(err, &failed) {
		failed.Path = target // callers know nothing of the temporary file
	}
	return placement{file: file, temporary: temporary, target: target, mode: mode}, err
}

// behindLinks returns the file that a path names through symbolic links; that file
// may not exist yet.
func behindLinks(path string) (string, error) {
	for range 40 {
		target, err := os.Readlink(path)
		if err != nil {
			return path, nil // no link, or nothing there
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = filepath.Clean(target)
	}
	return "", syscall.ELOOP
}

// enough refuses a body that cannot fit before it is sent.
func enough(folder string, size int64) error {
	var stat unix.Statfs_t
	if size <= 0 || unix.Statfs(folder, &stat) != nil || stat.Blocks == 0 {
		return nil
	}
	if uint64(size) > stat.Bavail*uint64(stat.Bsize) {
		return syscall.ENOSPC
	}
	return nil
}

func fill(file io.Writer, body io.Reader) error {
	// The parts of a form come in pieces of 4 KiB, and each write costs much under gVisor
	// and on network file systems. The file's own ReadFrom would not gather them.
	writer := bufio.NewWriterSize(struct{ io.Writer }{file}, 256<<10)
	_, err := writer.ReadFrom(body)
	if err == nil {
		err = writer.Flush()
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the body ended early", errBadRequest)
	}
	return err
}

func setMetadata(file *os.File, metadata map[string]string) error {
	for key, value := range metadata {
		if err := unix.Fsetxattr(int(file.Fd()), prefixXattr+key, []byte(value), 0); err != nil {
			if errors.Is(err, syscall.ENOTSUP) {
				return fmt.Errorf("the file system of this path cannot hold metadata: %w", errUnsupported)
			}
			return fmt.Errorf("set metadata %q: %w", key, err)
		}
	}
	return nil
}

// umask is read once: it belongs to the whole process.
var umask = func() fs.FileMode {
	old := syscall.Umask(0o022)
	syscall.Umask(old)
	return fs.FileMode(old)
}()
