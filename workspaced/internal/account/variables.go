package account

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// maxVariables bounds the file of variables: /init accepts as much.
const maxVariables = 1 << 20

// VariablesFile returns the file of a home with the variables that the sandbox was
// created with.
func VariablesFile(home string) string {
	return filepath.Join(home, ".local", "share", "workspaced", "variables.json")
}

// Restore sets the variables that were remembered in an account's home, and has later
// ones remembered there: a paused sandbox has them when it is resumed.
func (e *Environment) Restore(a Account) error {
	e.remembering = &a
	err := a.As(func() error {
		file, err := os.OpenFile(VariablesFile(a.Home), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file", file.Name())
		}
		return json.NewDecoder(io.LimitReader(file, maxVariables)).Decode(&e.remembered)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	e.Set(e.remembered)
	return err
}

// Remember sets variables for later children, and for those after a pause.
func (e *Environment) Remember(variables map[string]string) error {
	e.Set(variables)
	if e.remembering == nil || len(variables) == 0 {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.remembered == nil {
		e.remembered = map[string]string{}
	}
	for name, value := range variables {
		e.remembered[name] = value
	}
	document, err := json.Marshal(e.remembered)
	if err != nil {
		return err
	}
	if len(document) > maxVariables {
		return fmt.Errorf("more than %d bytes of variables", maxVariables)
	}
	path := VariablesFile(e.remembering.Home)
	return e.remembering.As(func() error {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		temporary, err := os.CreateTemp(filepath.Dir(path), ".variables") // with mode 0600
		if err != nil {
			return err
		}
		_, err = temporary.Write(document)
		if err = errors.Join(err, temporary.Close()); err == nil {
			err = os.Rename(temporary.Name(), path)
		}
		if err != nil {
			_ = os.Remove(temporary.Name())
		}
		return err
	})
}
