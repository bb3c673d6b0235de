// Package processapi serves envd's process protocol.
package processapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"workspaced/gen/process"
	"workspaced/gen/process/processconnect"
	"workspaced/internal/access"
	"workspaced/internal/account"
	"workspaced/internal/output"
	proc "workspaced/internal/process"
)

const (
	// MaxMessage bounds a request message, and thereby a single input.
	MaxMessage = 4 << 20

	keepaliveHeader  = "Keepalive-Ping-Interval"
	defaultKeepalive = 90 * time.Second
	timeoutHeader    = "Connect-Timeout-Ms"
)

// Service implements process.Process.
type Service struct {
	processes *proc.Manager
	accounts  *account.Directory
	defaults  func() string // the working directory of requests that name none
}

// NewHandler returns the path and handler of the service.
func NewHandler(m *proc.Manager, d *account.Directory, dir func() string) (string, http.Handler) {
	return processconnect.NewProcessHandler(&Service{m, d, dir},
		connect.WithReadMaxBytes(MaxMessage), connect.WithCompressMinBytes(1<<20))
}

// List returns the running processes. Their variables may be secrets: only those
// who may start processes see them.
func (s *Service) List(ctx context.Context, _ *connect.Request[process.ListRequest]) (*connect.Response[process.ListResponse], error) {
	answer := &process.ListResponse{}
	for _, p := range s.processes.List() {
		dir := p.Spec.Dir
		info := &process.ProcessInfo{Pid: uint32(p.PID), Config: &process.ProcessConfig{
			Cmd: p.Spec.Command, Args: p.Spec.Args, Cwd: &dir,
		}}
		if access.Granted(ctx, access.ScopeAPI) {
			info.Config.Envs = p.Spec.Envs
		}
		if p.Spec.Tag != "" {
			tag := p.Spec.Tag
			info.Tag = &tag
		}
		answer.Processes = append(answer.Processes, info)
	}
	return connect.NewResponse(answer), nil
}

// Start starts a process and streams its output.
func (s *Service) Start(ctx context.Context, r *connect.Request[process.StartRequest], stream *connect.ServerStream[process.StartResponse]) error {
	who, err := Account(s.accounts, r.Header())
	if err != nil {
		return err
	}
	config := r.Msg.GetProcess()
	spec := proc.Spec{
		Command: config.GetCmd(), Args: config.GetArgs(), Envs: config.GetEnvs(), Dir: config.GetCwd(),
		Account: who, Stdin: r.Msg.Stdin == nil || r.Msg.GetStdin(), Tag: r.Msg.GetTag(),
	}
	if spec.Dir == "" {
		spec.Dir = s.defaults()
	}
	if r.Msg.Pty != nil {
		size, err := sizeOf(r.Msg.GetPty())
		if err != nil {
			return err
		}
		spec.Terminal = &size
	}
	// The caller's timeout bounds the process and not just the stream. Without one
	// the process runs until it ends.
	p, err := s.processes.Start(spec, timeoutOf(r.Header()))
	if err != nil {
		return problem(err)
	}
	return s.follow(ctx, p, keepalive(r.Header()), func(event *process.ProcessEvent) error {
		return stream.Send(&process.StartResponse{Event: event})
	})
}

// Connect attaches to a process.
func (s *Service) Connect(ctx context.Context, r *connect.Request[process.ConnectRequest], stream *connect.ServerStream[process.ConnectResponse]) error {
	p, err := s.find(r.Msg.GetProcess())
	if err != nil {
		return err
	}
	return s.follow(ctx, p, keepalive(r.Header()), func(event *process.ProcessEvent) error {
		return stream.Send(&process.ConnectResponse{Event: event})
	})
}

// follow sends a process's output until it ends or the caller goes. The process
// runs on without its caller. Where the sandbox stops, the connection of a process that
// its signal ended is cut: all clients of envd look then whether the sandbox runs.
func (s *Service) follow(ctx context.Context, p *proc.Process, alive time.Duration, send func(*process.ProcessEvent) error) error {
	reader := p.Output.Attach()
	defer reader.Detach()
	start := &process.ProcessEvent_StartEvent{Pid: uint32(p.PID)}
	if err := send(&process.ProcessEvent{Event: &process.ProcessEvent_Start{Start: start}}); err != nil {
		return err
	}
	for {
		chunk, err := reader.Next(ctx, alive)
		switch {
		case err == nil:
			err = send(dataEvent(chunk))
		case errors.Is(err, output.ErrTimeout):
			err = send(&process.ProcessEvent{Event: &process.ProcessEvent_Keepalive{Keepalive: &process.ProcessEvent_KeepAlive{}}})
		case errors.Is(err, output.ErrEnd):
			<-p.Ended()
			if p.End().Signal != 0 && s.processes.Stopping() {
				panic(http.ErrAbortHandler)
			}
			return send(endEvent(p.End()))
		case errors.Is(err, output.ErrSlow):
			return connect.NewError(connect.CodeAborted, err)
		case errors.Is(err, context.DeadlineExceeded):
			return connect.NewError(connect.CodeDeadlineExceeded, err)
		default:
			return connect.NewError(connect.CodeCanceled, context.Cause(ctx))
		}
		if err != nil {
			return err
		}
	}
}

func dataEvent(chunk output.Chunk) *process.ProcessEvent {
	data := &process.ProcessEvent_DataEvent{}
	switch chunk.Kind {
	case output.Stdout:
		data.Output = &process.ProcessEvent_DataEvent_Stdout{Stdout: chunk.Data}
	case output.Stderr:
		data.Output = &process.ProcessEvent_DataEvent_Stderr{Stderr: chunk.Data}
	case output.PTY:
		data.Output = &process.ProcessEvent_DataEvent_Pty{Pty: chunk.Data}
	}
	return &process.ProcessEvent{Event: &process.ProcessEvent_Data{Data: data}}
}

func endEvent(end proc.End) *process.ProcessEvent {
	event := &process.ProcessEvent_EndEvent{ExitCode: int32(end.Code), Exited: end.Exited, Status: end.Status}
	if end.Code != 0 {
		status := end.Status
		event.Error = &status
	}
	return &process.ProcessEvent{Event: &process.ProcessEvent_End{End: event}}
}

// Update resizes a terminal.
func (s *Service) Update(_ context.Context, r *connect.Request[process.UpdateRequest]) (*connect.Response[process.UpdateResponse], error) {
	p, err := s.running(r.Msg.GetProcess())
	if err != nil {
		return nil, err
	}
	if r.Msg.Pty != nil {
		size, err := sizeOf(r.Msg.GetPty())
		if err != nil {
			return nil, err
		}
		if err := p.Resize(size); err != nil {
			return nil, problem(err)
		}
	}
	return connect.NewResponse(&process.UpdateResponse{}), nil
}

// SendSignal signals a process.
func (s *Service) SendSignal(_ context.Context, r *connect.Request[process.SendSignalRequest]) (*connect.Response[process.SendSignalResponse], error) {
	p, err := s.running(r.Msg.GetProcess())
	if err != nil {
		return nil, err
	}
	number := r.Msg.GetSignal()
	if number < 1 || number > 64 {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("not a signal: "+strconv.Itoa(int(number))))
	}
	if err := p.Signal(syscall.Signal(number)); err != nil {
		return nil, problem(err)
	}
	return connect.NewResponse(&process.SendSignalResponse{}), nil
}

func (s *Service) find(selector *process.ProcessSelector) (*proc.Process, error) {
	var p *proc.Process
	var err error
	switch by := selector.GetSelector().(type) {
	case *process.ProcessSelector_Pid:
		p, err = s.processes.ByPID(int(by.Pid))
	case *process.ProcessSelector_Tag:
		p, err = s.processes.ByTag(by.Tag)
	default:
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("select a process by pid or tag"))
	}
	if err != nil {
		return nil, problem(err)
	}
	return p, nil
}

func (s *Service) running(selector *process.ProcessSelector) (*proc.Process, error) {
	p, err := s.find(selector)
	if err == nil && !p.Running() {
		return nil, problem(proc.ErrNotFound)
	}
	return p, err
}

// Account returns the account that the user name of a request's Basic
// authentication selects. The token alone decides whether it is admitted.
func Account(d *account.Directory, header http.Header) (account.Account, error) {
	name, _, _ := (&http.Request{Header: header}).BasicAuth()
	who, err := d.Find(name)
	if err != nil {
		return who, connect.NewError(connect.CodeUnauthenticated, err)
	}
	return who, nil
}

func sizeOf(terminal *process.PTY) (proc.Size, error) {
	size := terminal.GetSize()
	cols, rows := size.GetCols(), size.GetRows()
	if cols > 65535 || rows > 65535 {
		return proc.Size{}, connect.NewError(connect.CodeInvalidArgument, errors.New("a terminal has at most 65535 columns and rows"))
	}
	if cols == 0 {
		cols = 80
	}
	if rows == 0 {
		rows = 24
	}
	return proc.Size{Cols: uint16(cols), Rows: uint16(rows)}, nil
}

func keepalive(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get(keepaliveHeader))
	if err != nil || seconds < 1 || seconds > 3600 {
		return defaultKeepalive
	}
	return time.Duration(seconds) * time.Second
}

func timeoutOf(header http.Header) time.Duration {
	if text := header.Get(timeoutHeader); text != "" && len(text) <= 10 {
		if milliseconds, err := strconv.ParseInt(text, 10, 64); err == nil && milliseconds > 0 {
			return time.Duration(milliseconds) * time.Millisecond
		}
	}
	return 0
}

// problem returns the protocol's error for one of this program.
func problem(err error) error {
	code := connect.CodeInternal
	switch {
	case errors.Is(err, proc.ErrNotFound):
		code = connect.CodeNotFound
	case errors.Is(err, proc.ErrInvalid):
		code = connect.CodeInvalidArgument
	case errors.Is(err, proc.ErrNoStdin), errors.Is(err, proc.ErrNoTerminal):
		code = connect.CodeFailedPrecondition
	case errors.Is(err, proc.ErrTooMany), strings.Contains(err.Error(), "too many open files"):
		code = connect.CodeResourceExhausted
	case errors.Is(err, proc.ErrStopping):
		code = connect.CodeUnavailable
	case errors.Is(err, context.Canceled):
		code = connect.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		code = connect.CodeDeadlineExceeded
	}
	return connect.NewError(code, err)
}
