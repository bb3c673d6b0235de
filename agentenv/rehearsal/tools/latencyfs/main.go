// Latencyfs runs a command that sees folders with the latency of a network file system.
//
//	latencyfs --delay 1ms SOURCE=TARGET... -- COMMAND [ARGUMENT...]
//
// Each TARGET becomes a FUSE mount of its SOURCE, in a mount namespace that only the
// command shares, so nothing is left behind however it ends. Operations that a client
// of NFS sends to its server take the delay; what it answers from its caches does not:
// attributes and names for three seconds, file contents while they are cached.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

var version = "dev"

const cached = 3 * time.Second // as `acregmin` of NFS

func main() {
	// The mount namespace is that of this thread, from which the command is started.
	runtime.LockOSThread()
	delay := flag.Duration("delay", time.Millisecond, "the latency of each operation")
	show := flag.Bool("version", false, "print the version")
	flag.Parse()
	if *show {
		fmt.Println(version)
		return
	}
	code, err := run(*delay, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "latencyfs:", err)
		os.Exit(125)
	}
	os.Exit(code)
}

func run(delay time.Duration, arguments []string) (int, error) {
	var folders [][2]string
	for len(arguments) > 0 && arguments[0] != "--" {
		source, target, found := strings.Cut(arguments[0], "=")
		if !found {
			return 0, fmt.Errorf("%s is not SOURCE=TARGET", arguments[0])
		}
		folders = append(folders, [2]string{source, target})
		arguments = arguments[1:]
	}
	if len(arguments) < 2 {
		return 0, errors.New("there is no command")
	}
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return 0, fmt.Errorf("a mount namespace: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return 0, fmt.Errorf("private mounts: %w", err)
	}
	for _, folder := range folders {
		if err := mount(delay, folder[0], folder[1]); err != nil {
			return 0, fmt.Errorf("%s: %w", folder[1], err)
		}
	}
	return command(arguments[1:])
}

func mount(delay time.Duration, source, target string) error {
	root, err := fs.NewLoopbackRoot(source)
	if err != nil {
		return err
	}
	timeout := cached
	node := fs.NewNodeFS(root, &fs.Options{EntryTimeout: &timeout, AttrTimeout: &timeout})
	server, err := fuse.NewServer(&slow{node, delay}, target, &fuse.MountOptions{
		AllowOther: true, DirectMountStrict: true, DirectMountFlags: syscall.MS_NODEV | syscall.MS_NOSUID,
		Options: []string{"default_permissions"}, FsName: source, Name: "latencyfs", MaxWrite: 1 << 20,
	})
	if err != nil {
		return err
	}
	if err := keepToItself(); err != nil {
		return err
	}
	go server.Serve()
	return server.WaitMount()
}

// keepToItself keeps the command from inheriting a connection: it would hold it open after the end of this
// process, and wait for its own answer.
func keepToItself() error {
	descriptors, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, descriptor := range descriptors {
		number, err := strconv.Atoi(descriptor.Name())
		if err != nil {
			return err
		}
		if path, err := os.Readlink("/proc/self/fd/" + descriptor.Name()); err == nil && path == "/dev/fuse" {
			syscall.CloseOnExec(number)
		}
	}
	return nil
}

func command(arguments []string) (int, error) {
	cmd := exec.Command(arguments[0], arguments[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		for number := range signals {
			_ = cmd.Process.Signal(number)
		}
	}()
	err := cmd.Wait()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		return 0, err
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// slow delays what a client of NFS asks its server. Writes are sent when a file is closed or synchronised.
type slow struct {
	fuse.RawFileSystem
	delay time.Duration
}

func (s *slow) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Lookup(cancel, header, name, out)
}

func (s *slow) GetAttr(cancel <-chan struct{}, input *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.GetAttr(cancel, input, out)
}

func (s *slow) SetAttr(cancel <-chan struct{}, input *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.SetAttr(cancel, input, out)
}

func (s *slow) Mkdir(cancel <-chan struct{}, input *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Mkdir(cancel, input, name, out)
}

func (s *slow) Unlink(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Unlink(cancel, header, name)
}

func (s *slow) Rmdir(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Rmdir(cancel, header, name)
}

func (s *slow) Rename(cancel <-chan struct{}, input *fuse.RenameIn, oldName, newName string) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Rename(cancel, input, oldName, newName)
}

func (s *slow) Link(cancel <-chan struct{}, input *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Link(cancel, input, name, out)
}

func (s *slow) Symlink(cancel <-chan struct{}, header *fuse.InHeader, to, name string, out *fuse.EntryOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Symlink(cancel, header, to, name, out)
}

func (s *slow) Readlink(cancel <-chan struct{}, header *fuse.InHeader) ([]byte, fuse.Status) {
	time.Sleep(s.delay)
	return s.RawFileSystem.Readlink(cancel, header)
}

func (s *slow) Create(cancel <-chan struct{}, input *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Create(cancel, input, name, out)
}

func (s *slow) Open(cancel <-chan struct{}, input *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Open(cancel, input, out)
}

func (s *slow) Read(cancel <-chan struct{}, input *fuse.ReadIn, buffer []byte) (fuse.ReadResult, fuse.Status) {
	time.Sleep(s.delay)
	return s.RawFileSystem.Read(cancel, input, buffer)
}

func (s *slow) Flush(cancel <-chan struct{}, input *fuse.FlushIn) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Flush(cancel, input)
}

func (s *slow) Fsync(cancel <-chan struct{}, input *fuse.FsyncIn) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.Fsync(cancel, input)
}

func (s *slow) OpenDir(cancel <-chan struct{}, input *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	time.Sleep(s.delay)
	return s.RawFileSystem.OpenDir(cancel, input, out)
}
