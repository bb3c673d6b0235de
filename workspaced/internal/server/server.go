// Package server is the one port of the sandbox: it routes admitted requests to
// processes, files, relayed ports, SSH and control.
package server

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"workspaced/internal/access"
	"workspaced/internal/account"
	"workspaced/internal/activity"
	"workspaced/internal/files"
	"workspaced/internal/fsapi"
	"workspaced/internal/metrics"
	"workspaced/internal/process"
	"workspaced/internal/processapi"
	"workspaced/internal/reaper"
	"workspaced/internal/relay"
	"workspaced/internal/sshd"
	"workspaced/internal/token"
	"workspaced/internal/watch"
	"workspaced/internal/worktree"
)

// Parts are what the server serves.
type Parts struct {
	Version     string
	Gate        *access.Gate
	Keys        *token.File
	Activity    *activity.Tracker
	Accounts    *account.Directory
	Environment *account.Environment
	Processes   *process.Manager
	Reaper      *reaper.Reaper
	Metrics     *metrics.Reader
	Relay       *relay.Relay
	SSH         *sshd.Server
	Suspend     func() // begins to stop every process
	Command     func() CommandState
	WorkTree    *worktree.Tree // nil where the class has none
	// OpenHealth admits /health without a token from every address, for probes of
	// the kubelet; without it from the loopback addresses only.
	OpenHealth bool
}

// Server is the handler of all requests.
type Server struct {
	Parts
	started  time.Time
	draining atomic.Bool
	workdir  atomic.Pointer[string]
	routes   map[string]route
	served   atomic.Uint64
}

// route is a path (or a first folder, with a slash at its end) and who may use it.
type route struct {
	scopes  []string
	quiet   bool // does not count as use
	handler http.Handler
}

// New returns the handler.
func New(parts Parts) *Server {
	s := &Server{Parts: parts, started: time.Now(), routes: map[string]route{}}
	empty := ""
	s.workdir.Store(&empty)
	processPath, processes := processapi.NewHandler(parts.Processes, parts.Accounts, func() string { return *s.workdir.Load() })
	filesPath, filesystem := fsapi.NewHandler(parts.Accounts, watch.NewHub())
	s.add(processPath, processes, access.ScopeAPI)
	s.add(filesPath, filesystem, access.ScopeAPI)
	for _, method := range []string{"List", "Connect"} {
		s.add(processPath+method, processes, access.ScopeAPI, access.ScopeLook)
	}
	for _, method := range []string{"Stat", "ListDir", "WatchDir", "CreateWatcher", "GetWatcherEvents", "RemoveWatcher"} {
		s.add(filesPath+method, filesystem, access.ScopeAPI, access.ScopeLook)
	}
	contents := files.NewHandler(parts.Accounts)
	s.add("POST /files", contents, access.ScopeAPI)
	s.add("POST /files/compose", contents, access.ScopeAPI)
	s.add("/files", contents, access.ScopeAPI, access.ScopeLook)
	s.add("/envs", http.HandlerFunc(s.envs), access.ScopeAPI)
	s.add("/ssh", http.HandlerFunc(s.ssh), access.ScopeSSH)
	s.add("/ssh/host-key", http.HandlerFunc(s.hostKey), access.ScopeSSH, access.ScopeAPI, access.ScopeControl)
	s.quiet("/health", s.health, access.ScopeControl, access.ScopeAPI, access.ScopeLook, access.ScopeSSH, access.ScopePorts)
	s.quiet("/metrics", s.metrics, access.ScopeControl, access.ScopeAPI, access.ScopeLook)
	s.quiet("/status", s.status, access.ScopeControl)
	s.quiet("POST /suspend", s.suspend, access.ScopeControl)
	s.quiet("POST /init", s.init, access.ScopeControl)
	s.quiet("POST /sessions/", s.endSession, access.ScopeControl)
	return s
}

func (s *Server) add(path string, handler http.Handler, scopes ...string) {
	s.routes[path] = route{scopes: scopes, handler: handler}
}

func (s *Server) quiet(path string, handler http.HandlerFunc, scopes ...string) {
	s.routes[path] = route{scopes: scopes, handler: handler, quiet: true}
}

// find returns the route of a request. A path that has none needs what processes
// and files need, so that an answer tells nothing to those without it.
func (s *Server) find(r *http.Request) route {
	path, folder := r.URL.Path, "/"
	if first, _, deeper := strings.Cut(strings.TrimPrefix(path, "/"), "/"); deeper {
		folder = "/" + first + "/"
	}
	for _, name := range []string{r.Method + " " + path, path, r.Method + " " + folder, folder} {
		if found, ok := s.routes[name]; ok {
			return found
		}
	}
	return route{scopes: []string{access.ScopeAPI}, handler: http.HandlerFunc(notFound)}
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	access.WriteError(w, http.StatusNotFound, "no such endpoint")
}

// unread is how long the server waits for the rest of a body that nobody read,
// before it answers or takes the next request of the connection.
const unread = 2 * time.Second

// ServeHTTP admits a request and passes it on.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		// The server clears the deadline before the next request.
		defer func() { _ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unread)) }()
	}
	if text := r.Header.Get(relay.PortHeader); text != "" {
		s.relayed(w, r, text)
		return
	}
	if r.URL.Path == "/health" && (s.OpenHealth || local(r)) {
		s.health(w, r)
		return
	}
	found := s.find(r)
	claims, err := s.Gate.Check(access.FromRequest(r), found.scopes...)
	if err != nil {
		access.Refuse(w, r, err)
		return
	}
	access.Strip(r.Header)
	s.serve(w, r, claims, found.quiet, found.handler.ServeHTTP)
}

// relayed passes a request on to a port. Only this program's own header carries
// the token: the user's program may use the other one.
func (s *Server) relayed(w http.ResponseWriter, r *http.Request, text string) {
	port, err := s.Relay.Parse(text)
	if err != nil {
		// The token first: without it the answer reveals nothing.
		if _, refused := s.Gate.Check(r.Header.Get(access.TokenHeader), access.ScopePorts); refused != nil {
			access.Refuse(w, r, refused)
			return
		}
		access.WriteError(w, http.StatusBadRequest, err.Error())
		return
	}
	claims, err := s.Gate.Check(r.Header.Get(access.TokenHeader), access.ScopePorts, access.PortScope(port))
	if err != nil {
		access.Refuse(w, r, err)
		return
	}
	s.serve(w, r, claims, false, func(w http.ResponseWriter, r *http.Request) { s.Relay.Serve(w, r, port) })
}

// serve runs a handler as a part of its session.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, claims token.Claims, quiet bool, handler http.HandlerFunc) {
	s.served.Add(1)
	ctx, leave, err := s.Gate.Join(r.Context(), claims)
	if err != nil {
		access.Refuse(w, r, err)
		return
	}
	defer leave()
	if !quiet {
		defer s.Activity.Begin()()
	}
	defer access.Interrupt(ctx, w)()
	handler(w, r.WithContext(access.WithClaims(ctx, claims)))
}

// Drain refuses new processes and fails /health from now on.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.Processes.Stop()
}

// Serve serves until the context is cancelled, and then gives running streams a
// moment to end.
func (s *Server) Serve(ctx context.Context, address string) error {
	listener, err := Listen(ctx, address)
	if err != nil {
		return err
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	h := &http.Server{
		Handler: s, Protocols: &protocols, DisableGeneralOptionsHandler: true,
		// Idle for longer than the gateway keeps a connection (an hour): it would
		// otherwise send a request into one that is being closed.
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 65 * time.Minute, MaxHeaderBytes: 64 << 10,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 512, SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second,
			MaxReceiveBufferPerConnection: 4 << 20, MaxReceiveBufferPerStream: 1 << 20,
		},
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if h.Shutdown(ending) != nil {
		_ = h.Close()
	}
	return nil
}
