package access

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"workspaced/internal/token"
)

const (
	// An ended session is remembered until every token of it has expired.
	remember = token.MaxLifetime + 2*token.Skew
	// maxEnded bounds the memory for ended sessions.
	maxEnded = 65536
	// maxOfCaller bounds the requests and connections of one caller at once, so that a
	// visitor of a shared port leaves some to the owner.
	maxOfCaller = 512
)

// ErrEnded is the cause of a request's cancelled context when its session ends.
var ErrEnded = errors.New("the session was ended")

// ErrTooMany says that more sessions end than can be remembered.
var ErrTooMany = errors.New("too many ended sessions")

// ValidSession reports whether a session id can stand in the path that ends it; an
// empty one is none.
func ValidSession(id string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
	return len(id) <= 128 && strings.Trim(id, allowed) == ""
}

// Sessions are the running requests and connections by session id, and their number
// by caller, who may have several sessions.
type Sessions struct {
	now func() time.Time

	mu    sync.Mutex
	live  map[string]map[*entry]struct{}
	count map[string]int
	ended map[string]time.Time
}

type entry struct{ cancel context.CancelCauseFunc }

// NewSessions returns an empty registry.
func NewSessions() *Sessions {
	return &Sessions{
		now: time.Now, live: map[string]map[*entry]struct{}{}, count: map[string]int{}, ended: map[string]time.Time{},
	}
}

// Join returns a context that is cancelled when the session ends, and a function
// to leave it. A request without a session is only cancelled with its parent, and
// one without a caller is not counted. A caller with too many others is refused.
func (s *Sessions) Join(parent context.Context, id, caller string) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if caller != "" && s.count[caller] >= maxOfCaller {
		return parent, func() {}, errBusy
	}
	ctx, cancel := context.WithCancelCause(parent)
	if _, over := s.ended[id]; over {
		cancel(ErrEnded)
		return ctx, func() {}, nil
	}
	one := &entry{cancel: cancel}
	if id != "" {
		if s.live[id] == nil {
			s.live[id] = map[*entry]struct{}{}
		}
		s.live[id][one] = struct{}{}
	}
	if caller != "" {
		s.count[caller]++
	}
	return ctx, func() {
		cancel(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.count[caller]--; s.count[caller] <= 0 {
			delete(s.count, caller)
		}
		delete(s.live[id], one)
		if len(s.live[id]) == 0 {
			delete(s.live, id)
		}
	}, nil
}

// End cancels what runs in a session and refuses its tokens from now on. It
// returns how many requests and connections it cancelled.
func (s *Sessions) End(id string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if _, known := s.ended[id]; !known && len(s.ended) >= maxEnded {
		for other, until := range s.ended {
			if now.After(until) {
				delete(s.ended, other)
			}
		}
		if len(s.ended) >= maxEnded {
			return 0, ErrTooMany
		}
	}
	s.ended[id] = now.Add(remember)
	cancelled := len(s.live[id])
	for one := range s.live[id] {
		one.cancel(ErrEnded)
	}
	return cancelled, nil
}

// Ended reports whether tokens of a session are refused.
func (s *Sessions) Ended(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, found := s.ended[id]
	if found && s.now().After(until) {
		delete(s.ended, id)
		return false
	}
	return found
}

// Live returns the number of sessions with running requests.
func (s *Sessions) Live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// Interrupt makes blocked reads and writes of a request fail once its context is
// cancelled: copying a file does not look at contexts. It returns a function that
// must be called when the request is over.
func Interrupt(ctx context.Context, w http.ResponseWriter) func() bool {
	controller := http.NewResponseController(w)
	return context.AfterFunc(ctx, func() {
		if !errors.Is(context.Cause(ctx), ErrEnded) {
			return
		}
		past := time.Unix(1, 0)
		_ = controller.SetReadDeadline(past)
		_ = controller.SetWriteDeadline(past)
	})
}
