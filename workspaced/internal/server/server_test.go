package server

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"workspaced/internal/access"
	"workspaced/internal/account"
	"workspaced/internal/activity"
	"workspaced/internal/devkeys"
	"workspaced/internal/metrics"
	"workspaced/internal/process"
	"workspaced/internal/reaper"
	"workspaced/internal/relay"
	"workspaced/internal/sshd"
	"workspaced/internal/token"
)

type key struct{ *devkeys.Signer }

func (k key) Find(id string) (ed25519.PublicKey, bool) {
	return k.Private.Public().(ed25519.PublicKey), id == k.ID
}

var made = sync.OnceValue(func() *Server {
	signer, err := devkeys.New("k", "pod", "claim")
	if err != nil {
		panic(err)
	}
	host, err := sshd.LoadHostKey("")
	if err != nil {
		panic(err)
	}
	reap := reaper.New()
	environment := account.NewEnvironment(nil)
	accounts := account.NewDirectory("/nonexistent", "user", "/")
	processes := process.NewManager(reap, environment, process.DefaultLimits, func() {})
	return New(Parts{
		Gate: access.NewGate(key{signer}, "pod"), Activity: activity.New(filepath.Join("/nonexistent", "busy")),
		Accounts: accounts, Environment: environment, Processes: processes, Reaper: reap,
		Metrics: metrics.NewReader("", "/"), Relay: relay.New(49983), SSH: sshd.New(processes, accounts, host, nil),
		Suspend: func() { panic("suspended") }, Command: func() CommandState { return CommandState{} },
	})
})

func TestEveryRouteNamesItsScopes(t *testing.T) {
	s := made()
	for _, one := range []struct{ method, path, scopes string }{
		{"POST", "/process.Process/Start", "api"},
		{"POST", "/process.Process/List", "api look"},
		{"POST", "/process.Process/list", "api"},
		{"POST", "/process.Process/List/", "api"},
		{"POST", "/process.Process/SendInput", "api"},
		{"POST", "/filesystem.Filesystem/Remove", "api"},
		{"POST", "/filesystem.Filesystem/Stat", "api look"},
		{"GET", "/files", "api look"},
		{"POST", "/files", "api"},
		{"POST", "/files/compose", "api"},
		{"PUT", "/files", "api look"}, // answered with 405
		{"GET", "/files/compose", "api"},
		{"POST", "/sessions/x/end", "control"},
		{"GET", "/sessions/x/end", "api"}, // there is no such endpoint
		{"POST", "/suspend", "control"},
		{"GET", "/suspend", "api"},
		{"GET", "//status", "api"},
		{"GET", "/status/", "api"},
		{"GET", "/STATUS", "api"},
	} {
		found := s.find(httptest.NewRequest(one.method, "http://x"+one.path, nil))
		if got := strings.Join(found.scopes, " "); got != one.scopes {
			t.Errorf("%s %s: %s", one.method, one.path, got)
		}
	}
}

func TestACallerWithTooManyRequestsIsRefused(t *testing.T) {
	s, claims := made(), token.Claims{Subject: "flood"}
	for {
		_, leave, err := s.Gate.Join(context.Background(), claims)
		if err != nil {
			break
		}
		defer leave()
	}
	w := httptest.NewRecorder()
	s.serve(w, httptest.NewRequest("GET", "/", nil), claims, false, func(http.ResponseWriter, *http.Request) {
		t.Fatal("served")
	})
	if w.Code != http.StatusTooManyRequests {
		t.Fatal(w.Code, w.Body)
	}
	served := false
	s.serve(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), token.Claims{Subject: "owner"}, false,
		func(http.ResponseWriter, *http.Request) { served = true })
	if !served {
		t.Fatal("the owner was refused, too")
	}
}

// Whatever comes without a token of this pod is refused, before anything looks at it.
func FuzzWithoutAToken(f *testing.F) {
	f.Add("GET", "/status", "", "", "")
	f.Add("POST", "/suspend", "x.y.z", "", "application/json")
	f.Add("POST", "/process.Process/Start", "", "3000", "application/proto")
	f.Add("GET", "/health", "", "", "")
	f.Fuzz(func(t *testing.T, method, path, token, port, kind string) {
		s := made()
		r := httptest.NewRequest("GET", "http://x/", nil)
		r.Method, r.URL.Path = method, "/"+path
		for name, value := range map[string]string{access.TokenHeader: token, access.EnvdTokenHeader: token, relay.PortHeader: port, "Content-Type": kind} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		refused := w.Code == 401 || w.Code == 200 && (strings.Contains(w.Body.String(), "unauthenticated") || strings.HasPrefix(kind, "application/grpc"))
		if !refused || s.Gate.Claim() != "" {
			t.Fatalf("%s %q: %d %q", method, path, w.Code, w.Body)
		}
	})
}
