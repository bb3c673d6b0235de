package server

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"workspaced/internal/access"
	"workspaced/internal/activity"
	"workspaced/internal/metrics"
	"workspaced/internal/process"
	"workspaced/internal/procs"
	"workspaced/internal/worktree"
)

// CommandState is how the class's command is.
type CommandState struct {
	State string `json:"state"` // none, running, ended
	PID   int    `json:"pid,omitempty"`
	Exit  *int   `json:"exit_code,omitempty"`
}

// Status is the document of /status.
type Status struct {
	Version   string    `json:"version"`
	Started   time.Time `json:"started_at"`
	Claim     string    `json:"claim,omitempty"`
	Draining  bool      `json:"draining"`
	Sessions  int       `json:"sessions"`
	Processes struct {
		Managed int `json:"managed"` // listed by process.Process/List
		Total   int `json:"total"`   // all of the sandbox, also those that went to the background
	} `json:"processes"`
	Command    CommandState      `json:"command"`
	CPUSeconds float64           `json:"cpu_seconds"`
	Refused    map[string]uint64 `json:"refused"`
	WorkTree   *worktree.State   `json:"work_tree,omitempty"`
	activity.Report
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	status := Status{
		Version: s.Version, Started: s.started.UTC(), Claim: s.Gate.Claim(), Draining: s.draining.Load(),
		Sessions: s.Gate.Sessions.Live(), Command: s.Command(), CPUSeconds: s.Metrics.Read().CPUSeconds,
		Refused: s.Gate.Refused(), Report: s.Activity.Report(),
	}
	status.Processes.Managed = len(s.Processes.List())
	if s.WorkTree != nil {
		state := s.WorkTree.State()
		status.WorkTree = &state
	}
	status.Processes.Total = len(procs.Sandbox())
	writeJSON(w, status)
}

func writeJSON(w http.ResponseWriter, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(document)
}

// suspend begins to stop every process; the answer does not wait for it.
func (s *Server) suspend(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusAccepted)
	s.Suspend()
}

// endSession answers POST /sessions/{id}/end.
func (s *Server) endSession(w http.ResponseWriter, r *http.Request) {
	id, ok := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/sessions/"), "/end")
	if !ok || id == "" || !access.ValidSession(id) {
		access.WriteError(w, http.StatusNotFound, "use POST /sessions/{id}/end")
		return
	}
	cancelled, err := s.Gate.Sessions.End(id)
	if err != nil {
		access.WriteError(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	writeJSON(w, map[string]int{"ended": cancelled})
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Load() {
		access.WriteError(w, http.StatusServiceUnavailable, "the sandbox is stopping")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) envs(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		access.WriteError(w, http.StatusMethodNotAllowed, "use GET")
		return
	}
	writeJSON(w, s.Environment.All())
}

// init sets variables and defaults for later processes, as envd's /init does. What
// belongs to a machine of its own (mounts, clocks, certificates) is refused.
func (s *Server) init(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Variables map[string]string `json:"envVars"`
		User      string            `json:"defaultUser"`
		Workdir   string            `json:"defaultWorkdir"`
		Mounts    []json.RawMessage `json:"volumeMounts"`
		CABundle  string            `json:"caBundle"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&request)
	if err != nil {
		access.WriteError(w, http.StatusBadRequest, err.Error())
		return
	}
	if len(request.Mounts) > 0 || request.CABundle != "" {
		access.WriteError(w, http.StatusBadRequest, "volumeMounts and caBundle belong to the class of a sandbox and are not set at run time")
		return
	}
	if request.User != "" {
		if err := s.Accounts.SetDefault(request.User); err != nil {
			access.WriteError(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	if request.Workdir != "" {
		s.workdir.Store(&request.Workdir)
	}
	if err := s.Environment.Remember(request.Variables); err != nil {
		slog.Warn("variables", "error", err.Error()) // they are set until the sandbox is paused
	}
	w.WriteHeader(http.StatusNoContent)
}

// metrics answers with envd's JSON document, or for Prometheus.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	accept := r.Header.Get("Accept")
	if r.URL.Query().Get("format") != "prometheus" &&
		!strings.Contains(accept, "text/plain") && !strings.Contains(accept, "openmetrics") {
		writeJSON(w, s.Metrics.Read())
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	m, use := s.Metrics.Read(), s.Activity.Report()
	busy := 0
	if use.Busy {
		busy = 1
	}
	for _, one := range []struct {
		name, kind string
		value      float64
	}{
		{"workspaced_cpu_seconds_total", "counter", m.CPUSeconds},
		{"workspaced_cpus", "gauge", float64(m.CPUCount)},
		{"workspaced_memory_used_bytes", "gauge", float64(m.MemUsed)},
		{"workspaced_memory_limit_bytes", "gauge", float64(m.MemTotal)},
		{"workspaced_disk_used_bytes", "gauge", float64(m.DiskUsed)},
		{"workspaced_disk_size_bytes", "gauge", float64(m.DiskTotal)},
		{"workspaced_resident_memory_bytes", "gauge", float64(metrics.OwnMemory())},
		{"workspaced_processes", "gauge", float64(len(s.Processes.List()))},
		{"workspaced_processes_started_total", "counter", float64(s.Processes.Started())},
		{"workspaced_orphans_reaped_total", "counter", float64(s.Reaper.Orphans())},
		{"workspaced_requests_total", "counter", float64(s.served.Load())},
		{"workspaced_requests_open", "gauge", float64(use.Open)},
		{"workspaced_sessions", "gauge", float64(s.Gate.Sessions.Live())},
		{"workspaced_idle_seconds", "gauge", use.Idle},
		{"workspaced_busy", "gauge", float64(busy)},
		{"workspaced_keys_read_failures_total", "counter", float64(s.Keys.Failures())},
	} {
		fmt.Fprintf(w, "# TYPE %s %s\n%s %g\n", one.name, one.kind, one.name, one.value)
	}
	fmt.Fprintln(w, "# TYPE workspaced_refused_total counter")
	refused := s.Gate.Refused()
	reasons := make([]string, 0, len(refused))
	for reason := range refused {
		reasons = append(reasons, reason)
	}
	slices.Sort(reasons)
	for _, reason := range reasons {
		fmt.Fprintf(w, "workspaced_refused_total{reason=%q} %d\n", reason, refused[reason])
	}
}

// State returns the state of the class's command.
func State(p *process.Process, err error) CommandState {
	switch {
	case err != nil:
		failed := 126
		return CommandState{State: "ended", Exit: &failed}
	case p == nil:
		return CommandState{State: "none"}
	case p.Running():
		return CommandState{State: "running", PID: p.PID}
	}
	code := ExitCode(p.End())
	return CommandState{State: "ended", Exit: &code}
}

// ExitCode returns the exit code of a shell for an end.
func ExitCode(end process.End) int {
	if end.Signal != 0 {
		return 128 + int(end.Signal)
	}
	return end.Code
}
