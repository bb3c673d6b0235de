package boot

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestInstallReplacesACopy(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "folder")
	for range 2 {
		path, digest, err := Install(folder)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(raw)
		if hex.EncodeToString(sum[:]) != digest {
			t.Fatal("the digest is of other bytes")
		}
		if info, _ := os.Stat(path); info.Mode().Perm() != 0o755 {
			t.Fatal(info.Mode())
		}
	}
	if entries, _ := os.ReadDir(folder); len(entries) != 1 {
		t.Fatal(entries)
	}
}

func TestDescriptorsAreClosedOnExec(t *testing.T) {
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	inherited, err := unix.Dup(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	closeOnExec()
	flags, err := unix.FcntlInt(uintptr(inherited), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Fatal(flags, err)
	}
}
