// Package boot prepares this process to be the first one of a sandbox, and copies
// it there.
package boot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Harden keeps children from what is this process's own: descriptors it was
// started with are not inherited, processes of the same user cannot trace it or
// read its memory and environment, and orphans become its children.
func Harden() {
	if unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) != nil {
		closeOnExec() // a kernel that does not know it
	}
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if os.Getpid() != 1 {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	}
}

func closeOnExec() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// Install copies this program into a folder and returns its path and digest. An
// init container calls it; the sandbox's container runs the copy.
func Install(folder string) (path, digest string, err error) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", "", fmt.Errorf("install: %w", err)
	}
	defer self.Close()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", "", fmt.Errorf("install: %w", err)
	}
	temporary, err := os.CreateTemp(folder, ".workspaced-*")
	if err != nil {
		return "", "", fmt.Errorf("install: %w", err)
	}
	defer os.Remove(temporary.Name())
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(temporary, hash), self)
	if err == nil {
		err = temporary.Chmod(0o755)
	}
	if closing := temporary.Close(); err == nil {
		err = closing
	}
	path = filepath.Join(folder, "workspaced")
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return "", "", fmt.Errorf("install: %w", err)
	}
	return path, hex.EncodeToString(hash.Sum(nil)), nil
}
