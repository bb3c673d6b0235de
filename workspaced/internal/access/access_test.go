package access

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"workspaced/internal/devkeys"
	"workspaced/internal/token"
)

type one struct{ *devkeys.Signer }

func (o one) Find(id string) (ed25519.PublicKey, bool) {
	return o.Private.Public().(ed25519.PublicKey), id == o.ID
}

func gate(t *testing.T) (*Gate, *devkeys.Signer) {
	t.Helper()
	s, err := devkeys.New("k", "pod", "claim")
	if err != nil {
		t.Fatal(err)
	}
	return NewGate(one{s}, "pod"), s
}

func TestScopes(t *testing.T) {
	for _, c := range []struct {
		granted string
		needed  []string
		ok      bool
	}{
		{"api", []string{ScopeAPI, ScopeLook}, true},
		{"look", []string{ScopeAPI}, false},
		{"port:3000", []string{ScopePorts, PortScope(3000)}, true},
		{"port:3000", []string{ScopePorts, PortScope(300)}, false},
		{"port:3000", []string{ScopeAPI}, false},
		{"ports ssh", []string{ScopeSSH}, true},
		{"", []string{ScopeAPI}, false},
		{"apis", []string{ScopeAPI}, false},
	} {
		g, s := gate(t)
		_, err := g.Check(s.Token(c.granted, ""), c.needed...)
		if (err == nil) != c.ok {
			t.Errorf("%q for %v: %v", c.granted, c.needed, err)
		}
	}
}

func TestTheFirstClaimIsPinned(t *testing.T) {
	g, s := gate(t)
	none := *s
	none.Claim = ""
	if _, err := g.Check(none.Token("control api", ""), ScopeControl); err != nil {
		t.Fatalf("control before the claim: %v", err)
	}
	if _, err := g.Check(none.Token("control api", ""), ScopeAPI); !errors.Is(err, token.ErrClaim) {
		t.Fatalf("processes without a claim: %v", err)
	}
	if g.Claim() != "" {
		t.Fatal("pinned too early")
	}
	// A path that control may use too needs a claim of all others.
	if _, err := g.Check(none.Token("look", ""), ScopeControl, ScopeAPI, ScopeLook); !errors.Is(err, token.ErrClaim) {
		t.Fatalf("a reader without a claim: %v", err)
	}
	// A token that is refused for its scope pins nothing.
	early := *s
	early.Claim = "early"
	if _, err := g.Check(early.Token("look", ""), ScopeAPI); err == nil || g.Claim() != "" {
		t.Fatalf("%v, pinned %q", err, g.Claim())
	}
	if _, err := g.Check(s.Token("api", ""), ScopeAPI); err != nil {
		t.Fatal(err)
	}
	other := *s
	other.Claim = "other"
	for range 2 {
		if _, err := g.Check(other.Token("api", ""), ScopeAPI); !errors.Is(err, token.ErrClaim) {
			t.Fatalf("another claim: %v", err)
		}
	}
	if g.Refused()["claim_mismatch"] != 4 || g.Refused()["scope"] != 1 {
		t.Fatalf("counted %v", g.Refused())
	}
}

func TestAnEndedSessionIsCancelledAndRefused(t *testing.T) {
	g, s := gate(t)
	clock := time.Now()
	g.Sessions.now = func() time.Time { return clock }
	ctx, leave := join(t, g, "s1", "")
	defer leave()
	other, leaveOther := join(t, g, "s2", "")
	defer leaveOther()
	ended, err := g.Sessions.End("s1")
	if err != nil || ended != 1 {
		t.Fatal(ended, err)
	}
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), ErrEnded) || other.Err() != nil {
		t.Fatalf("%v, %v", context.Cause(ctx), other.Err())
	}
	if _, err := g.Check(s.Token("api", "s1"), ScopeAPI); !errors.Is(err, errSession) {
		t.Fatalf("its token: %v", err)
	}
	late, _ := join(t, g, "s1", "")
	if late.Err() == nil {
		t.Fatal("a request that was checked before the end runs on")
	}
	if _, err := g.Check(s.Token("api", "s2"), ScopeAPI); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(2 * time.Minute)
	if g.Sessions.Ended("s1") {
		t.Fatal("remembered beyond every token's life")
	}
}

func join(t *testing.T, g *Gate, session, caller string) (context.Context, func()) {
	t.Helper()
	ctx, leave, err := g.Join(context.Background(), token.Claims{Session: session, Subject: caller})
	if err != nil {
		t.Fatal(err)
	}
	return ctx, leave
}

func TestACallerLeavesConnectionsToOthers(t *testing.T) {
	g, _ := gate(t)
	var leaves []func()
	for i := range maxOfCaller {
		_, leave := join(t, g, fmt.Sprint("port-", i%3), "visitor")
		leaves = append(leaves, leave)
	}
	_, _, err := g.Join(context.Background(), token.Claims{Session: "another", Subject: "visitor"})
	if !errors.Is(err, errBusy) || g.Refused()["too_many_of_caller"] != 1 {
		t.Fatalf("%v, counted %v", err, g.Refused())
	}
	answer := httptest.NewRecorder()
	Refuse(answer, httptest.NewRequest("GET", "/", nil), err)
	if answer.Code != http.StatusTooManyRequests || !strings.Contains(answer.Body.String(), "more than 512 requests") {
		t.Fatal(answer.Code, answer.Body)
	}
	_, leave := join(t, g, "port-0", "owner")
	leave()
	// The service itself has no limit.
	_, leave = join(t, g, "", "")
	leave()
	leaves[0]()
	_, leave = join(t, g, "port-0", "visitor")
	for _, leave := range append(leaves[1:], leave) {
		leave()
	}
	if len(g.Sessions.count) != 0 || g.Sessions.Live() != 0 {
		t.Fatalf("%v, %d sessions", g.Sessions.count, g.Sessions.Live())
	}
}

func TestASessionThatCannotBeEndedIsRefused(t *testing.T) {
	g, s := gate(t)
	for _, session := range []string{"a/b", "a b", "ü", strings.Repeat("x", 129)} {
		if _, err := g.Check(s.Token("api", session), ScopeAPI); !errors.Is(err, token.ErrMalformed) {
			t.Errorf("%.10q: %v", session, err)
		}
	}
	if _, err := g.Check(s.Token("api", "Az09-_.~"), ScopeAPI); err != nil {
		t.Fatal(err)
	}
}

func TestEndedSessionsAreBounded(t *testing.T) {
	s := NewSessions()
	clock := time.Now()
	s.now = func() time.Time { return clock }
	for i := range maxEnded {
		if _, err := s.End(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.End("one more"); !errors.Is(err, ErrTooMany) {
		t.Fatalf("got %v", err)
	}
	clock = clock.Add(2 * time.Minute)
	if _, err := s.End("one more"); err != nil {
		t.Fatalf("after the first have expired: %v", err)
	}
	if len(s.ended) != 1 {
		t.Fatalf("%d are remembered", len(s.ended))
	}
}

func TestRefuseAnswersInTheCallersProtocol(t *testing.T) {
	for kind, want := range map[string]int{"": 401, "application/json": 401, "application/connect+json": 200, "application/grpc": 200} {
		r := httptest.NewRequest(http.MethodPost, "/process.Process/List", nil)
		if kind != "" {
			r.Header.Set("Content-Type", kind)
			r.Header.Set("Connect-Protocol-Version", "1")
		}
		w := httptest.NewRecorder()
		Refuse(w, r, token.ErrMissing)
		if w.Code != want {
			t.Errorf("%q: %d %s", kind, w.Code, w.Body)
		}
	}
}
