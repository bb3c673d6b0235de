package token_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"workspaced/internal/devkeys"
	"workspaced/internal/token"
)

type keyset map[string]ed25519.PublicKey

func (k keyset) Find(id string) (ed25519.PublicKey, bool) {
	key, found := k[id]
	return key, found
}

func signer(t testing.TB) (*devkeys.Signer, keyset) {
	t.Helper()
	s, err := devkeys.New("k1", "pod-1", "claim-1")
	if err != nil {
		t.Fatal(err)
	}
	return s, keyset{"k1": s.Private.Public().(ed25519.PublicKey)}
}

func TestVerify(t *testing.T) {
	s, keys := signer(t)
	other, _ := signer(t)
	now := time.Unix(1_800_000_000, 0)
	good := token.Claims{Audience: "pod-1", Claim: "claim-1", Scope: "api", IssuedAt: now.Unix(), Expires: now.Unix() + 60}
	change := func(f func(*token.Claims)) token.Claims { c := good; f(&c); return c }
	sign := func(c token.Claims, kid string, key ed25519.PrivateKey) string {
		text, err := token.Sign(c, kid, key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	valid := sign(good, "k1", s.Private)
	parts := strings.Split(valid, ".")
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for name, one := range map[string]struct {
		text string
		want error
	}{
		"good":                 {valid, nil},
		"none":                 {"", token.ErrMissing},
		"not three parts":      {parts[0] + "." + parts[1], token.ErrMalformed},
		"four parts":           {valid + ".x", token.ErrMalformed},
		"too long":             {valid + strings.Repeat("A", 5000), token.ErrMalformed},
		"other key":            {sign(good, "k1", other.Private), token.ErrSignature},
		"unknown key":          {sign(good, "k2", s.Private), token.ErrKey},
		"changed content":      {parts[0] + "." + encode(`{"aud":"pod-1","iat":1800000000,"exp":1800000060}`) + "." + parts[2], token.ErrSignature},
		"algorithm none":       {encode(`{"alg":"none","kid":"k1"}`) + "." + parts[1] + "." + parts[2], token.ErrMalformed},
		"algorithm HS256":      {encode(`{"alg":"HS256","kid":"k1"}`) + "." + parts[1] + "." + parts[2], token.ErrMalformed},
		"critical extension":   {encode(`{"alg":"EdDSA","kid":"k1","crit":["x"]}`) + "." + parts[1] + "." + parts[2], token.ErrMalformed},
		"padded":               {valid + "=", token.ErrMalformed},
		"other pod":            {sign(change(func(c *token.Claims) { c.Audience = "pod-2" }), "k1", s.Private), token.ErrAudience},
		"no audience":          {sign(change(func(c *token.Claims) { c.Audience = "" }), "k1", s.Private), token.ErrAudience},
		"lives too long":       {sign(change(func(c *token.Claims) { c.Expires++ }), "k1", s.Private), token.ErrTime},
		"expired":              {sign(change(func(c *token.Claims) { c.IssuedAt -= 70; c.Expires -= 70 }), "k1", s.Private), token.ErrTime},
		"expired within skew":  {sign(change(func(c *token.Claims) { c.IssuedAt -= 63; c.Expires -= 63 }), "k1", s.Private), nil},
		"from the future":      {sign(change(func(c *token.Claims) { c.IssuedAt += 30; c.Expires += 30 }), "k1", s.Private), token.ErrTime},
		"ends before it began": {sign(change(func(c *token.Claims) { c.Expires = c.IssuedAt }), "k1", s.Private), token.ErrTime},
	} {
		t.Run(name, func(t *testing.T) {
			claims, err := token.Verify(one.text, keys, "pod-1", now)
			if !errors.Is(err, one.want) {
				t.Fatalf("got %v, want %v", err, one.want)
			}
			if err != nil && claims != (token.Claims{}) && errors.Is(err, token.ErrMalformed) {
				t.Fatalf("refused, and yet claims: %+v", claims)
			}
		})
	}
}

func TestKeysAreReadAgainWhenTheMountChanges(t *testing.T) {
	first, _ := signer(t)
	second, err := devkeys.New("k2", "pod-1", "claim-1")
	if err != nil {
		t.Fatal(err)
	}
	// As a ConfigMap: a link to a folder that is exchanged.
	root := t.TempDir()
	for folder, s := range map[string]*devkeys.Signer{"v1": first, "v2": second} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, folder, "keys.json"), devkeys.JWKS(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("v1", filepath.Join(root, "data")); err != nil {
		t.Fatal(err)
	}
	file, err := token.OpenFile(filepath.Join(root, "data", "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Now()
	token.SetClock(file, func() time.Time { return clock })
	if _, found := file.Find("k1"); !found {
		t.Fatal("the first key is not known")
	}
	if err := os.Symlink("v2", filepath.Join(root, "next")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(root, "next"), filepath.Join(root, "data")); err != nil {
		t.Fatal(err)
	}
	if _, found := file.Find("k2"); found {
		t.Fatal("the file is looked at more than once a second")
	}
	clock = clock.Add(2 * time.Second)
	if _, found := file.Find("k2"); !found {
		t.Fatal("the new key is not known")
	}
	if _, found := file.Find("k1"); found {
		t.Fatal("the old key is still known")
	}
	// What cannot be read leaves the keys, and is counted.
	if err := os.WriteFile(filepath.Join(root, "v2", "keys.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(2 * time.Second)
	if _, found := file.Find("k2"); !found || file.Failures() != 1 {
		t.Fatalf("found %v, failures %d", found, file.Failures())
	}
}

func TestOpenFileNeedsKeys(t *testing.T) {
	for name, content := range map[string]string{
		"no JSON": "x", "no keys": `{"keys":[]}`, "RSA only": `{"keys":[{"kty":"RSA","kid":"a"}]}`,
		"short key": `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"AAAA"}]}`,
	} {
		path := filepath.Join(t.TempDir(), "keys.json")
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := token.OpenFile(path); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestASandboxMayStartBeforeTheKeysArePublished(t *testing.T) {
	s, _ := signer(t)
	path := filepath.Join(t.TempDir(), "keys.json")
	file, err := token.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Now()
	token.SetClock(file, func() time.Time { return clock })
	if _, err := token.Verify(s.Token("api", "s"), file, "pod-1", clock); !errors.Is(err, token.ErrKey) {
		t.Fatalf("got %v, want %v", err, token.ErrKey)
	}
	if err := os.WriteFile(path, devkeys.JWKS(s), 0o644); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(2 * time.Second)
	if _, found := file.Find("k1"); !found {
		t.Fatal("the published key is not known")
	}
}

func FuzzVerify(f *testing.F) {
	s, keys := signer(f)
	f.Add(s.Token("api", "s"))
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJFZERTQSJ9..")
	f.Fuzz(func(t *testing.T, text string) {
		claims, err := token.Verify(text, keys, "pod-1", time.Now())
		if err == nil && (claims.Audience != "pod-1" || !strings.HasPrefix(text, "ey")) {
			t.Fatalf("accepted %q: %+v", text, claims)
		}
	})
}

func FuzzParseKeys(f *testing.F) {
	s, _ := signer(f)
	f.Add(devkeys.JWKS(s))
	f.Add([]byte(`{"keys":[{"kty":"OKP"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		keys, err := token.ParseKeys(raw)
		if err != nil {
			return
		}
		for id, key := range keys {
			if id == "" || len(key) != ed25519.PublicKeySize {
				t.Fatalf("key %q of %d bytes", id, len(key))
			}
		}
	})
}
