package fsapi

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync"
	"time"

	"connectrpc.com/connect"

	"workspaced/gen/filesystem"
	"workspaced/internal/account"
	"workspaced/internal/watch"
)

// kinds maps operations to the protocol's types, in the order of its clients.
var kinds = []struct {
	bit  watch.Op
	kind filesystem.EventType
}{
	{1 << 0, filesystem.EventType_EVENT_TYPE_CREATE},
	{1 << 1, filesystem.EventType_EVENT_TYPE_WRITE},
	{1 << 2, filesystem.EventType_EVENT_TYPE_REMOVE},
	{1 << 3, filesystem.EventType_EVENT_TYPE_RENAME},
	{1 << 4, filesystem.EventType_EVENT_TYPE_CHMOD},
}

// expand returns the protocol's events for one of the hub's.
func expand(d *account.Directory, event watch.Event, withEntry bool) []*filesystem.FilesystemEvent {
	var events []*filesystem.FilesystemEvent
	for _, one := range kinds {
		if event.Op&one.bit == 0 {
			continue
		}
		out := &filesystem.FilesystemEvent{Name: event.Name, Type: one.kind}
		if withEntry {
			if entry, err := Entry(d, event.Path); err == nil {
				out.Entry = entry
			}
		}
		events = append(events, out)
	}
	return events
}

// WatchDir streams changes below a folder until the caller goes.
func (s *Service) WatchDir(ctx context.Context, r *connect.Request[filesystem.WatchDirRequest], stream *connect.ServerStream[filesystem.WatchDirResponse]) error {
	who, path, err := s.resolve(r.Header(), r.Msg.GetPath())
	if err != nil {
		return err
	}
	w, err := s.add(who, path, r.Msg.GetRecursive())
	if err != nil {
		return err
	}
	defer w.Close()
	start := &filesystem.WatchDirResponse_Start{Start: &filesystem.WatchDirResponse_StartEvent{}}
	if err := stream.Send(&filesystem.WatchDirResponse{Event: start}); err != nil {
		return err
	}
	alive := keepalive(r.Header().Get("Keepalive-Ping-Interval"))
	for {
		waiting, cancel := context.WithTimeout(ctx, alive)
		err := w.Wait(waiting)
		cancel()
		if ctx.Err() != nil {
			return connect.NewError(connect.CodeCanceled, context.Cause(ctx))
		}
		if err != nil {
			ping := &filesystem.WatchDirResponse_Keepalive{Keepalive: &filesystem.WatchDirResponse_KeepAlive{}}
			if err := stream.Send(&filesystem.WatchDirResponse{Event: ping}); err != nil {
				return err
			}
			continue
		}
		events, err := w.Take()
		for _, event := range events {
			for _, one := range expand(s.accounts, event, r.Msg.GetIncludeEntry()) {
				out := &filesystem.WatchDirResponse_Filesystem{Filesystem: one}
				if err := stream.Send(&filesystem.WatchDirResponse{Event: out}); err != nil {
					return err
				}
			}
		}
		if err != nil {
			return problem(err)
		}
	}
}

func (s *Service) add(who account.Account, path string, recursive bool) (w *watch.Watch, err error) {
	err = who.As(func() error { w, err = s.hub.Add(path, recursive); return err })
	if err != nil {
		return nil, problem(err)
	}
	return w, nil
}

func keepalive(text string) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 1 && seconds <= 3600 {
		return time.Duration(seconds) * time.Second
	}
	return 90 * time.Second
}

// polled are the watches of callers that poll. One that nobody polls is removed.
type polled struct {
	mu   sync.Mutex
	byID map[string]*polledWatch
}

type polledWatch struct {
	*watch.Watch
	withEntry bool
	expiry    *time.Timer
}

// forgotten is how long a watch is kept without a poll.
const forgotten = time.Hour

func newPolled() *polled { return &polled{byID: map[string]*polledWatch{}} }

// CreateWatcher creates a watch to poll.
func (s *Service) CreateWatcher(_ context.Context, r *connect.Request[filesystem.CreateWatcherRequest]) (*connect.Response[filesystem.CreateWatcherResponse], error) {
	who, path, err := s.resolve(r.Header(), r.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	w, err := s.add(who, path, r.Msg.GetRecursive())
	if err != nil {
		return nil, err
	}
	id := rand.Text()
	one := &polledWatch{Watch: w, withEntry: r.Msg.GetIncludeEntry()}
	one.expiry = time.AfterFunc(forgotten, func() { s.polled.remove(id) })
	s.polled.mu.Lock()
	s.polled.byID[id] = one
	s.polled.mu.Unlock()
	return connect.NewResponse(&filesystem.CreateWatcherResponse{WatcherId: id}), nil
}

// GetWatcherEvents returns the events since the last poll.
func (s *Service) GetWatcherEvents(_ context.Context, r *connect.Request[filesystem.GetWatcherEventsRequest]) (*connect.Response[filesystem.GetWatcherEventsResponse], error) {
	s.polled.mu.Lock()
	one := s.polled.byID[r.Msg.GetWatcherId()]
	s.polled.mu.Unlock()
	if one == nil {
		return nil, noWatcher(r.Msg.GetWatcherId())
	}
	one.expiry.Reset(forgotten)
	events, err := one.Take()
	if err != nil {
		return nil, problem(err)
	}
	answer := &filesystem.GetWatcherEventsResponse{}
	for _, event := range events {
		answer.Events = append(answer.Events, expand(s.accounts, event, one.withEntry)...)
	}
	return connect.NewResponse(answer), nil
}

// RemoveWatcher removes a watch.
func (s *Service) RemoveWatcher(_ context.Context, r *connect.Request[filesystem.RemoveWatcherRequest]) (*connect.Response[filesystem.RemoveWatcherResponse], error) {
	if !s.polled.remove(r.Msg.GetWatcherId()) {
		return nil, noWatcher(r.Msg.GetWatcherId())
	}
	return connect.NewResponse(&filesystem.RemoveWatcherResponse{}), nil
}

func (p *polled) remove(id string) bool {
	p.mu.Lock()
	one := p.byID[id]
	delete(p.byID, id)
	p.mu.Unlock()
	if one == nil {
		return false
	}
	one.expiry.Stop()
	one.Close()
	return true
}

func noWatcher(id string) error {
	return connect.NewError(connect.CodeNotFound, fmt.Errorf("no watcher %q", id))
}
