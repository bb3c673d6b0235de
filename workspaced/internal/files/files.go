// Package files serves the contents of files over HTTP: downloads with ranges,
// conditions and compression, uploads that replace a file at once.
package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"syscall"

	"workspaced/internal/access"
	"workspaced/internal/account"
)

var (
	errBadRequest  = errors.New("bad request")
	errUnsupported = errors.New("not supported")
)

// badPath is a path that cannot be used as a file.
type badPath struct{ path, why string }

func (b badPath) Error() string { return "path '" + b.path + "' " + b.why }

// Handler serves /files and /files/compose.
type Handler struct {
	accounts *account.Directory
	// uploads and packing are places: each holds a buffer.
	uploads chan struct{}
	packing chan struct{}
}

// What runs at once; the rest waits. Plain downloads hold no buffer.
const (
	maxUploads = 32
	maxPacking = 8
)

// NewHandler returns a handler.
func NewHandler(d *account.Directory) *Handler {
	return &Handler{d, make(chan struct{}, maxUploads), make(chan struct{}, maxPacking)}
}

// take waits for a place, and returns the function to leave it.
func take(ctx context.Context, places chan struct{}) (leave func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// ServeHTTP serves a request. Signatures of links (signature,
// signature_expiration) were checked by the gateway; here the token counts.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/files/compose" {
		h.compose(w, r)
		return
	}
	query := r.URL.Query()
	name := query.Get("username")
	if name == "" {
		name, _, _ = r.BasicAuth()
	}
	who, err := h.accounts.Find(name)
	if err != nil {
		access.WriteError(w, http.StatusUnauthorized, err.Error())
		return
	}
	path := query.Get("path")
	if strings.ContainsRune(path, 0) {
		access.WriteError(w, http.StatusBadRequest, "a NUL byte in the path")
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		h.download(w, r, who, who.Resolve(path))
	case http.MethodPost:
		h.upload(w, r, who, path)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		access.WriteError(w, http.StatusMethodNotAllowed, "use GET or POST")
	}
}

// answer writes the HTTP error for one of the file system.
func answer(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	var tooLarge *http.MaxBytesError
	var bad badPath
	switch {
	case errors.Is(err, fs.ErrNotExist):
		status = http.StatusNotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		status = http.StatusForbidden
	case errors.As(err, &bad), errors.Is(err, errBadRequest), errors.Is(err, syscall.ENOTDIR),
		errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENAMETOOLONG),
		errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.EINVAL):
		status = http.StatusBadRequest
	case errors.Is(err, errUnsupported), errors.Is(err, syscall.ENOTSUP):
		status = http.StatusBadRequest
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		status = http.StatusInsufficientStorage
		err = fmt.Errorf("not enough disk space: %w", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		status = http.StatusRequestTimeout
	case errors.As(err, &tooLarge):
		status = http.StatusRequestEntityTooLarge
	}
	access.WriteError(w, status, err.Error())
}
