// Package account knows the users of the sandbox and the environment of their
// processes. A class's pod usually runs as one uid without an entry in /etc/passwd.
package account

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Account is a user that processes and file operations run as.
type Account struct {
	Name  string
	UID   uint32
	GID   uint32
	Home  string
	Shell string
}

// ErrUnknown says that there is no such user, or that it cannot be become.
var ErrUnknown = errors.New("unknown user")

// Directory finds accounts. It is read from an /etc/passwd file at each look-up,
// because images and users change it.
type Directory struct {
	passwd string
	self   Account

	mu          sync.Mutex
	defaultName string
	names       names
}

// NewDirectory returns a directory whose default account is this process's own.
// The name and home are used where its uid has no entry.
func NewDirectory(passwd, name, home string) *Directory {
	d := &Directory{passwd: passwd}
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	d.self = Account{Name: name, UID: uid, GID: gid, Home: home}
	found, ok := d.find(func(a Account) bool { return a.UID == uid })
	if ok {
		d.self = found
		d.self.GID = gid
		if home != "" {
			d.self.Home = home
		}
	}
	if d.self.Name == "" {
		d.self.Name = "user"
	}
	if d.self.Home == "" {
		d.self.Home = "/"
	}
	return d
}

// Self returns the account of this process.
func (d *Directory) Self() Account {
	self := d.self
	self.Shell = usableShell(self.Shell)
	return self
}

// SetDefault sets the user for requests that name none.
func (d *Directory) SetDefault(name string) error {
	if _, err := d.Find(name); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.defaultName = name
	return nil
}

// Find returns the account of a name or uid; an empty name is the default. Only
// root can become somebody else.
func (d *Directory) Find(name string) (Account, error) {
	if name == "" {
		d.mu.Lock()
		name = d.defaultName
		d.mu.Unlock()
	}
	if name == "" || name == d.self.Name || name == strconv.Itoa(int(d.self.UID)) {
		return d.Self(), nil
	}
	found, ok := d.find(func(a Account) bool {
		return a.Name == name || strconv.Itoa(int(a.UID)) == name
	})
	if !ok {
		// Clients of envd name "user" by default, whatever the image calls its user.
		if name == "user" {
			return d.Self(), nil
		}
		return Account{}, fmt.Errorf("%w %q", ErrUnknown, name)
	}
	if found.UID == d.self.UID {
		return d.Self(), nil
	}
	if d.self.UID != 0 {
		return Account{}, fmt.Errorf("%w: this sandbox runs as %s (uid %d) and cannot become %q; install into the home, or have the image of its class changed",
			ErrUnknown, d.self.Name, d.self.UID, name)
	}
	found.Shell = usableShell(found.Shell)
	return found, nil
}

func (d *Directory) find(match func(Account) bool) (Account, bool) {
	file, err := os.Open(d.passwd)
	if err != nil {
		return Account{}, false
	}
	defer file.Close()
	lines := bufio.NewScanner(io.LimitReader(file, 1<<20))
	for lines.Scan() {
		if one, ok := ParseLine(lines.Text()); ok && match(one) {
			return one, true
		}
	}
	return Account{}, false
}

// ParseLine returns the account of a line of /etc/passwd.
func ParseLine(line string) (Account, bool) {
	fields := strings.Split(line, ":")
	if len(fields) != 7 || fields[0] == "" || strings.HasPrefix(fields[0], "#") {
		return Account{}, false
	}
	uid, err := strconv.ParseUint(fields[2], 10, 32)
	if err != nil {
		return Account{}, false
	}
	gid, err := strconv.ParseUint(fields[3], 10, 32)
	if err != nil {
		return Account{}, false
	}
	return Account{fields[0], uint32(uid), uint32(gid), fields[5], fields[6]}, true
}

// usableShell returns the first shell that the image has, or an empty string.
func usableShell(wanted string) string {
	for _, shell := range []string{wanted, "/bin/bash", "/bin/sh"} {
		base := filepath.Base(shell)
		if shell == "" || base == "nologin" || base == "false" {
			continue
		}
		if info, err := os.Stat(shell); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return shell
		}
	}
	return ""
}

// Resolve returns the absolute, clean form of a path: relative paths and "~" start
// at the home of the account.
func (a Account) Resolve(path string) string {
	switch {
	case path == "" || path == "~":
		return a.Home
	case strings.HasPrefix(path, "~/"):
		return filepath.Join(a.Home, path[2:])
	case filepath.IsAbs(path):
		return filepath.Clean(path)
	}
	return filepath.Join(a.Home, path)
}
