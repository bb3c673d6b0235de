package integration

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/coder/websocket"

	"workspaced/internal/access"
	"workspaced/internal/harness"
	"workspaced/internal/relay"
	"workspaced/internal/server"
)

func status(t *testing.T, s *harness.Sandbox) server.Status {
	t.Helper()
	code, body, err := harness.Get(s.Client("control", ""), s.URL+"/status")
	if err != nil || code != 200 {
		t.Fatalf("%d %s %v", code, body, err)
	}
	var document server.Status
	if err := json.Unmarshal([]byte(body), &document); err != nil {
		t.Fatal(err)
	}
	return document
}

func TestWithoutATokenNothingIsToldAndItIsCounted(t *testing.T) {
	s := sandbox(t)
	paths := []string{"/", "/status", "/metrics", "/envs", "/files?path=/etc/passwd", "/ssh", "/process.Process/List",
		"/filesystem.Filesystem/Stat", "/sessions/x/end", "/no/such/path", "/suspend", "/init", "/ssh/host-key"}
	answers := map[string]bool{}
	for _, path := range paths {
		for _, method := range []string{"GET", "POST"} {
			r, _ := http.NewRequest(method, s.URL+path, strings.NewReader("{}"))
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if response.StatusCode != 401 {
				t.Errorf("%s %s: %d %s", method, path, response.StatusCode, body)
			}
			answers[method+string(body)] = true
		}
	}
	if len(answers) != 2 { // POST may be an RPC, and is answered as one
		t.Errorf("the answers differ: %v", answers)
	}
	if _, err := s.Processes(http.DefaultClient).Start(t.Context(), shell("true")); err != nil {
		t.Fatal(err) // streams fail when they are read
	}
	// A port is not relayed either, and the program's own header is no way in.
	r, _ := http.NewRequest("GET", s.URL, nil)
	r.Header.Set(relay.PortHeader, "1")
	r.Header.Set(access.EnvdTokenHeader, s.Signer.Token(everything, ""))
	if response, err := http.DefaultClient.Do(r); err != nil || response.StatusCode != 401 {
		t.Fatalf("%v %v", response, err)
	}
	if refused := status(t, s).Refused["missing"]; refused < uint64(2*len(paths)) {
		t.Fatalf("counted %d", refused)
	}
}

// A caller without a token that sends its body slowly, or never, holds nothing.
func TestARefusedBodyIsNotWaitedFor(t *testing.T) {
	s := sandbox(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /files HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nfew")
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	answer, err := io.ReadAll(conn) // until it is closed
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 401") {
		t.Fatalf("%q %v", answer, err)
	}
}

// Go's server answers this request by itself unless that is disabled.
func TestOptionsOfTheServerAreRefused(t *testing.T) {
	s := sandbox(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 401") {
		t.Fatalf("%q %v", answer, err)
	}
}

func TestScopesOfTheEndpoints(t *testing.T) {
	s := sandbox(t)
	get := func(scope, path string) int {
		code, _, err := harness.Get(s.Client(scope, ""), s.URL+path)
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	for _, one := range []struct {
		scope, path string
		want        int
	}{
		{"port:3000", "/status", 403}, {"port:3000", "/files?path=x", 403}, {"port:3000", "/envs", 403},
		{"api", "/status", 403}, {"control", "/status", 200}, {"control", "/files?path=x", 403},
		{"look", "/files?path=x", 404}, {"look", "/envs", 403}, {"api", "/envs", 200}, {"ssh", "/envs", 403},
		{"api", "/ssh", 403}, {"ssh", "/ssh", 426}, {"ssh", "/ssh/host-key", 200}, {"api", "/nothing", 404},
		{"control", "/metrics", 200}, {"look", "/health", 204},
	} {
		if got := get(one.scope, one.path); got != one.want {
			t.Errorf("%s %s: %d", one.scope, one.path, got)
		}
	}
	look := s.Processes(s.Client("look", ""))
	stream, err := look.Start(t.Context(), shell("true"))
	if err == nil {
		stream.Receive()
		err = stream.Err()
	}
	if connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Fatalf("a looker starts a process: %v", err)
	}
	r, _ := http.NewRequest("POST", s.URL+"/files?path=x", strings.NewReader("x"))
	if response, err := s.Client("look", "").Do(r); err != nil || response.StatusCode != 403 {
		t.Fatalf("a looker writes: %v %v", response, err)
	}
}

func TestALookerSeesNoVariables(t *testing.T) {
	s := sandbox(t)
	r := shell("echo up; sleep 600")
	r.Msg.Process.Envs = map[string]string{"TOKEN": "secret"}
	stream, err := processes(s, "").Start(t.Context(), r)
	if err != nil || !stream.Receive() {
		t.Fatal(err)
	}
	defer stream.Close()
	if own := list(t, s); own[0].GetConfig().GetEnvs()["TOKEN"] != "secret" {
		t.Fatalf("%v", own)
	}
	seen, err := s.Processes(s.Client("look", "")).List(t.Context(), connect.NewRequest(&empty))
	if err != nil || len(seen.Msg.GetProcesses()) != 1 || len(seen.Msg.GetProcesses()[0].GetConfig().GetEnvs()) != 0 {
		t.Fatal(seen, err)
	}
}

func TestVariablesOfProcessesCannotBeReadAsFiles(t *testing.T) {
	s := sandbox(t)
	r := shell("echo up; sleep 600")
	r.Msg.Process.Envs = map[string]string{"TOKEN": "secret"}
	stream, err := processes(s, "").Start(t.Context(), r)
	if err != nil || !stream.Receive() {
		t.Fatal(err)
	}
	defer stream.Close()
	pid := stream.Msg().GetEvent().GetStart().GetPid()
	get := func(scope, path string) (int, string) {
		r, _ := http.NewRequest("GET", s.URL+"/files?path="+path, nil)
		r.Header.Set("Accept-Encoding", "gzip") // their size is 0, and only this reads them to their end
		response, err := s.Client(scope, "").Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var body io.Reader = response.Body
		if response.Header.Get("Content-Encoding") == "gzip" {
			if body, err = gzip.NewReader(response.Body); err != nil {
				t.Fatal(err)
			}
		}
		content, _ := io.ReadAll(body)
		return response.StatusCode, string(content)
	}
	environ := fmt.Sprintf("/proc/%d/environ", pid)
	if status, content := get("api", environ); status != http.StatusOK || !strings.Contains(content, "TOKEN=secret") {
		t.Errorf("who may start processes: %d %.80q", status, content)
	}
	for scope, paths := range map[string][]string{
		"look": {environ, "/proc/cpuinfo", "/proc/self/environ"},
		"api":  {"/proc/self/environ", "/proc/thread-self/environ", fmt.Sprintf("/proc/%d/environ", s.PID()), "/proc/self/maps"},
	} {
		for _, path := range paths {
			if status, content := get(scope, path); status != http.StatusForbidden || strings.Contains(content, "=") {
				t.Errorf("%s of %s: %d %.80q", scope, path, status, content)
			}
		}
	}
	body := strings.NewReader("0")
	upload, _ := http.NewRequest("POST", s.URL+"/files?path=/proc/self/oom_score_adj", body)
	response, err := s.Client("api", "").Do(upload)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode < 400 {
		t.Errorf("an upload into the program's own folder: %d", response.StatusCode)
	}
}

func TestPortsAreRelayedByScope(t *testing.T) {
	s := sandbox(t)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(access.TokenHeader) != "" {
			t.Error("the program sees the token")
		}
		_, _ = io.WriteString(w, "hello "+r.Host)
	}))
	defer app.Close()
	_, port, _ := net.SplitHostPort(app.Listener.Addr().String())
	get := func(scope, port string) int {
		r, _ := http.NewRequest("GET", s.URL+"/x", nil)
		r.Header.Set(relay.PortHeader, port)
		response, err := s.Client(scope, "").Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	for _, one := range []struct {
		scope, port string
		want        int
	}{
		{"port:" + port, port, 200}, {"ports", port, 200}, {"port:1", port, 403}, {"api control ssh", port, 403},
		{"ports", strconv.Itoa(s.Port), 400}, {"ports", "0", 400}, {"ports", "x", 400}, {"ports", "1", 502},
	} {
		if got := get(one.scope, one.port); got != one.want {
			t.Errorf("%s to %s: %d", one.scope, one.port, got)
		}
	}
}

func TestEndingASessionEndsWhatRunsInIt(t *testing.T) {
	s := sandbox(t)
	stream, pid := begin(t, t.Context(), processes(s, "s1"), "echo up; sleep 600")
	other, _ := begin(t, t.Context(), processes(s, "s2"), "echo up; sleep 600")

	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer app.Close()
	_, port, _ := net.SplitHostPort(app.Listener.Addr().String())
	r, _ := http.NewRequest("GET", s.URL, nil)
	r.Header.Set(relay.PortHeader, port)
	relayed, err := s.Client("ports", "s1").Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer relayed.Body.Close()

	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if socket, err := websocket.Accept(w, r, nil); err == nil {
			_, _, _ = socket.Read(r.Context())
		}
	}))
	defer echo.Close()
	_, echoPort, _ := net.SplitHostPort(echo.Listener.Addr().String())
	socket, _, err := websocket.Dial(t.Context(), s.URL, &websocket.DialOptions{HTTPHeader: http.Header{
		access.TokenHeader: {s.Signer.Token("ports", "s1")}, relay.PortHeader: {echoPort},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.CloseNow()

	upload, feed := io.Pipe()
	defer feed.Close()
	uploaded := make(chan error, 1)
	go func() {
		response, err := s.Client("api", "s1").Post(s.URL+"/files?path=half", "application/octet-stream", upload)
		if err == nil && response.StatusCode == 200 {
			uploaded <- nil
			return
		}
		uploaded <- errors.New("refused")
	}()
	_, _ = feed.Write([]byte("half"))
	parts := func() []string { found, _ := filepath.Glob(filepath.Join(s.Home, ".half.*")); return found }
	eventually(t, "the upload has begun", func() bool { return len(parts()) == 1 })

	began := time.Now()
	response, err := s.Client("control", "").Post(s.URL+"/sessions/s1/end", "", nil)
	if err != nil || response.StatusCode != 200 {
		t.Fatal(response, err)
	}
	for stream.Receive() {
	}
	if stream.Err() == nil {
		t.Fatal("the stream ended well")
	}
	if _, err := io.ReadAll(relayed.Body); err == nil {
		t.Fatal("the relayed answer ended well")
	}
	if _, _, err := socket.Read(t.Context()); err == nil {
		t.Fatal("the WebSocket lives")
	}
	eventually(t, "the upload's file is removed", func() bool { return len(parts()) == 0 })
	feed.CloseWithError(io.ErrUnexpectedEOF) // the client waits for its own writer
	if err := <-uploaded; err == nil {
		t.Fatal("the upload succeeded")
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Fatalf("it took %v", took)
	}
	if _, err := processes(s, "s1").List(t.Context(), connect.NewRequest(&empty)); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Fatalf("the session's next token: %v", err)
	}
	// The process runs on, and the other session does.
	list, err := processes(s, "s2").List(t.Context(), connect.NewRequest(&empty))
	if err != nil || len(list.Msg.GetProcesses()) != 2 {
		t.Fatal(list, err)
	}
	if other.Err() != nil || pid == 0 {
		t.Fatal(other.Err())
	}
}
