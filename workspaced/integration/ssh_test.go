package integration

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"workspaced/internal/access"
	"workspaced/internal/harness"
)

// openssh runs OpenSSH's own tools against a sandbox.
type openssh struct {
	*testing.T
	config string
	folder string
}

func newOpenSSH(t *testing.T, s *harness.Sandbox, session string) openssh {
	t.Helper()
	need(t, "ssh")
	folder := t.TempDir()
	write(t, filepath.Join(folder, "token"), s.Signer.Token("ssh", session))
	_, key, err := harness.Get(s.Client("ssh", ""), s.URL+"/ssh/host-key")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "known_hosts"), "sandbox "+key)
	config := filepath.Join(folder, "config")
	write(t, config, strings.Join([]string{
		"Host sandbox", "User user", "HostKeyAlias sandbox", "UserKnownHostsFile " + filepath.Join(folder, "known_hosts"),
		"StrictHostKeyChecking yes", "LogLevel ERROR", "BatchMode yes",
		"ProxyCommand " + tools + " dial " + s.URL + " " + filepath.Join(folder, "token"), "",
	}, "\n"))
	return openssh{t, config, folder}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// need skips a test on a machine without a program, and says so.
func need(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not on this machine: this test needs it", name)
	}
}

func (o openssh) do(input, name string, arguments ...string) (stdout, stderr string, code int) {
	o.Helper()
	need(o.T, name)
	ctx, cancel := context.WithTimeout(o.Context(), 60*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir = o.folder
	command.Env = append(os.Environ(), "GIT_SSH_COMMAND=ssh -F "+o.config, "GIT_CONFIG_GLOBAL=/dev/null", "SSH_AUTH_SOCK=")
	command.Stdin = strings.NewReader(input)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil && command.ProcessState == nil {
		o.Fatal(err)
	}
	return out.String(), problems.String(), command.ProcessState.ExitCode()
}

func (o openssh) ssh(input string, arguments ...string) (stdout, stderr string, code int) {
	o.Helper()
	return o.do(input, "ssh", append([]string{"-F", o.config}, arguments...)...)
}

func (o openssh) must(name string, arguments ...string) string {
	o.Helper()
	out, errors, code := o.do("", name, arguments...)
	if code != 0 {
		o.Fatalf("%s %v: %d %s%s", name, arguments, code, out, errors)
	}
	return out
}

func TestOpenSSHRunsCommands(t *testing.T) {
	s := sandbox(t)
	o := newOpenSSH(t, s, "")
	if out, errors, code := o.ssh("input", "sandbox", "echo $USER; cat; echo err >&2; exit 7"); out != self(s)+"\ninput" || errors != "err\n" || code != 7 {
		t.Errorf("%q %q %d", out, errors, code)
	}
	if _, _, code := o.ssh("", "sandbox", "kill -9 $$"); code != 255 {
		t.Errorf("a signal: %d", code)
	}
	if out, _, code := o.ssh("", "-tt", "sandbox", "stty size; tty; exit 3"); !strings.Contains(out, "/dev/pts/") || code != 3 {
		t.Errorf("a terminal: %q %d", out, code)
	}
	if out, _, code := o.ssh("echo $0 $X; exit 4\n", "-o", "SetEnv=X=y", "sandbox"); !strings.Contains(out, "-") || !strings.HasSuffix(out, " y\n") || code != 4 {
		t.Errorf("a login shell: %q %d", out, code)
	}
	if out, _, code := o.ssh("", "sandbox", "head -c 5000000 /dev/zero"); len(out) != 5000000 || code != 0 {
		t.Errorf("%d bytes, %d", len(out), code)
	}
	if out, _, _ := o.ssh("", "sandbox", "env; ls -l /proc/self/fd"); strings.Contains(out, "WORKSPACED_") || strings.Contains(out, "socket:") {
		t.Errorf("%s", out)
	}
}

// self returns the name that the sandbox's user has: its entry in /etc/passwd wins.
func self(*harness.Sandbox) string {
	if os.Geteuid() == 0 {
		return "root"
	}
	return "user"
}

func TestOpenSSHCopiesFiles(t *testing.T) {
	s := sandbox(t)
	o := newOpenSSH(t, s, "")
	data := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	if err := os.WriteFile(filepath.Join(o.folder, "file"), data, 0o640); err != nil {
		t.Fatal(err)
	}
	same := func(path string) {
		t.Helper()
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		}
	}
	t.Run("sftp", func(t *testing.T) {
		need(t, "sftp")
		batch := filepath.Join(o.folder, "batch")
		write(t, batch, "mkdir d\nput file d/up\nchmod 600 d/up\nrename d/up d/renamed\nget d/renamed down\nls -l d\nsymlink d/renamed link\n")
		o.must("sftp", "-F", o.config, "-b", batch, "sandbox")
		same(filepath.Join(s.Home, "d/renamed"))
		same(filepath.Join(o.folder, "down"))
	})
	t.Run("scp", func(t *testing.T) {
		need(t, "scp")
		o.must("scp", "-F", o.config, "file", "sandbox:scp")
		o.must("scp", "-F", o.config, "sandbox:scp", "scp-back")
		same(filepath.Join(s.Home, "scp"))
		same(filepath.Join(o.folder, "scp-back"))
		o.must("scp", "-O", "-F", o.config, "file", "sandbox:old-protocol")
		same(filepath.Join(s.Home, "old-protocol"))
	})
	t.Run("rsync", func(t *testing.T) {
		need(t, "rsync")
		o.must("rsync", "-a", "-e", "ssh -F "+o.config, "file", "sandbox:sync/")
		same(filepath.Join(s.Home, "sync/file"))
	})
	t.Run("git", func(t *testing.T) {
		need(t, "git")
		o.must("git", "init", "-q", "--bare", filepath.Join(s.Home, "repository.git"))
		o.must("git", "init", "-q", "work")
		o.must("git", "-C", "work", "-c", "user.name=n", "-c", "user.email=n@example.com", "commit", "-q", "--allow-empty", "-m", "first")
		o.must("git", "-C", "work", "push", "-q", "sandbox:repository.git", "HEAD:refs/heads/main")
		o.must("git", "clone", "-q", "-b", "main", "sandbox:repository.git", "clone")
		if out := o.must("git", "-C", "clone", "log", "--format=%s"); out != "first\n" {
			t.Fatalf("%q", out)
		}
	})
}

func TestOpenSSHForwards(t *testing.T) {
	s := sandbox(t)
	o := newOpenSSH(t, s, "")
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer app.Close()
	target := app.Listener.Addr().String()
	ask := "GET / HTTP/1.0\r\n\r\n"
	if out, _, _ := o.ssh(ask, "-W", target, "sandbox"); !strings.HasSuffix(out, "hello") {
		t.Errorf("to a port: %q", out)
	}
	// From the sandbox to the caller's side (ssh -R), on loopback only.
	script := `for i in $(seq 200); do sleep 0.05; [ -s port ] && break; done; exec 3<>/dev/tcp/127.0.0.1/$(cat port); printf 'GET / HTTP/1.0\r\n\r\n' >&3; cat <&3`
	if _, err := exec.LookPath("bash"); err == nil {
		free, _ := net.Listen("tcp", "127.0.0.1:0")
		port := strconv.Itoa(free.Addr().(*net.TCPAddr).Port)
		free.Close()
		write(t, filepath.Join(s.Home, "port"), port)
		if out, errors, _ := o.ssh("", "-R", port+":"+target, "sandbox", "bash -c '"+strings.ReplaceAll(script, "'", `'\''`)+"'"); !strings.HasSuffix(out, "hello") {
			t.Errorf("back: %q %q", out, errors)
		}
	}
}

// dial opens SSH over a WebSocket.
func dial(t *testing.T, s *harness.Sandbox, session string) *ssh.Client {
	t.Helper()
	socket, _, err := websocket.Dial(t.Context(), s.URL+"/ssh", &websocket.DialOptions{
		HTTPHeader: http.Header{access.TokenHeader: {s.Signer.Token("ssh", session)}}, Subprotocols: []string{"ssh"},
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, channels, requests, err := ssh.NewClientConn(websocket.NetConn(t.Context(), socket, websocket.MessageBinary), "sandbox",
		&ssh.ClientConfig{User: "user", HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err != nil {
		t.Fatal(err)
	}
	client := ssh.NewClient(conn, channels, requests)
	t.Cleanup(func() { client.Close() })
	return client
}

func TestSSHOverAWebSocket(t *testing.T) {
	s := sandbox(t)
	session, err := dial(t, s, "").NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := session.Output("echo over a websocket"); err != nil || string(out) != "over a websocket\n" {
		t.Fatalf("%q %v", out, err)
	}
}

func TestForwardingGoesToTheSandboxOnly(t *testing.T) {
	s := sandbox(t)
	client := dial(t, s, "")
	for _, forbidden := range []string{"10.0.0.1:80", "example.com:80", "169.254.169.254:80", "0.0.0.0:80", "127.0.0.1:" + strconv.Itoa(s.Port), "localhost:" + strconv.Itoa(s.Port)} {
		_, err := client.Dial("tcp", forbidden)
		var refused *ssh.OpenChannelError
		if !errors.As(err, &refused) || refused.Reason != ssh.Prohibited {
			t.Errorf("%s: %v", forbidden, err)
		}
	}
	socket := filepath.Join(s.Home, "socket")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	conn, err := client.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
	if got, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(got), "hello") {
		t.Fatalf("%q %v", got, err)
	}
}

func TestEndingASessionClosesSSHAndHangsItsTerminalUp(t *testing.T) {
	s := sandbox(t)
	client := dial(t, s, "mine")
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := session.RequestPty("xterm", 24, 80, nil); err != nil {
		t.Fatal(err)
	}
	if err := session.Start("echo $$ > pid; sleep 600"); err != nil {
		t.Fatal(err)
	}
	pid := readPID(t, filepath.Join(s.Home, "pid"))
	if _, err := s.Client("control", "").Post(s.URL+"/sessions/mine/end", "", nil); err != nil {
		t.Fatal(err)
	}
	if err := client.Wait(); err == nil {
		t.Fatal("the connection ended well")
	}
	eventually(t, "the terminal's process is gone", func() bool { return !alive(pid) })
}

func TestTheCallersAgentIsForwarded(t *testing.T) {
	need(t, "ssh-add")
	s := sandbox(t)
	client := dial(t, s, "")
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	keyring := agent.NewKeyring()
	if err := keyring.Add(agent.AddedKey{PrivateKey: key, Comment: "of the caller"}); err != nil {
		t.Fatal(err)
	}
	if err := agent.ForwardToAgent(client, keyring); err != nil {
		t.Fatal(err)
	}
	folder := ""
	for range 2 { // both sessions share the socket
		session, err := client.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		if err := agent.RequestAgentForwarding(session); err != nil {
			t.Fatal(err)
		}
		out, err := session.Output(`dirname "$SSH_AUTH_SOCK"; ssh-add -L`)
		first, rest, _ := strings.Cut(string(out), "\n")
		if err != nil || !strings.Contains(rest, "of the caller") || folder != "" && folder != first {
			t.Fatalf("%q %v", out, err)
		}
		folder = first
	}
	client.Close()
	eventually(t, "the socket's folder is removed", func() bool { _, err := os.Stat(folder); return os.IsNotExist(err) })
}

func TestSFTPAsAnOrdinaryUser(t *testing.T) {
	s, uid := ordinary(t)
	client, err := sftp.NewClient(dial(t, s, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	file, err := client.Create("new")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write([]byte("content")); err != nil {
		t.Fatal(err)
	}
	file.Close()
	info, err := os.Stat(filepath.Join(s.Home, "new"))
	if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != uid {
		t.Fatal(info, err)
	}
	if os.Geteuid() == 0 {
		if _, err := client.Create("/etc/workspaced-test"); !errors.Is(err, os.ErrPermission) {
			t.Fatalf("it writes as root: %v", err)
		}
		if _, err := client.Open("/etc/shadow"); !errors.Is(err, os.ErrPermission) {
			t.Fatalf("it reads as root: %v", err)
		}
	}
	if listed := list(t, s); len(listed) != 1 || listed[0].GetTag() != "sftp" {
		t.Fatalf("it is not listed: %v", listed)
	}
}

func TestTheHostKeyIsKeptInTheHome(t *testing.T) {
	folder := t.TempDir()
	key := func() string {
		s, err := harness.Start(program, folder)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		_, text, err := harness.Get(s.Client("ssh", ""), s.URL+"/ssh/host-key")
		if err != nil || !strings.HasPrefix(text, "ssh-ed25519 ") {
			t.Fatal(text, err)
		}
		return text
	}
	if first := key(); key() != first {
		t.Fatal("it changed")
	}
}
