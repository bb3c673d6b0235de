package sshd

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"
)

// LoadHostKey reads the host key, and creates it where there is none. It lies in
// the home, so that a workspace keeps it over suspend and resume. An empty path or
// a folder that cannot be written gives a key for this run.
func LoadHostKey(path string) (ssh.Signer, error) {
	if path != "" {
		raw, err := os.ReadFile(path)
		if err == nil {
			if signer, err := ssh.ParsePrivateKey(raw); err == nil {
				return signer, nil
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			path = "" // not ours to replace
		}
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("host key: %w", err)
	}
	if path != "" {
		// A key that cannot be stored serves until the next start.
		_ = writeKey(path, private)
	}
	return ssh.NewSignerFromKey(private)
}

func writeKey(path string, private ed25519.PrivateKey) error {
	block, err := ssh.MarshalPrivateKey(private, "workspaced")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".host-key-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(pem.EncodeToMemory(block))
	if closing := temporary.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
