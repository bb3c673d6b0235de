// Package access decides which requests are admitted: it verifies the token, pins
// the workspace's claim, compares scopes, tracks sessions and counts refusals.
package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"workspaced/internal/token"
)

const (
	// TokenHeader carries the token. The gateway sets it and strips a caller's own.
	TokenHeader = "X-Workspace-Token"
	// EnvdTokenHeader carries it too, except on relayed ports, whose programs may
	// use that header themselves.
	EnvdTokenHeader = "X-Access-Token"
)

// Scopes of a token, separated by spaces in its scope claim.
const (
	ScopeAPI     = "api"     // processes, files, environment
	ScopeLook    = "look"    // what reads of them
	ScopeSSH     = "ssh"     // SSH and SFTP
	ScopePorts   = "ports"   // every relayed port
	ScopeControl = "control" // status, sessions, suspend, init; needs no claim
)

// PortScope is the scope of a single relayed port.
func PortScope(port int) string { return "port:" + strconv.Itoa(port) }

var (
	errScope   = errors.New("scope")
	errSession = errors.New("session_ended")
	errBusy    = errors.New("too_many_of_caller")
)

// Gate admits requests.
type Gate struct {
	Sessions *Sessions

	keys     token.Keys
	audience string
	now      func() time.Time

	mu      sync.Mutex
	claim   string
	refused map[string]uint64
}

// NewGate returns a gate for the pod with that uid.
func NewGate(keys token.Keys, podUID string) *Gate {
	return &Gate{
		Sessions: NewSessions(), keys: keys, audience: podUID, now: time.Now,
		refused: map[string]uint64{},
	}
}

// Claim returns the pinned claim's uid, or an empty string before its first use.
func (g *Gate) Claim() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.claim
}

// Refused returns the number of refused requests by reason.
func (g *Gate) Refused() map[string]uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	counts := make(map[string]uint64, len(g.refused))
	for reason, count := range g.refused {
		counts[reason] = count
	}
	return counts
}

// Check returns the claims of a token if it has one of the scopes.
func (g *Gate) Check(text string, scopes ...string) (token.Claims, error) {
	claims, err := g.check(text, scopes)
	g.note(err)
	return claims, err
}

// Join makes an admitted request a part of its session, as Sessions.Join does.
func (g *Gate) Join(parent context.Context, claims token.Claims) (context.Context, func(), error) {
	ctx, leave, err := g.Sessions.Join(parent, claims.Session, claims.Subject)
	g.note(err)
	return ctx, leave, err
}

func (g *Gate) note(err error) {
	if err == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused[err.Error()]++
}

func (g *Gate) check(text string, scopes []string) (token.Claims, error) {
	claims, err := token.Verify(text, g.keys, g.audience, g.now())
	if err != nil {
		return claims, err
	}
	if !ValidSession(claims.Session) {
		return claims, token.ErrMalformed
	}
	granted := strings.Fields(claims.Scope)
	if !slices.ContainsFunc(scopes, func(scope string) bool { return slices.Contains(granted, scope) }) {
		return claims, errScope
	}
	control := slices.Contains(scopes, ScopeControl) && slices.Contains(granted, ScopeControl)
	if err := g.pin(claims, control); err != nil {
		return claims, err
	}
	if claims.Session != "" && g.Sessions.Ended(claims.Session) {
		return claims, errSession
	}
	return claims, nil
}

// pin compares the claim with the first one that was used. A warm pod does not
// know its claim at its start; without one only control is allowed.
func (g *Gate) pin(claims token.Claims, control bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if claims.Claim == "" {
		if control {
			return nil
		}
		return token.ErrClaim
	}
	if g.claim == "" {
		g.claim = claims.Claim
	}
	if g.claim != claims.Claim {
		return token.ErrClaim
	}
	return nil
}

type claimsKey struct{}

// WithClaims returns a context of an admitted request.
func WithClaims(ctx context.Context, claims token.Claims) context.Context {
	return context.WithValue(ctx, claimsKey{}, claims)
}

// Granted reports whether the token of a request has a scope.
func Granted(ctx context.Context, scope string) bool {
	claims, _ := ctx.Value(claimsKey{}).(token.Claims)
	return slices.Contains(strings.Fields(claims.Scope), scope)
}

// FromRequest returns the token of a request.
func FromRequest(r *http.Request) string {
	if text := r.Header.Get(TokenHeader); text != "" {
		return text
	}
	return r.Header.Get(EnvdTokenHeader)
}

// Strip removes the tokens from a request's headers.
func Strip(h http.Header) {
	h.Del(TokenHeader)
	h.Del(EnvdTokenHeader)
}

var rpcErrors = connect.NewErrorWriter()

// Refuse answers a refused request in the caller's protocol.
func Refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, code := http.StatusUnauthorized, connect.CodeUnauthenticated
	message := "this request needs a token of the workspace service for this sandbox: " + err.Error()
	switch {
	case errors.Is(err, errScope):
		status, code = http.StatusForbidden, connect.CodePermissionDenied
		message = "the token does not allow this request"
	case errors.Is(err, errBusy):
		status, code = http.StatusTooManyRequests, connect.CodeResourceExhausted
		message = fmt.Sprintf("more than %d requests and connections of one caller at once: end some of them", maxOfCaller)
	}
	if rpcErrors.IsSupported(r) {
		_ = rpcErrors.Write(w, r, connect.NewError(code, errors.New(message)))
		return
	}
	WriteError(w, status, message)
}

// WriteError writes the JSON error of envd's HTTP endpoints.
func WriteError(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"code": status, "message": message})
}
