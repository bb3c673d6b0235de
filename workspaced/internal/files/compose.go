package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"workspaced/internal/access"
	"workspaced/internal/account"
)

// maxSources bounds the files of one compose.
const maxSources = 10_000

// compose answers POST of /files/compose: several files become one, and are removed.
func (h *Handler) compose(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		access.WriteError(w, http.StatusMethodNotAllowed, "use POST")
		return
	}
	var request struct {
		Sources     []string `json:"source_paths"`
		Destination string   `json:"destination"`
		User        string   `json:"username"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&request); err != nil {
		answer(w, fmt.Errorf("%w: %w", errBadRequest, err))
		return
	}
	who, err := h.accounts.Find(request.User)
	if err != nil {
		access.WriteError(w, http.StatusUnauthorized, err.Error())
		return
	}
	if len(request.Sources) == 0 || len(request.Sources) > maxSources || request.Destination == "" {
		answer(w, fmt.Errorf("%w: between 1 and %d source_paths and a destination are needed", errBadRequest, maxSources))
		return
	}
	target := who.Resolve(request.Destination)
	sources := make([]string, len(request.Sources))
	for i, source := range request.Sources {
		sources[i] = who.Resolve(source)
	}
	if err := concatenate(who, sources, target); err != nil {
		answer(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(fileInfo{Path: target, Name: filepath.Base(target), Type: "file"})
}

// concatenate copies within the kernel where the file system can.
func concatenate(who account.Account, sources []string, target string) error {
	var place placement
	if err := who.As(func() (err error) { place, err = prepare(target, -1, false); return err }); err != nil {
		return err
	}
	defer place.file.Close()
	err := func() error {
		for _, source := range sources {
			file, _, err := open(who, source)
			if err != nil {
				return err
			}
			_, err = io.Copy(place.file, file)
			file.Close()
			if err != nil {
				return err
			}
		}
		return nil
	}()
	if err := place.publish(who, err); err != nil || place.temporary == "" {
		return err
	}
	return who.As(func() error {
		for _, source := range sources {
			if source == place.target {
				continue
			}
			if err := os.Remove(source); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	})
}
