package files

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"workspaced/internal/account"
)

const (
	// idle is how long an upload may send nothing.
	idle = time.Minute
	// maxParts bounds the files of one upload.
	maxParts = 1000
)

type fileInfo struct {
	Path     string            `json:"path"`
	Name     string            `json:"name"`
	Type     string            `json:"type"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// upload answers POST of /files: a multipart form with parts "file", or the bytes
// of one file.
func (h *Handler) upload(w http.ResponseWriter, r *http.Request, who account.Account, path string) {
	metadata, err := metadataOf(r.Header)
	if err != nil {
		answer(w, err)
		return
	}
	leave, err := take(r.Context(), h.uploads)
	if err != nil {
		return // the caller is gone
	}
	defer leave()
	// Forms and gzip read in pieces of 4 KiB.
	body := io.Reader(bufio.NewReaderSize(&timedBody{r.Context(), r.Body, http.NewResponseController(w)}, 64<<10))
	switch coding := strings.ToLower(r.Header.Get("Content-Encoding")); coding {
	case "", "identity":
	case "gzip":
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			answer(w, fmt.Errorf("%w: the body is not gzip: %w", errBadRequest, err))
			return
		}
		body = unpacked
	default:
		answer(w, fmt.Errorf("%w: Content-Encoding %q; use gzip or none", errBadRequest, coding))
		return
	}
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		kind = "application/octet-stream"
	}
	var results []fileInfo
	if kind == "multipart/form-data" {
		results, err = receiveForm(who, body, parameters["boundary"], path, metadata)
	} else if path == "" {
		err = fmt.Errorf("%w: the query parameter 'path' is required", errBadRequest)
	} else {
		size := int64(-1)
		if r.Header.Get("Content-Encoding") == "" {
			size = r.ContentLength
		}
		results, err = receive(who, body, path, size, metadata, nil)
	}
	if err != nil {
		answer(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(results)
}

// receiveForm stores every part "file". The path of the query wins over the name
// of the part if it is the only one.
func receiveForm(who account.Account, body io.Reader, boundary, path string, metadata map[string]string) ([]fileInfo, error) {
	if boundary == "" {
		return nil, fmt.Errorf("%w: a multipart form without a boundary", errBadRequest)
	}
	form := multipart.NewReader(body, boundary)
	results := []fileInfo{}
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errBadRequest, err)
		}
		if part.FormName() != "file" {
			continue
		}
		target := path
		if target == "" {
			target = partPath(part)
		} else if len(results) > 0 {
			return nil, fmt.Errorf("%w: several files for one path", errBadRequest)
		}
		if target == "" || strings.ContainsRune(target, 0) {
			return nil, fmt.Errorf("%w: a part without a usable file name", errBadRequest)
		}
		if len(results) >= maxParts {
			return nil, fmt.Errorf("%w: more than %d files", errBadRequest, maxParts)
		}
		if results, err = receive(who, part, target, -1, metadata, results); err != nil {
			return nil, err
		}
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("%w: no part named 'file'", errBadRequest)
	}
	return results, nil
}

// partPath returns the whole file name of a part; the library's own accessor keeps
// its last element only.
func partPath(part *multipart.Part) string {
	_, parameters, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return ""
	}
	return parameters["filename"]
}

func receive(who account.Account, body io.Reader, path string, size int64, metadata map[string]string, results []fileInfo) ([]fileInfo, error) {
	target := who.Resolve(path)
	if err := store(who, target, body, size, metadata); err != nil {
		return nil, err
	}
	return append(results, fileInfo{target, filepath.Base(target), "file", metadata}), nil
}

// timedBody is a body that may pause for a while, but not for ever.
type timedBody struct {
	ctx        context.Context
	body       io.Reader
	controller *http.ResponseController
}

func (p *timedBody) Read(into []byte) (int, error) {
	if p.ctx.Err() != nil {
		return 0, context.Cause(p.ctx)
	}
	_ = p.controller.SetReadDeadline(time.Now().Add(idle))
	count, err := p.body.Read(into)
	if errors.Is(err, io.EOF) {
		// Not after a failure: the server would wait for the rest of the body.
		_ = p.controller.SetReadDeadline(time.Time{})
	}
	return count, err
}

// metadataOf returns the metadata of an upload's headers.
func metadataOf(header http.Header) (map[string]string, error) {
	const prefix, limit, longest = "X-Metadata-", 4096, 246
	metadata, total := map[string]string{}, 0
	for name, values := range header {
		key, found := strings.CutPrefix(http.CanonicalHeaderKey(name), prefix)
		if !found {
			continue
		}
		key = strings.ToLower(key)
		if key == "" || len(key) > longest || !printable(key) || !printable(values[0]) {
			return nil, fmt.Errorf("%w: metadata %q must be printable ASCII of at most %d characters", errBadRequest, key, longest)
		}
		metadata[key] = values[0]
		total += len(prefixXattr) + len(key) + len(values[0])
	}
	if total > limit {
		return nil, fmt.Errorf("%w: metadata of more than %d bytes", errBadRequest, limit)
	}
	return metadata, nil
}

func printable(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r < 0x20 || r > 0x7e }) < 0
}
