// Package devkeys signs tokens for tests, benchmarks and development. In an
// environment the workspace service signs them.
package devkeys

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"workspaced/internal/token"
)

const (
	privateName = "private.json"
	publicName  = "keys.json"
)

// Signer signs tokens for one pod.
type Signer struct {
	ID      string
	Private ed25519.PrivateKey
	Pod     string
	Claim   string
}

type jwk struct {
	Type  string `json:"kty"`
	Curve string `json:"crv"`
	ID    string `json:"kid"`
	X     string `json:"x"`
	D     string `json:"d,omitempty"`
}

// New returns a signer with a new key.
func New(id, pod, claim string) (*Signer, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return &Signer{ID: id, Private: private, Pod: pod, Claim: claim}, nil
}

func (s *Signer) public() jwk {
	x := base64.RawURLEncoding.EncodeToString(s.Private.Public().(ed25519.PublicKey))
	return jwk{Type: "OKP", Curve: "Ed25519", ID: s.ID, X: x}
}

// JWKS returns the document of public keys of signers.
func JWKS(signers ...*Signer) []byte {
	keys := []jwk{}
	for _, s := range signers {
		keys = append(keys, s.public())
	}
	raw, _ := json.Marshal(map[string]any{"keys": keys})
	return raw
}

// Write writes the key pair into a folder and returns the path of the public keys.
func (s *Signer) Write(folder string) (string, error) {
	private := s.public()
	private.D = base64.RawURLEncoding.EncodeToString(s.Private.Seed())
	raw, err := json.Marshal(private)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(folder, privateName), raw, 0o600); err != nil {
		return "", err
	}
	path := filepath.Join(folder, publicName)
	return path, os.WriteFile(path, JWKS(s), 0o644)
}

// Read reads a key pair that Write wrote.
func Read(folder, pod, claim string) (*Signer, error) {
	raw, err := os.ReadFile(filepath.Join(folder, privateName))
	if err != nil {
		return nil, err
	}
	var private jwk
	if err := json.Unmarshal(raw, &private); err != nil {
		return nil, err
	}
	seed, err := base64.RawURLEncoding.DecodeString(private.D)
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("%s: not a key", privateName)
	}
	return &Signer{ID: private.ID, Private: ed25519.NewKeyFromSeed(seed), Pod: pod, Claim: claim}, nil
}

// Token returns a token with a scope and a session.
func (s *Signer) Token(scope, session string) string {
	now := time.Now()
	text, err := token.Sign(token.Claims{
		Audience: s.Pod, Claim: s.Claim, Subject: "developer", Session: session, Scope: scope,
		IssuedAt: now.Unix(), Expires: now.Add(token.MaxLifetime).Unix(),
	}, s.ID, s.Private)
	if err != nil {
		panic(err) // the claims are strings and numbers
	}
	return text
}
