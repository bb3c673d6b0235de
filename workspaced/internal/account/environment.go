package account

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

const (
	// Prefix of this program's own variables; children never get them.
	Prefix = "WORKSPACED_"
	// BusyVariable names the folder of busy files to children.
	BusyVariable = "WORKSPACE_BUSY_DIR"

	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Environment is the base of the environment of children.
type Environment struct {
	mu   sync.Mutex
	base map[string]string

	remembering *Account // whose home has the remembered variables
	remembered  map[string]string
}

// NewEnvironment returns a base made of "name=value" strings, without this
// program's own variables.
func NewEnvironment(variables []string) *Environment {
	base := make(map[string]string, len(variables))
	for _, one := range variables {
		name, value, found := strings.Cut(one, "=")
		if found && name != "" && !strings.HasPrefix(name, Prefix) {
			base[name] = value
		}
	}
	return &Environment{base: base}
}

// Set adds variables for later children.
func (e *Environment) Set(variables map[string]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, value := range variables {
		if validName(name) && !strings.HasPrefix(name, Prefix) {
			e.base[name] = value
		}
	}
}

// All returns a copy of the base.
func (e *Environment) All() map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.base)
}

// For returns the variables of a process of an account, sorted. What the caller
// brings wins over everything else.
func (e *Environment) For(a Account, brought map[string]string) []string {
	all := e.All()
	all["HOME"], all["USER"], all["LOGNAME"] = a.Home, a.Name, a.Name
	if a.Shell != "" {
		all["SHELL"] = a.Shell
	}
	if all["TMPDIR"] == "" {
		all["TMPDIR"] = os.TempDir()
	}
	path := all["PATH"]
	if path == "" {
		path = defaultPath
	}
	local := filepath.Join(a.Home, ".local", "bin")
	if !slices.Contains(filepath.SplitList(path), local) {
		path = local + ":" + path
	}
	all["PATH"] = path
	for name, value := range brought {
		if validName(name) {
			all[name] = value
		}
	}
	variables := make([]string, 0, len(all))
	for name, value := range all {
		variables = append(variables, name+"="+value)
	}
	slices.Sort(variables)
	return variables
}

func validName(name string) bool {
	return name != "" && !strings.ContainsAny(name, "=\x00")
}
