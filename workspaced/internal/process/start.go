package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/creack/pty"

	"workspaced/internal/account"
)

// Size is the size of a terminal.
type Size struct{ Cols, Rows uint16 }

// Spec is what to start.
type Spec struct {
	Command  string
	Name     string // its own name (argv[0]), if not the command
	Args     []string
	Envs     map[string]string
	Dir      string
	Account  account.Account
	Terminal *Size // nil: pipes
	Stdin    bool
	Tag      string
}

// interactive reports whether this is a shell in a terminal without a script or command.
func (s Spec) interactive() bool {
	switch filepath.Base(s.Command) {
	case "ash", "bash", "dash", "fish", "ksh", "sh", "zsh":
	default:
		return false
	}
	return s.Terminal != nil && !slices.ContainsFunc(s.Args, func(word string) bool {
		return !strings.HasPrefix(word, "-") || !strings.HasPrefix(word, "--") && strings.Contains(word, "c") || word == "--command"
	})
}

// ErrInvalid marks mistakes of the caller.
var ErrInvalid = errors.New("cannot start")

// ends are the descriptors of both sides of a new process.
type ends struct {
	child  []int
	input  *os.File
	stdout *os.File
	stderr *os.File
	tty    *os.File
}

func (e *ends) closeChild() {
	for _, fd := range e.child {
		_ = syscall.Close(fd)
	}
	e.child = nil
}

func (e *ends) closeOwn() {
	for _, file := range []*os.File{e.input, e.stdout, e.stderr, e.tty} {
		if file != nil {
			file.Close()
		}
	}
}

// open makes the descriptors. The own sides are non-blocking and polled, so that
// waiting for a process holds neither a thread nor a buffer.
func open(spec Spec) (*ends, error) {
	if spec.Terminal != nil {
		return openTerminal(*spec.Terminal, spec.Account)
	}
	e := &ends{}
	fail := func(err error) (*ends, error) {
		e.closeChild()
		e.closeOwn()
		return nil, err
	}
	if spec.Stdin {
		read, write, err := pipe()
		if err != nil {
			return fail(err)
		}
		e.child, e.input = append(e.child, read), own(write, "stdin")
	} else {
		null, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return fail(err)
		}
		e.child = append(e.child, null)
	}
	for _, side := range []**os.File{&e.stdout, &e.stderr} {
		read, write, err := pipe()
		if err != nil {
			return fail(err)
		}
		e.child, *side = append(e.child, write), own(read, "output")
	}
	return e, nil
}

func pipe() (read, write int, err error) {
	var fds [2]int
	err = syscall.Pipe2(fds[:], syscall.O_CLOEXEC)
	return fds[0], fds[1], err
}

func own(fd int, name string) *os.File {
	_ = syscall.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}

func openTerminal(size Size, a account.Account) (*ends, error) {
	master, slave, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	defer slave.Close()
	if err := pty.Setsize(master, &pty.Winsize{Cols: size.Cols, Rows: size.Rows}); err != nil {
		master.Close()
		return nil, fmt.Errorf("size the terminal: %w", err)
	}
	if os.Geteuid() == 0 && a.UID != 0 {
		_ = slave.Chown(int(a.UID), int(a.GID))
	}
	// Plain descriptors: what os.File hands out would be in blocking mode.
	dup := func(file *os.File) (fd int, err error) {
		raw, err := file.SyscallConn()
		if err != nil {
			return 0, err
		}
		if inner := raw.Control(func(from uintptr) {
			var errno syscall.Errno
			got, _, errno := syscall.Syscall(syscall.SYS_FCNTL, from, syscall.F_DUPFD_CLOEXEC, 3)
			if fd = int(got); errno != 0 {
				err = errno
			}
		}); inner != nil {
			return 0, inner
		}
		return fd, err
	}
	child, err := dup(slave)
	if err != nil {
		master.Close()
		return nil, err
	}
	_ = syscall.SetNonblock(child, false)
	own1, err := dup(master)
	if err != nil {
		syscall.Close(child)
		master.Close()
		return nil, err
	}
	master.Close()
	return &ends{child: []int{child}, tty: own(own1, "terminal")}, nil
}

// attributes returns the child's side of a start.
func attributes(spec Spec, e *ends) (files []uintptr, sys *syscall.SysProcAttr) {
	sys = &syscall.SysProcAttr{Setsid: true}
	if spec.Terminal != nil {
		fd := uintptr(e.child[0])
		files = []uintptr{fd, fd, fd}
		sys.Setctty = true
	} else {
		for _, fd := range e.child {
			files = append(files, uintptr(fd))
		}
	}
	if os.Getpid() != 1 {
		// Where the end of this program does not end the sandbox.
		sys.Pdeathsig = syscall.SIGKILL
	}
	if os.Geteuid() == 0 && spec.Account.UID != 0 {
		sys.Credential = &syscall.Credential{Uid: spec.Account.UID, Gid: spec.Account.GID}
	}
	return files, sys
}

// locate returns the file to execute. A shell that the image lacks is replaced by
// /bin/sh if it has that; else the answer says what is missing.
func locate(command, dir string, env []string) (string, error) {
	if command == "" {
		return "", fmt.Errorf("%w: no command", ErrInvalid)
	}
	if strings.ContainsRune(command, '/') {
		path := command
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if isShell(command) {
			return fallback(command)
		}
		return "", fmt.Errorf("%w %q: %w", ErrInvalid, command, err)
	}
	for _, one := range env {
		if list, found := strings.CutPrefix(one, "PATH="); found {
			for _, folder := range filepath.SplitList(list) {
				if path := filepath.Join(folder, command); executable(path) == nil {
					return path, nil
				}
			}
		}
	}
	if isShell(command) {
		return fallback(command)
	}
	return "", fmt.Errorf("%w %q: not found in PATH", ErrInvalid, command)
}

func isShell(command string) bool {
	base := filepath.Base(command)
	return base == "bash" || base == "sh" || base == "zsh"
}

func fallback(command string) (string, error) {
	if executable("/bin/sh") == nil {
		return "/bin/sh", nil
	}
	return "", fmt.Errorf("%w: the image of this sandbox has neither %s nor /bin/sh; "+
		"start a program of the image by its path, or add a shell to the image", ErrInvalid, command)
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return syscall.EISDIR
	case info.Mode()&0o111 == 0:
		return syscall.EACCES
	}
	return nil
}
