package files

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"workspaced/internal/access"
	"workspaced/internal/account"
)

// download answers GET and HEAD of /files.
func (h *Handler) download(w http.ResponseWriter, r *http.Request, who account.Account, path string) {
	coding, ok := negotiate(r.Header.Values("Accept-Encoding"))
	if !ok {
		access.WriteError(w, http.StatusNotAcceptable, "no acceptable encoding; supported: identity, gzip")
		return
	}
	file, info, err := open(who, path)
	if err != nil {
		answer(w, err)
		return
	}
	defer file.Close()
	if (ofProcesses(file) || h.hasVariables(info)) && !access.Granted(r.Context(), access.ScopeAPI) {
		access.WriteError(w, http.StatusForbidden, "the token does not allow to read variables")
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": filepath.Base(path)}))
	header.Set("Cache-Control", "private, no-cache")
	header.Set("Vary", "Accept-Encoding")
	tag := entityTag(info)
	// A compressed body has no ranges: its length is not known.
	if coding == "gzip" && r.Header.Get("Range") == "" && r.Method == http.MethodGet {
		header.Set("ETag", strings.TrimSuffix(tag, `"`)+`-gzip"`)
		if r.Header.Get("If-None-Match") == header.Get("ETag") {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		leave, err := take(r.Context(), h.packing)
		if err != nil {
			return // the caller is gone
		}
		defer leave()
		header.Set("Content-Encoding", "gzip")
		header.Set("Last-Modified", info.ModTime().UTC().Format(http.TimeFormat))
		compressed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		if _, err := io.Copy(compressed, file); err == nil {
			_ = compressed.Close()
		} else {
			panic(http.ErrAbortHandler) // a truncated body must not look complete
		}
		return
	}
	if ofKernel(file) {
		stream(w, r, file)
		return
	}
	header.Set("ETag", tag)
	http.ServeContent(w, r, "", info.ModTime(), file)
}

// stream answers with a file that the kernel makes while it is read: its size is not
// known, so ranges are not served.
func stream(w http.ResponseWriter, r *http.Request, file *os.File) {
	first := make([]byte, 512)
	n, err := file.Read(first)
	if err != nil && err != io.EOF {
		answer(w, err)
		return
	}
	if r.Method == http.MethodHead {
		return
	}
	if _, err := io.Copy(w, io.MultiReader(bytes.NewReader(first[:n]), file)); err != nil {
		panic(http.ErrAbortHandler) // a truncated body must not look complete
	}
}

// ofKernel reports whether a file is of the kernel, which tells a wrong size or none.
func ofKernel(file *os.File) bool {
	var system unix.Statfs_t
	if unix.Fstatfs(int(file.Fd()), &system) != nil {
		return false
	}
	switch system.Type {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC:
		return true
	}
	return false
}

// ofProcesses reports whether a file is one of the kernel about processes, where their
// variables are too.
func ofProcesses(file *os.File) bool {
	var system unix.Statfs_t
	return unix.Fstatfs(int(file.Fd()), &system) != nil || system.Type == unix.PROC_SUPER_MAGIC
}

// hasVariables reports whether a file is the one with the sandbox's variables.
func (h *Handler) hasVariables(info fs.FileInfo) bool {
	variables, err := os.Stat(account.VariablesFile(h.accounts.Self().Home))
	return err == nil && os.SameFile(info, variables)
}

// ofThisProgram reports whether a file is one of the kernel about this program itself.
func ofThisProgram(file *os.File) bool {
	if !ofProcesses(file) {
		return false
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	own := fmt.Sprintf("/proc/%d/", os.Getpid())
	return err != nil || strings.HasPrefix(path, own) || strings.HasPrefix(path, "/proc/self/")
}

// open opens a regular file. It does not wait for the other end of a FIFO.
func open(who account.Account, path string) (*os.File, fs.FileInfo, error) {
	var file *os.File
	err := who.As(func() (err error) {
		file, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = badPath{path, "is a directory"}
	} else if err == nil && !info.Mode().IsRegular() {
		err = badPath{path, "is not a regular file"}
	} else if err == nil && ofThisProgram(file) {
		err = fs.ErrPermission
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

func entityTag(info fs.FileInfo) string {
	inode := uint64(0)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = stat.Ino
	}
	return fmt.Sprintf(`"%x-%x-%x"`, info.ModTime().UnixNano(), info.Size(), inode)
}

// negotiate chooses a coding. Gzip is used for callers that name it alone or rank
// it above identity: HTTP libraries list it by default, and compressing a large file
// for them would cost more than it saves.
func negotiate(values []string) (coding string, ok bool) {
	weights := map[string]float64{}
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			name, parameters, _ := strings.Cut(strings.TrimSpace(part), ";")
			name = strings.ToLower(strings.TrimSpace(name))
			if name == "" {
				continue
			}
			weight := 1.0
			if text, found := strings.CutPrefix(strings.TrimSpace(parameters), "q="); found {
				parsed, err := strconv.ParseFloat(text, 64)
				if err != nil || !(parsed >= 0 && parsed <= 1) {
					parsed = 0
				}
				weight = parsed
			}
			weights[name] = weight
		}
	}
	anything, wildcard := weights["*"]
	gzipWeight, named := weights["gzip"]
	if !named && wildcard {
		gzipWeight = anything
	}
	identity, identityNamed := weights["identity"]
	if !identityNamed {
		identity = 1
		if wildcard && anything == 0 {
			identity = 0
		}
	}
	alone := named && len(weights) == 1
	switch {
	case gzipWeight > 0 && (alone || identity == 0 || identityNamed && gzipWeight > identity):
		return "gzip", true
	case identity > 0:
		return "identity", true
	}
	return "", false
}
