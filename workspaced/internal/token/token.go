// Package token verifies the tokens that admit a request to this sandbox.
//
// A token is a compact JWS signed with Ed25519 by the workspace service. It names
// one pod (aud), lives for at most a minute, and carries what its bearer may do
// (scope), for which workspace (claim) and in which session (sid).
package token

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// MaxLifetime is the longest time from iat to exp that is accepted.
	MaxLifetime = 60 * time.Second
	// Skew is how far the clocks of the service and the node may differ.
	Skew = 5 * time.Second
	// maxLength bounds the work that an unauthenticated caller can cause.
	maxLength = 4096
)

// Reasons of refusal. They are counted by these names.
var (
	ErrMissing   = errors.New("missing")
	ErrMalformed = errors.New("malformed")
	ErrKey       = errors.New("unknown_key")
	ErrSignature = errors.New("bad_signature")
	ErrAudience  = errors.New("wrong_audience")
	ErrTime      = errors.New("expired")
	ErrClaim     = errors.New("claim_mismatch")
)

// Claims is the content of a token.
type Claims struct {
	Audience string `json:"aud"`
	Subject  string `json:"sub,omitempty"`
	Session  string `json:"sid,omitempty"`
	Claim    string `json:"claim,omitempty"`
	Scope    string `json:"scope,omitempty"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp"`
}

type header struct {
	Algorithm string   `json:"alg"`
	Key       string   `json:"kid"`
	Critical  []string `json:"crit"`
}

// Keys finds the public key of a key id.
type Keys interface {
	Find(id string) (ed25519.PublicKey, bool)
}

// Verify returns the claims of a token, or why it is refused.
func Verify(text string, keys Keys, audience string, now time.Time) (Claims, error) {
	var claims Claims
	if text == "" {
		return claims, ErrMissing
	}
	signed, kid, signature, err := parse(text, &claims)
	if err != nil {
		return Claims{}, err
	}
	key, found := keys.Find(kid)
	if !found {
		return Claims{}, ErrKey
	}
	if !ed25519.Verify(key, []byte(signed), signature) {
		return Claims{}, ErrSignature
	}
	if claims.Audience == "" || claims.Audience != audience {
		return Claims{}, ErrAudience
	}
	issued, expires := time.Unix(claims.IssuedAt, 0), time.Unix(claims.Expires, 0)
	if expires.Sub(issued) > MaxLifetime || !expires.After(issued) {
		return Claims{}, ErrTime
	}
	if issued.After(now.Add(Skew)) || !expires.After(now.Add(-Skew)) {
		return Claims{}, ErrTime
	}
	return claims, nil
}

// parse splits a compact JWS and decodes it without judging its content.
func parse(text string, claims *Claims) (signed, kid string, signature []byte, err error) {
	if len(text) > maxLength {
		return "", "", nil, ErrMalformed
	}
	first := strings.IndexByte(text, '.')
	last := strings.LastIndexByte(text, '.')
	if first <= 0 || last == first || strings.IndexByte(text[first+1:last], '.') >= 0 {
		return "", "", nil, ErrMalformed
	}
	var head header
	if err := decode(text[:first], &head); err != nil {
		return "", "", nil, err
	}
	// Extensions that must be understood are not.
	if head.Algorithm != "EdDSA" || head.Key == "" || len(head.Critical) > 0 {
		return "", "", nil, ErrMalformed
	}
	if err := decode(text[first+1:last], claims); err != nil {
		return "", "", nil, err
	}
	signature, err = base64.RawURLEncoding.Strict().DecodeString(text[last+1:])
	if err != nil || len(signature) != ed25519.SignatureSize {
		return "", "", nil, ErrMalformed
	}
	return text[:last], head.Key, signature, nil
}

func decode(part string, into any) error {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return ErrMalformed
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return ErrMalformed
	}
	return nil
}

// Sign returns a token. The service signs in production; tests, benchmarks and the
// rehearsal sign with this.
func Sign(claims Claims, kid string, key ed25519.PrivateKey) (string, error) {
	head, err := json.Marshal(map[string]string{"alg": "EdDSA", "kid": kid, "typ": "JWT"})
	if err != nil {
		return "", fmt.Errorf("encode header: %w", err)
	}
	body, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("encode claims: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode(head) + "." + encode(body)
	return signed + "." + encode(ed25519.Sign(key, []byte(signed))), nil
}
