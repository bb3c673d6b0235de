package token

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	// recheck is how often the file is looked at, at most.
	recheck     = time.Second
	maxKeysFile = 256 << 10
)

// File is a JWKS file of Ed25519 keys that is read again when it changes. A
// mounted ConfigMap changes by a new symbolic link, so the resolved file counts.
type File struct {
	path string
	now  func() time.Time

	mu      sync.Mutex
	keys    map[string]ed25519.PublicKey
	checked time.Time
	seen    stamp
	failed  uint64
}

type stamp struct {
	modified time.Time
	size     int64
	inode    uint64
}

type jwks struct {
	Keys []struct {
		Type  string `json:"kty"`
		Curve string `json:"crv"`
		ID    string `json:"kid"`
		X     string `json:"x"`
	} `json:"keys"`
}

// OpenFile reads the keys, and fails if the file has none. A file that does not
// exist has none yet: a sandbox may start before the service has published its keys,
// and refuses everybody until then.
func OpenFile(path string) (*File, error) {
	f := &File{path: path, now: time.Now}
	if err := f.load(); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	f.checked = f.now()
	return f, nil
}

// Find returns the key of an id. A file that can no longer be read or parsed
// leaves the keys as they were.
func (f *File) Find(id string) (ed25519.PublicKey, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.now(); now.Sub(f.checked) >= recheck || now.Before(f.checked) {
		f.checked = now
		if err := f.load(); err != nil {
			f.failed++
		}
	}
	key, found := f.keys[id]
	return key, found
}

// Failures returns how often the file could not be read again.
func (f *File) Failures() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

func (f *File) load() error {
	file, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("open keys: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("stat keys: %w", err)
	}
	seen := stamp{modified: info.ModTime(), size: info.Size(), inode: inodeOf(info)}
	if f.keys != nil && seen == f.seen {
		return nil
	}
	raw, err := io.ReadAll(io.LimitReader(file, maxKeysFile+1))
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	keys, err := ParseKeys(raw)
	if err != nil {
		return err
	}
	f.keys, f.seen = keys, seen
	return nil
}

// ParseKeys returns the Ed25519 keys of a JWKS document by their ids.
func ParseKeys(raw []byte) (map[string]ed25519.PublicKey, error) {
	if len(raw) > maxKeysFile {
		return nil, fmt.Errorf("keys: larger than %d bytes", maxKeysFile)
	}
	var set jwks
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, fmt.Errorf("keys: not JSON: %w", err)
	}
	keys := make(map[string]ed25519.PublicKey, len(set.Keys))
	for _, key := range set.Keys {
		if key.Type != "OKP" || key.Curve != "Ed25519" || key.ID == "" {
			continue
		}
		x, err := base64.RawURLEncoding.Strict().DecodeString(key.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("keys: key %q is no Ed25519 public key", key.ID)
		}
		keys[key.ID] = x
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("keys: no Ed25519 key with an id")
	}
	return keys, nil
}
