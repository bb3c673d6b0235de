package sshd

import (
	"errors"
	"io"
	"os"

	"github.com/pkg/sftp"
)

type stdio struct {
	io.Reader
	io.WriteCloser
}

// ServeSFTP serves SFTP on standard input and output, in a process of its own.
func ServeSFTP() error {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/"
	}
	server, err := sftp.NewServer(stdio{os.Stdin, os.Stdout}, sftp.WithServerWorkingDirectory(home))
	if err != nil {
		return err
	}
	if err := server.Serve(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
