package integration

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"workspaced/gen/filesystem"
	"workspaced/gen/filesystem/filesystemconnect"
	"workspaced/gen/process"
	"workspaced/gen/process/processconnect"
	"workspaced/internal/access"
	"workspaced/internal/devkeys"
	"workspaced/internal/harness"
)

// bundle writes an OCI bundle: the machine's own programs, read-only, and this one
// as process 1 without a network. It is entered by a Unix socket.
func bundle(t *testing.T, folder, keys string) {
	t.Helper()
	for _, name := range []string{"rootfs", "home", "socket"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mounts := []map[string]any{
		{"destination": "/proc", "type": "proc"}, {"destination": "/dev", "type": "dev"},
		{"destination": "/dev/pts", "type": "devpts"}, {"destination": "/tmp", "type": "tmpfs"},
	}
	for at, source := range map[string]string{
		"/usr": "/usr", "/bin": "/usr/bin", "/lib": "/usr/lib", "/lib64": "/usr/lib64", "/etc": "/etc",
		"/opt/workspaced": filepath.Dir(program), "/keys": filepath.Dir(keys),
	} {
		if _, err := os.Stat(source); err == nil {
			mounts = append(mounts, map[string]any{"destination": at, "type": "bind", "source": source, "options": []string{"ro", "rbind"}})
		}
	}
	for at, name := range map[string]string{"/home/user": "home", "/socket": "socket"} {
		mounts = append(mounts, map[string]any{"destination": at, "type": "bind", "source": filepath.Join(folder, name), "options": []string{"rw", "rbind"}})
	}
	var namespaces []map[string]string
	for _, kind := range []string{"pid", "network", "ipc", "uts", "mount"} {
		namespaces = append(namespaces, map[string]string{"type": kind})
	}
	document, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.0", "root": map[string]any{"path": filepath.Join(folder, "rootfs")}, "hostname": "sandbox",
		"process": map[string]any{
			"user": map[string]int{"uid": 0, "gid": 0}, "cwd": "/", "env": []string{"PATH=/usr/bin:/bin", "HOME=/home/user"},
			"args": []string{"/opt/workspaced/workspaced", "run", "--listen", "unix:/socket/workspaced", "--pod-uid", harness.Pod,
				"--keys", "/keys/keys.json", "--home", "/home/user", "--grace", "1s"},
		},
		"mounts": mounts, "linux": map[string]any{"namespaces": namespaces},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "config.json"), document, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestUnderGVisor(t *testing.T) {
	need(t, "runsc")
	if os.Geteuid() != 0 {
		t.Skip("needs root: a sandbox of gVisor is made")
	}
	folder, err := os.MkdirTemp("", "gv-") // a short path: it names a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	signer, err := devkeys.New("k1", harness.Pod, "harness-claim")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := signer.Write(filepath.Join(folder, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	bundle(t, folder, keys)
	log := &harness.Text{}
	runsc := exec.Command("runsc", "--root", filepath.Join(folder, "state"), "--ignore-cgroups", "--network=none",
		"--platform=systrap", "--host-uds=all", "--overlay2=none", "run", "-bundle", folder, filepath.Base(folder))
	runsc.Stdout, runsc.Stderr = log, log
	if err := runsc.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { _ = runsc.Wait(); close(exited) }()
	t.Cleanup(func() {
		_ = exec.Command("runsc", "--root", filepath.Join(folder, "state"), "delete", "--force", filepath.Base(folder)).Run()
		_ = runsc.Process.Kill()
		<-exited
	})
	socket := filepath.Join(folder, "socket", "workspaced")
	client := &http.Client{Transport: signed{signer, &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}}
	eventually(t, "it answers: "+log.String(), func() bool {
		code, _, err := harness.Get(client, "http://sandbox/health")
		return err == nil && code == 204
	})
	c := processconnect.NewProcessClient(client, "http://sandbox")

	if r := run(t, c, "echo $PPID; uname -n; echo err >&2; exit 4"); r.stdout != "1\nsandbox\n" || r.stderr != "err\n" || r.end.GetExitCode() != 4 {
		t.Fatalf("%+v", r)
	}
	terminal, err := c.Start(t.Context(), connect.NewRequest(&process.StartRequest{
		Process: &process.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", "stty size"}},
		Pty:     &process.PTY{Size: &process.PTY_Size{Cols: 100, Rows: 30}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	var shown result
	for terminal.Receive() {
		shown.add(terminal.Msg().GetEvent())
	}
	if !strings.Contains(shown.stdout, "30 100") {
		t.Fatalf("%+v %v", shown, terminal.Err())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	watch, err := filesystemconnect.NewFilesystemClient(client, "http://sandbox").WatchDir(ctx, connect.NewRequest(&filesystem.WatchDirRequest{Path: "."}))
	if err != nil || !watch.Receive() {
		t.Fatal(err, watch.Err())
	}
	response, err := client.Post("http://sandbox/files?path=up", "application/octet-stream", strings.NewReader("content"))
	if err != nil || response.StatusCode != 200 {
		t.Fatal(response, err)
	}
	for watch.Receive() && watch.Msg().GetFilesystem().GetName() != "up" {
	}
	if watch.Err() != nil {
		t.Fatal(watch.Err())
	}
	if raw, err := os.ReadFile(filepath.Join(folder, "home", "up")); err != nil || string(raw) != "content" {
		t.Fatalf("%q %v", raw, err)
	}
	// Orphans that ignore SIGTERM do not hold the end up.
	run(t, c, `(setsid sh -c 'trap "" TERM; sleep 600; true' >/dev/null 2>&1 &)`)
	if _, err := client.Post("http://sandbox/suspend", "", nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-exited:
	case <-time.After(30 * time.Second):
		t.Fatal("it runs on: " + log.String())
	}
}

// signed adds a token to every request.
type signed struct {
	signer *devkeys.Signer
	next   http.RoundTripper
}

func (s signed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(access.TokenHeader, s.signer.Token(everything, ""))
	return s.next.RoundTrip(r)
}
