package files

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"workspaced/internal/access"
	"workspaced/internal/account"
	"workspaced/internal/token"
)

type site struct {
	*Handler
	home string
}

func newSite(t testing.TB) site {
	t.Helper()
	home := t.TempDir()
	return site{NewHandler(account.NewDirectory("/nonexistent", "user", home)), home}
}

func (s site) do(method, path string, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	target := "/files"
	if path != "" {
		target += "?path=" + url.QueryEscape(path)
	}
	r := httptest.NewRequest(method, target, body)
	r = r.WithContext(access.WithClaims(r.Context(), token.Claims{Scope: access.ScopeAPI}))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func (s site) put(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(s.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func (s site) holds(t *testing.T, name, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(s.home, name))
	if err != nil || string(got) != want {
		t.Fatalf("%s holds %q, %v", name, got, err)
	}
}

// clean fails if an upload left its temporary file behind.
func (s site) clean(t *testing.T) {
	t.Helper()
	_ = filepath.WalkDir(s.home, func(path string, _ os.DirEntry, _ error) error {
		if strings.HasSuffix(path, ".part") {
			t.Errorf("%s was left", path)
		}
		return nil
	})
}

func TestDownload(t *testing.T) {
	s := newSite(t)
	s.put(t, "a.txt", "0123456789")
	whole := s.do("GET", "a.txt", nil)
	tag := whole.Header().Get("ETag")
	if whole.Code != 200 || whole.Body.String() != "0123456789" || tag == "" || whole.Header().Get("Content-Disposition") != "attachment; filename=a.txt" {
		t.Fatalf("%d %q %v", whole.Code, whole.Body, whole.Header())
	}
	for name, one := range map[string]struct {
		headers []string
		code    int
		body    string
	}{
		"range":              {[]string{"Range", "bytes=2-4"}, 206, "234"},
		"last bytes":         {[]string{"Range", "bytes=-3"}, 206, "789"},
		"beyond":             {[]string{"Range", "bytes=50-"}, 416, "invalid range: failed to overlap\n"},
		"same tag":           {[]string{"If-None-Match", tag}, 304, ""},
		"other tag":          {[]string{"If-None-Match", `"x"`}, 200, "0123456789"},
		"range of this":      {[]string{"Range", "bytes=0-0", "If-Range", tag}, 206, "0"},
		"range of another":   {[]string{"Range", "bytes=0-0", "If-Range", `"x"`}, 200, "0123456789"},
		"must match":         {[]string{"If-Match", `"x"`}, 412, ""},
		"a library's list":   {[]string{"Accept-Encoding", "gzip, deflate, br"}, 200, "0123456789"},
		"nothing acceptable": {[]string{"Accept-Encoding", "br, identity;q=0"}, 406, ""},
	} {
		w := s.do("GET", "a.txt", nil, one.headers...)
		if w.Code != one.code || one.body != "" && w.Body.String() != one.body {
			t.Errorf("%s: %d %q", name, w.Code, w.Body)
		}
	}
	packed := s.do("GET", "a.txt", nil, "Accept-Encoding", "gzip")
	reader, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(reader); err != nil || string(got) != "0123456789" {
		t.Fatalf("%q %v", got, err)
	}
	if again := s.do("GET", "a.txt", nil, "Accept-Encoding", "gzip", "If-None-Match", packed.Header().Get("ETag")); again.Code != 304 {
		t.Fatalf("%d", again.Code)
	}
	if w := s.do("HEAD", "a.txt", nil); w.Code != 200 || w.Header().Get("Content-Length") != "10" || w.Body.Len() != 0 {
		t.Fatalf("HEAD: %d %v", w.Code, w.Header())
	}
}

// The kernel tells no size of such files, and many of them cannot be sought in.
func TestDownloadOfFilesThatTheKernelMakes(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{
		"/proc/sys/kernel/random/boot_id", "/proc/cpuinfo", "/proc/meminfo", "/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled",
	} {
		want, err := os.ReadFile(path)
		if err != nil {
			continue // this machine does not have it
		}
		first, _, _ := bytes.Cut(want, []byte(" "))
		for _, headers := range [][]string{nil, {"Range", "bytes=0-3"}} {
			w := s.do("GET", path, nil, headers...)
			if w.Code != 200 || !bytes.HasPrefix(w.Body.Bytes(), first) || w.Header().Get("Content-Length") != "" {
				t.Errorf("%s %v: %d %q %v", path, headers, w.Code, w.Body, w.Header())
			}
		}
		if w := s.do("HEAD", path, nil); w.Code != 200 || w.Body.Len() != 0 {
			t.Errorf("HEAD of %s: %d %q", path, w.Code, w.Body)
		}
	}
}

func TestVariablesAreReadOnlyByThoseWhoMayStartProcesses(t *testing.T) {
	s := newSite(t)
	path := account.VariablesFile(s.home)
	s.put(t, ".local/share/workspaced/variables.json", `{"TOKEN":"x"}`)
	if err := os.Symlink(path, filepath.Join(s.home, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, "link"} {
		for scope, want := range map[string]int{access.ScopeAPI: 200, access.ScopeLook: 403} {
			r := httptest.NewRequest("GET", "/files?path="+url.QueryEscape(name), nil)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r.WithContext(access.WithClaims(r.Context(), token.Claims{Scope: scope})))
			if w.Code != want {
				t.Errorf("%s with %s: %d %s", name, scope, w.Code, w.Body)
			}
		}
	}
}

func TestDownloadRefusals(t *testing.T) {
	s := newSite(t)
	if err := syscall.Mkfifo(filepath.Join(s.home, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("loop", filepath.Join(s.home, "loop")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{".": 400, "nope": 404, "fifo": 400, "loop": 400, "a\x00b": 400, "/dev/zero": 400, strings.Repeat("x", 300): 400} {
		w := s.do("GET", path, nil)
		var answer struct {
			Code    int
			Message string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); w.Code != want || err != nil || answer.Code != want || answer.Message == "" {
			t.Errorf("%q: %d %s", path, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest("GET", "/files?path=x&username=nobody-here", nil)
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != 401 {
		t.Errorf("unknown user: %d", w.Code)
	}
	if w := s.do("DELETE", "x", nil); w.Code != 405 {
		t.Errorf("DELETE: %d", w.Code)
	}
}

func TestUpload(t *testing.T) {
	s := newSite(t)
	w := s.do("POST", "new/deep/a.txt", strings.NewReader("abc"), "Content-Type", "application/octet-stream")
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"name":"a.txt","type":"file"`) {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	s.holds(t, "new/deep/a.txt", "abc")
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, _ = writer.Write([]byte("packed"))
	writer.Close()
	if w := s.do("POST", "b", bytes.NewReader(packed.Bytes()), "Content-Encoding", "gzip"); w.Code != 200 {
		t.Fatal(w.Body)
	}
	s.holds(t, "b", "packed")
	if w := s.do("POST", "b", bytes.NewReader(packed.Bytes()[:packed.Len()-6]), "Content-Encoding", "gzip"); w.Code != 400 {
		t.Fatalf("a truncated body: %d %s", w.Code, w.Body)
	}
	s.holds(t, "b", "packed")
	if w := s.do("POST", "b", strings.NewReader("x"), "Content-Encoding", "br"); w.Code != 400 {
		t.Fatal(w.Code)
	}
	if w := s.do("POST", "", strings.NewReader("x"), "Content-Type", "application/octet-stream"); w.Code != 400 {
		t.Fatal(w.Code)
	}
	s.clean(t)
}

func form(t testing.TB, parts ...string) (io.Reader, string) {
	t.Helper()
	var body bytes.Buffer
	writer := multipart.NewWriter(&body)
	for i := 0; i < len(parts); i += 3 {
		header := map[string][]string{"Content-Disposition": {fmt.Sprintf(`form-data; name=%q; filename=%q`, parts[i], parts[i+1])}}
		part, err := writer.CreatePart(header)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = part.Write([]byte(parts[i+2]))
	}
	writer.Close()
	return &body, writer.FormDataContentType()
}

func TestUploadForm(t *testing.T) {
	s := newSite(t)
	body, kind := form(t, "other", "x", "ignored", "file", "one/1.txt", "1", "file", s.home+"/two.txt", "2")
	if w := s.do("POST", "", body, "Content-Type", kind); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	s.holds(t, "one/1.txt", "1")
	s.holds(t, "two.txt", "2")
	body, kind = form(t, "file", "name.txt", "by query")
	if w := s.do("POST", "target.txt", body, "Content-Type", kind); w.Code != 200 {
		t.Fatal(w.Body)
	}
	s.holds(t, "target.txt", "by query")
	for name, parts := range map[string][]string{"no file": {"other", "x", "x"}, "two for one path": {"file", "a", "1", "file", "b", "2"}} {
		body, kind := form(t, parts...)
		if w := s.do("POST", "target.txt", body, "Content-Type", kind); w.Code != 400 {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	if w := s.do("POST", "", strings.NewReader("--x\r\nbroken"), "Content-Type", "multipart/form-data; boundary=x"); w.Code != 400 {
		t.Errorf("broken: %d", w.Code)
	}
	s.clean(t)
}

func TestAnUploadReplacesAtOnce(t *testing.T) {
	s := newSite(t)
	path := s.put(t, "a", "old")
	if err := os.Chmod(path, 0o751); err != nil {
		t.Fatal(err)
	}
	open, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if w := s.do("POST", "a", strings.NewReader("new content")); w.Code != 200 {
		t.Fatal(w.Body)
	}
	if before, _ := io.ReadAll(open); string(before) != "old" {
		t.Fatalf("an open reader sees %q", before)
	}
	info, _ := os.Stat(path)
	if info.Mode().Perm() != 0o751 {
		t.Fatalf("mode %v", info.Mode())
	}
	// A body that breaks off leaves the old content.
	broken := io.MultiReader(strings.NewReader("half"), failing{})
	if w := s.do("POST", "a", broken); w.Code == 200 {
		t.Fatal("accepted")
	}
	s.holds(t, "a", "new content")
	s.clean(t)
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("connection lost") }

func TestUploadThroughLinksAndToDevices(t *testing.T) {
	s := newSite(t)
	s.put(t, "real/target", "old")
	for link, to := range map[string]string{"link": "real/target", "dangling": "real/fresh"} {
		if err := os.Symlink(to, filepath.Join(s.home, link)); err != nil {
			t.Fatal(err)
		}
		if w := s.do("POST", link, strings.NewReader("through "+link)); w.Code != 200 {
			t.Fatal(w.Body)
		}
		s.holds(t, to, "through "+link)
		if info, _ := os.Lstat(filepath.Join(s.home, link)); info.Mode()&os.ModeSymlink == 0 {
			t.Fatal("the link was replaced")
		}
	}
	if w := s.do("POST", "/dev/null", strings.NewReader("x")); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if info, _ := os.Stat("/dev/null"); info.Mode()&os.ModeDevice == 0 {
		t.Fatal("the device was replaced")
	}
	if w := s.do("POST", "real", strings.NewReader("x")); w.Code != 400 {
		t.Fatal(w.Code)
	}
	if w := s.do("POST", "real/target/below", strings.NewReader("x")); w.Code != 400 {
		t.Fatal(w.Code, w.Body)
	}
}

// While a link changes under an upload, the content goes to one of its targets or
// nowhere; the other files stay as they are.
func TestALinkThatChangesUnderUploads(t *testing.T) {
	s := newSite(t)
	s.put(t, "one", "1")
	s.put(t, "two", "2")
	link := filepath.Join(s.home, "link")
	if err := os.Symlink("one", link); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var flipping sync.WaitGroup
	flipping.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			fresh := filepath.Join(s.home, "fresh")
			_ = os.Symlink([]string{"one", "two"}[i%2], fresh)
			_ = os.Rename(fresh, link)
		}
	})
	for range 200 {
		if w := s.do("POST", "link", strings.NewReader("new")); w.Code != 200 {
			t.Fatal(w.Code, w.Body)
		}
		for _, name := range []string{"one", "two"} {
			if got, err := os.ReadFile(filepath.Join(s.home, name)); err != nil || len(got) != 1 && string(got) != "new" {
				t.Fatalf("%s holds %q, %v", name, got, err)
			}
		}
	}
	close(stop)
	flipping.Wait()
	s.clean(t)
}

func TestMetadata(t *testing.T) {
	s := newSite(t)
	if err := unix.Setxattr(s.put(t, "probe", ""), "user.e2b.probe", nil, 0); err != nil {
		t.Skip("this file system holds no extended attributes:", err)
	}
	read := func() string {
		var value [100]byte
		count, err := unix.Getxattr(filepath.Join(s.home, "a"), "user.e2b.key", value[:])
		if err != nil {
			return err.Error()
		}
		return string(value[:count])
	}
	if w := s.do("POST", "a", strings.NewReader("x"), "X-Metadata-Key", "value"); w.Code != 200 || !strings.Contains(w.Body.String(), `{"key":"value"}`) {
		t.Fatal(w.Code, w.Body)
	}
	if read() != "value" {
		t.Fatal(read())
	}
	if s.do("POST", "a", strings.NewReader("x")); read() == "value" {
		t.Fatal("an upload without metadata keeps the old")
	}
	for _, value := range []string{"\x7f", "ü", strings.Repeat("x", 5000)} {
		if w := s.do("POST", "a", strings.NewReader("x"), "X-Metadata-Key", value); w.Code != 400 {
			t.Errorf("%.10q: %d", value, w.Code)
		}
	}
}

func TestAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a small tmpfs is mounted")
	}
	s := newSite(t)
	disk := filepath.Join(s.home, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("cannot mount here:", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	if w := s.do("POST", "disk/a", strings.NewReader("old")); w.Code != 200 {
		t.Fatal(w.Body)
	}
	large := strings.Repeat("x", 2<<20)
	// Known length: refused before it is sent. Unknown: when the disk is full.
	if w := s.do("POST", "disk/a", strings.NewReader(large)); w.Code != 507 {
		t.Fatal(w.Code, w.Body)
	}
	if w := s.do("POST", "disk/a", io.MultiReader(strings.NewReader(large))); w.Code != 507 {
		t.Fatal(w.Code, w.Body)
	}
	s.holds(t, "disk/a", "old")
	s.clean(t)
}

func TestNobodyWritesAsAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root can become another user")
	}
	passwd := filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(passwd, []byte("bob:x:54321:54321::/tmp:/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp("/tmp", "files-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	h := NewHandler(account.NewDirectory(passwd, "root", folder))
	for path, want := range map[string]int{folder + "/bobs": 200, "/etc/workspaced-test": 403, "/root/x": 403} {
		r := httptest.NewRequest("POST", "/files?username=bob&path="+url.QueryEscape(path), strings.NewReader("x"))
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want || strings.Contains(w.Body.String(), ".part") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	info, err := os.Stat(folder + "/bobs")
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != 54321 {
		t.Fatalf("%v %v", info, err)
	}
	r := httptest.NewRequest("GET", "/files?username=bob&path=/etc/shadow", nil)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 403 {
		t.Fatalf("read as root: %d", w.Code)
	}
}

func TestCompose(t *testing.T) {
	s := newSite(t)
	one, two := s.put(t, "p1", "one "), s.put(t, "p2", "two")
	post := func(document string) int {
		r := httptest.NewRequest(http.MethodPost, "/files/compose", strings.NewReader(document))
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	if code := post(`{"source_paths":["p1","nope"],"destination":"out"}`); code != 404 {
		t.Fatal(code)
	}
	if code := post(`{"source_paths":["p1","p2"],"destination":"sub/out"}`); code != 200 {
		t.Fatal(code)
	}
	s.holds(t, "sub/out", "one two")
	for _, path := range []string{one, two} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there", path)
		}
	}
	if code := post(`{`); code != 400 {
		t.Fatal(code)
	}
	if code := post(`{"source_paths":[],"destination":"x"}`); code != 400 {
		t.Fatal(code)
	}
	s.clean(t)
}

func FuzzNegotiate(f *testing.F) {
	for _, seed := range []string{"", "gzip", "gzip, deflate", "identity;q=0", "*;q=0", "gzip;q=1, identity;q=0.5", "gzip;q=NaN"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		coding, ok := negotiate([]string{header})
		if ok != (coding == "gzip" || coding == "identity") {
			t.Fatalf("%q: %q %v", header, coding, ok)
		}
	})
}

func FuzzRange(f *testing.F) {
	s := newSite(f)
	content := "0123456789"
	s.put(f, "a", content)
	f.Add("bytes=0-1,5-")
	f.Add("bytes=-0")
	f.Fuzz(func(t *testing.T, header string) {
		w := s.do("GET", "a", nil, "Range", header)
		if w.Code == 206 && !strings.HasPrefix(w.Header().Get("Content-Type"), "multipart") && !strings.Contains(content, w.Body.String()) {
			t.Fatalf("%q: %q", header, w.Body)
		}
		if w.Code != 200 && w.Code != 206 && w.Code != 416 {
			t.Fatalf("%q: %d", header, w.Code)
		}
	})
}

func FuzzMultipart(f *testing.F) {
	body, kind := form(f, "file", "a/b", "x")
	raw, _ := io.ReadAll(body)
	f.Add(raw, kind)
	f.Add([]byte("--x\r\nContent-Disposition: form-data; name=file; filename=\"../x\"\r\n\r\ny\r\n--x--"), "multipart/form-data; boundary=x")
	f.Fuzz(func(t *testing.T, body []byte, kind string) {
		if strings.ContainsAny(kind, "\r\n\x00") {
			return
		}
		s := newSite(t)
		// A path of the query: what the fuzzer names is not written to.
		w := s.do("POST", "target", bytes.NewReader(body), "Content-Type", kind)
		if w.Code != 200 && w.Code != 400 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		s.clean(t)
	})
}

// pieces is a body of a MiB that comes in pieces, as the part of a form.
type pieces struct{ left int }

func (p *pieces) Read(into []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	count := min(len(into), 4096, p.left)
	p.left -= count
	return count, nil
}

// counted counts the writes to a file, and the bytes of them.
type counted struct{ writes, bytes int }

func (c *counted) Write(from []byte) (int, error) {
	c.writes++
	c.bytes += len(from)
	return len(from), nil
}

func TestSmallPiecesOfABodyAreWrittenTogether(t *testing.T) {
	var file counted
	if err := fill(&file, &pieces{1 << 20}); err != nil || file.bytes != 1<<20 {
		t.Fatal(file, err)
	}
	if file.writes > 8 {
		t.Fatalf("%d writes for a MiB", file.writes)
	}
}
