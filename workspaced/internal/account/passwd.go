package account

import (
	"cmp"
	"fmt"
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
	existing, err := os.ReadFile(from)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("passwd: %w", err)
	}
	shell := a.Shell
	if shell == "" {
		shell = cmp.Or(usableShell(""), "/bin/sh")
	}
	var lines []string
	for line := range strings.Lines(string(existing)) {
		line = strings.TrimRight(line, "\n")
		if one, ok := ParseLine(line); ok && (one.UID == a.UID || one.Name == a.Name) {
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	lines = append(lines, fmt.Sprintf("%s:x:%d:%d::%s:%s", a.Name, a.UID, a.GID, a.Home, shell))
	temporary, err := os.CreateTemp(filepath.Dir(to), ".passwd-*")
	if err != nil {
		return fmt.Errorf("passwd: %w", err)
	}
	defer os.Remove(temporary.Name())
	if _, err := temporary.WriteString(strings.Join(lines, "\n") + "\n"); err != nil {
		temporary.Close()
		return fmt.Errorf("passwd: %w", err)
	}
	if err := temporary.Chmod(0o644); err != nil {
		temporary.Close()
		return fmt.Errorf("passwd: %w", err)
	}
	if err := temporary.Close(); err != nil {
		return fmt.Errorf("passwd: %w", err)
	}
	return os.Rename(temporary.Name(), to)
}
