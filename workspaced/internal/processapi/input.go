package processapi

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"workspaced/gen/process"
	proc "workspaced/internal/process"
)

// SendInput writes input once. It answers when the process's pipe or terminal has
// taken all of it.
func (s *Service) SendInput(ctx context.Context, r *connect.Request[process.SendInputRequest]) (*connect.Response[process.SendInputResponse], error) {
	p, err := s.running(r.Msg.GetProcess())
	if err != nil {
		return nil, err
	}
	if err := write(ctx, p, r.Msg.GetInput()); err != nil {
		return nil, err
	}
	return connect.NewResponse(&process.SendInputResponse{}), nil
}

// StreamInput writes input in order. A message is read only after the process has
// taken the one before, so a slow process slows its caller down.
func (s *Service) StreamInput(ctx context.Context, stream *connect.ClientStream[process.StreamInputRequest]) (*connect.Response[process.StreamInputResponse], error) {
	var p *proc.Process
	for stream.Receive() {
		switch event := stream.Msg().GetEvent().(type) {
		case *process.StreamInputRequest_Start:
			if p != nil {
				return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("the stream has selected a process already"))
			}
			var err error
			if p, err = s.running(event.Start.GetProcess()); err != nil {
				return nil, err
			}
		case *process.StreamInputRequest_Data:
			if p == nil {
				return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("the first message must select a process"))
			}
			if err := write(ctx, p, event.Data.GetInput()); err != nil {
				return nil, err
			}
		case *process.StreamInputRequest_Keepalive:
		default:
			return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("an empty message"))
		}
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	return connect.NewResponse(&process.StreamInputResponse{}), nil
}

// CloseStdin closes the standard input.
func (s *Service) CloseStdin(_ context.Context, r *connect.Request[process.CloseStdinRequest]) (*connect.Response[process.CloseStdinResponse], error) {
	p, err := s.running(r.Msg.GetProcess())
	if err != nil {
		return nil, err
	}
	if err := p.CloseInput(); err != nil {
		return nil, problem(err)
	}
	return connect.NewResponse(&process.CloseStdinResponse{}), nil
}

func write(ctx context.Context, p *proc.Process, input *process.ProcessInput) error {
	var err error
	switch data := input.GetInput().(type) {
	case *process.ProcessInput_Stdin:
		err = p.Write(ctx, false, data.Stdin)
	case *process.ProcessInput_Pty:
		err = p.Write(ctx, true, data.Pty)
	default:
		return connect.NewError(connect.CodeInvalidArgument, errors.New("no input"))
	}
	if err != nil {
		return problem(err)
	}
	return nil
}
