// Package harness runs the built program for tests and benchmarks: it is a process
// of its own there, as in a sandbox, because it collects every child it has.
package harness

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"workspaced/gen/filesystem/filesystemconnect"
	"workspaced/gen/process/processconnect"
	"workspaced/internal/access"
	"workspaced/internal/devkeys"
)

// Pod is the uid that sandboxes of this package have.
const Pod = "harness-pod"

// RaceVariable asks for a program with the race detector.
const RaceVariable = "HARNESS_RACE"

// Sandbox is a running program.
type Sandbox struct {
	URL    string
	Port   int
	Home   string
	Signer *devkeys.Signer
	Log    *Text
	Out    *Text

	process *exec.Cmd
	exited  chan struct{}
	stopped sync.Once
}

// Text is what a program has written so far.
type Text struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write appends to the text.
func (t *Text) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buffer.Write(data)
}

// String returns the text.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buffer.String()
}

// Build builds a command of this module into a folder and returns its path.
func Build(folder, name string) (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	path := filepath.Join(folder, name)
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, "./cmd/"+name)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if os.Getenv(RaceVariable) != "" {
		build = exec.Command("go", "build", "-race", "-o", path, "./cmd/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=1")
	}
	build.Dir = strings.TrimSpace(string(root))
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, out)
	}
	return path, nil
}

// Start runs a program with its state below a folder. Options come before the
// command, which follows "--".
func Start(program, folder string, options ...string) (*Sandbox, error) {
	return StartAs(os.Geteuid(), program, folder, options...)
}

// StartAs runs a program as a user; only root can start it as another.
func StartAs(uid int, program, folder string, options ...string) (*Sandbox, error) {
	signer, err := devkeys.New("k1", Pod, "harness-claim")
	if err != nil {
		return nil, err
	}
	keys, err := signer.Write(filepath.Join(folder, "keys"))
	if err != nil {
		return nil, err
	}
	home := filepath.Join(folder, "home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &Sandbox{
		URL: "http://127.0.0.1:" + strconv.Itoa(port), Port: port, Home: home, Signer: signer,
		Log: &Text{}, Out: &Text{}, exited: make(chan struct{}),
	}
	arguments := []string{
		"run", "--listen", "127.0.0.1:" + strconv.Itoa(port), "--keys", keys, "--home", home,
		"--busy-dir", filepath.Join(home, ".busy"), "--user-name", "user", "--grace", "2s",
	}
	s.process = exec.Command(program, append(arguments, options...)...)
	s.process.Env = append(os.Environ(), "WORKSPACED_POD_UID="+Pod, "WORKSPACED_SECRET=of the program", "HOME="+home)
	s.process.Stdout, s.process.Stderr = s.Out, s.Log
	if uid != os.Geteuid() {
		s.process.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		for _, path := range []string{home, filepath.Dir(keys)} {
			if err := os.Chown(path, uid, uid); err != nil {
				return nil, err
			}
		}
	}
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = s.process.Wait()
		close(s.exited)
	}()
	for {
		select {
		case <-s.exited:
			return nil, fmt.Errorf("it ended at its start: %s", s.Log)
		default:
		}
		response, err := http.Get(s.URL + "/health")
		if err == nil {
			response.Body.Close()
			return s, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// PID returns the id of the program's process.
func (s *Sandbox) PID() int { return s.process.Process.Pid }

// Exited returns a channel that is closed when the program has ended.
func (s *Sandbox) Exited() <-chan struct{} { return s.exited }

// ExitCode returns the program's exit code; it is valid after Exited.
func (s *Sandbox) ExitCode() int { return s.process.ProcessState.ExitCode() }

// Signal signals the program.
func (s *Sandbox) Signal(signal syscall.Signal) error { return s.process.Process.Signal(signal) }

// Stop ends the program and waits for it.
func (s *Sandbox) Stop() {
	s.stopped.Do(func() {
		_ = s.Signal(syscall.SIGTERM)
		select {
		case <-s.exited:
		case <-time.After(20 * time.Second):
			_ = s.process.Process.Kill()
			<-s.exited
		}
	})
}

// bearer adds a token to every request.
type bearer struct {
	next  http.RoundTripper
	token func() string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(access.TokenHeader, b.token())
	return b.next.RoundTrip(r)
}

// Client returns an HTTP client that brings tokens with a scope and session.
func (s *Sandbox) Client(scope, session string) *http.Client {
	return s.client(scope, session, &http.Transport{MaxIdleConnsPerHost: 64})
}

// ClientWithBuffers returns a client of the API that reads much at once, as those
// that copy files. It asks for no compression, which Go's clients do by default and
// other libraries do not: it costs more than it saves within a region.
func (s *Sandbox) ClientWithBuffers(size int) *http.Client {
	return s.client("api", "", &http.Transport{ReadBufferSize: size, WriteBufferSize: size, DisableCompression: true})
}

// Client2 does the same over HTTP/2.
func (s *Sandbox) Client2(scope, session string) *http.Client {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return s.client(scope, session, &http.Transport{Protocols: &protocols})
}

func (s *Sandbox) client(scope, session string, transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: bearer{transport, func() string { return s.Signer.Token(scope, session) }}}
}

// Processes returns a client of the process protocol.
func (s *Sandbox) Processes(client *http.Client, options ...connect.ClientOption) processconnect.ProcessClient {
	return processconnect.NewProcessClient(client, s.URL, options...)
}

// Files returns a client of the filesystem protocol.
func (s *Sandbox) Files(client *http.Client, options ...connect.ClientOption) filesystemconnect.FilesystemClient {
	return filesystemconnect.NewFilesystemClient(client, s.URL, options...)
}

// Memory returns the resident bytes of the program: now, and at their highest.
func (s *Sandbox) Memory() (now, highest int, err error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(s.PID()) + "/status")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch kib, _ := strconv.Atoi(fields[1]); fields[0] {
		case "VmRSS:":
			now = kib << 10
		case "VmHWM:":
			highest = kib << 10
		}
	}
	if now == 0 {
		return 0, 0, errors.New("no resident memory")
	}
	return now, highest, nil
}

// Get returns the body of a GET request.
func Get(client *http.Client, url string) (int, string, error) {
	response, err := client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}
