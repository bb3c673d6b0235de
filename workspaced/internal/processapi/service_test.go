package processapi

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"workspaced/gen/process"
	"workspaced/internal/account"
	proc "workspaced/internal/process"
	"workspaced/internal/reaper"
)

var handler = sync.OnceValue(func() http.Handler {
	m := proc.NewManager(reaper.New(), account.NewEnvironment(nil), proc.DefaultLimits, func() {})
	_, h := NewHandler(m, account.NewDirectory("/nonexistent", "user", "/"), func() string { return "" })
	return h
})

// Every method but Start, which would start what the fuzzer writes; Start decodes
// with the same code.
var methods = []string{"List", "Connect", "Update", "SendInput", "StreamInput", "SendSignal", "CloseStdin"}

var kinds = []string{"application/json", "application/proto", "application/connect+json", "application/connect+proto", "application/grpc", "application/grpc-web"}

func FuzzRequests(f *testing.F) {
	f.Add(uint8(2), uint8(0), []byte(`{"process":{"pid":1},"pty":{"size":{"cols":80,"rows":99999}}}`))
	f.Add(uint8(5), uint8(0), []byte(`{"process":{"pid":1},"signal":9}`))
	f.Add(uint8(4), uint8(3), []byte{0, 0, 0, 0, 2, 10, 0})
	f.Add(uint8(1), uint8(2), []byte{0, 255, 255, 255, 255, '{'})
	f.Fuzz(func(t *testing.T, method, kind uint8, body []byte) {
		r := httptest.NewRequest("POST", "/process.Process/"+methods[int(method)%len(methods)], bytes.NewReader(body))
		r.Header.Set("Content-Type", kinds[int(kind)%len(kinds)])
		w := httptest.NewRecorder()
		handler().ServeHTTP(w, r)
		if w.Code == http.StatusInternalServerError {
			t.Fatalf("%s: %s", r.URL, w.Body)
		}
	})
}

func FuzzHeaders(f *testing.F) {
	f.Add("1000", "Basic dXNlcjo=")
	f.Add("-1", "Basic ")
	d := account.NewDirectory("/nonexistent", "user", "/")
	f.Fuzz(func(t *testing.T, number, authorization string) {
		header := http.Header{timeoutHeader: {number}, keepaliveHeader: {number}, "Authorization": {authorization}}
		if timeoutOf(header) < 0 || timeoutOf(header) > 116*24*time.Hour {
			t.Fatalf("timeout %v", timeoutOf(header))
		}
		if alive := keepalive(header); alive < time.Second || alive > time.Hour+30*time.Minute {
			t.Fatalf("keepalive %v", alive)
		}
		if who, err := Account(d, header); err == nil && who.Name != "user" {
			t.Fatalf("%+v", who)
		}
	})
}

func TestSizeOf(t *testing.T) {
	for size, want := range map[*process.PTY_Size]proc.Size{
		nil: {Cols: 80, Rows: 24}, {Cols: 100}: {Cols: 100, Rows: 24}, {Cols: 65535, Rows: 1}: {Cols: 65535, Rows: 1},
	} {
		if got, err := sizeOf(&process.PTY{Size: size}); err != nil || got != want {
			t.Errorf("%v: %v %v", size, got, err)
		}
	}
	if _, err := sizeOf(&process.PTY{Size: &process.PTY_Size{Cols: 65536}}); err == nil {
		t.Error("too wide")
	}
}
