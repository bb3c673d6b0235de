package account

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// WriteEntry writes the lines of a passwd file, with one for the account instead
// of any other with its uid or name, to a new file. Readers see the old file or the
// new one.
func WriteEntry(from, to string, a Account) error {
	if strings.ContainsAny(a.Name+a.Home+a.Shell, ":\n") || a.Name == "" {
		return fmt.Errorf("passwd: %q, %q or %q cannot stand in an entry", a.Name, a.Home, a.Shell)
	}
	shell := a.Shell
	if shell == "" {
		shell = cmp.Or(usableShell(""), "/bin/sh")
	}
	entry := fmt.Sprintf("%s:x:%d:%d::%s:%s", a.Name, a.UID, a.GID, a.Home, shell)
	return replace(from, to, entry, a.Name, fmt.Sprint(a.UID))
}

// WriteGroup writes the lines of a group file, with one for the account's group
// instead of any other with its gid or name, to a new file.
func WriteGroup(from, to string, a Account) error {
	if strings.ContainsAny(a.Name, ":\n") || a.Name == "" {
		return fmt.Errorf("group: %q cannot stand in an entry", a.Name)
	}
	return replace(from, to, fmt.Sprintf("%s:x:%d:", a.Name, a.GID), a.Name, fmt.Sprint(a.GID))
}

// replace writes a file with an entry, and the lines of another file with neither
// its name nor its id. A missing file has no lines.
func replace(from, to, entry, name, id string) error {
	existing, err := os.ReadFile(from)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var lines strings.Builder
	for line := range strings.Lines(string(existing)) {
		line = strings.TrimRight(line, "\n")
		fields := strings.Split(line, ":")
		if line != "" && fields[0] != name && (len(fields) < 3 || fields[2] != id) {
			lines.WriteString(line + "\n")
		}
	}
	lines.WriteString(entry + "\n")
	temporary, err := os.CreateTemp(filepath.Dir(to), ".entries-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, written := temporary.WriteString(lines.String())
	if err := errors.Join(written, temporary.Chmod(0o644), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), to)
}
