package account

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func directory(t *testing.T, passwd string) *Directory {
	t.Helper()
	path := filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(path, []byte(passwd), 0o644); err != nil {
		t.Fatal(err)
	}
	return NewDirectory(path, "ada", "/home/ada")
}

func TestAUIDWithoutAnEntry(t *testing.T) {
	d := directory(t, "someone:x:54321:54321::/home/someone:/bin/sh\n")
	a := d.Self()
	if a.Name != "ada" || a.Home != "/home/ada" || a.Shell == "" || a.UID != uint32(os.Geteuid()) {
		t.Fatalf("%+v", a)
	}
	for _, name := range []string{"", "ada", "user", strconv.Itoa(os.Geteuid())} {
		if got, err := d.Find(name); err != nil || got != a {
			t.Errorf("%q: %+v %v", name, got, err)
		}
	}
	if _, err := d.Find("nobody-here"); !errors.Is(err, ErrUnknown) {
		t.Fatal(err)
	}
	_, err := d.Find("someone")
	if os.Geteuid() == 0 && err != nil || os.Geteuid() != 0 && !errors.Is(err, ErrUnknown) {
		t.Fatalf("another user: %v", err)
	}
}

func TestAnEntryOfTheImage(t *testing.T) {
	id := strconv.Itoa(os.Geteuid())
	d := directory(t, "# comment\nbad line\nbob:x:"+id+":7:Bob:/home/bob:/usr/sbin/nologin\n")
	if a := d.Self(); a.Name != "bob" || a.Home != "/home/ada" || strings.Contains(a.Shell, "nologin") {
		t.Fatalf("%+v", a)
	}
}

func TestResolve(t *testing.T) {
	a := Account{Home: "/home/ada"}
	for path, want := range map[string]string{
		"": "/home/ada", "~": "/home/ada", "~/x": "/home/ada/x", "x/../y": "/home/ada/y", "/etc//x/": "/etc/x",
		"../../etc": "/etc", "~bob": "/home/ada/~bob", ".": "/home/ada",
	} {
		if got := a.Resolve(path); got != want {
			t.Errorf("%q: %q", path, got)
		}
	}
}

func FuzzResolve(f *testing.F) {
	f.Add("~/../x")
	f.Fuzz(func(t *testing.T, path string) {
		got := Account{Home: "/home/ada"}.Resolve(path)
		if !filepath.IsAbs(got) || filepath.Clean(got) != got {
			t.Fatalf("%q: %q", path, got)
		}
	})
}

func TestWriteEntry(t *testing.T) {
	folder := t.TempDir()
	from, to := filepath.Join(folder, "passwd"), filepath.Join(folder, "out")
	if err := os.WriteFile(from, []byte("root:x:0:0::/root:/bin/sh\nold:x:1000:1000::/old:/bin/sh\nada:x:77:77::/x:/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteEntry(from, to, Account{Name: "ada", UID: 1000, GID: 100, Home: "/home/ada", Shell: "/bin/sh"}); err != nil {
		t.Fatal(err)
	}
	raw, _ := os.ReadFile(to)
	if string(raw) != "root:x:0:0::/root:/bin/sh\nada:x:1000:100::/home/ada:/bin/sh\n" {
		t.Fatalf("%q", raw)
	}
	if err := WriteEntry(from, to, Account{Name: "ada", UID: 1000, Home: "/home/ada"}); err != nil {
		t.Fatal(err)
	}
	if raw, _ := os.ReadFile(to); !strings.HasSuffix(string(raw), ":/home/ada:"+usableShell("")+"\n") {
		t.Fatalf("not the shell of the image: %q", raw)
	}
	if err := WriteEntry(from, to, Account{Name: "a:b"}); err == nil {
		t.Fatal("a name with a colon")
	}
}

func TestWriteGroup(t *testing.T) {
	folder := t.TempDir()
	from, to := filepath.Join(folder, "group"), filepath.Join(folder, "out")
	ada := Account{Name: "ada", UID: 1000, GID: 100}
	if err := WriteGroup(from, to, ada); err != nil {
		t.Fatalf("an image without a group file: %v", err)
	}
	if raw, _ := os.ReadFile(to); string(raw) != "ada:x:100:\n" {
		t.Fatalf("%q", raw)
	}
	if err := os.WriteFile(from, []byte("root:x:0:\nusers:x:100:bob\nada:x:7:\n# note\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteGroup(from, to, ada); err != nil {
		t.Fatal(err)
	}
	if raw, _ := os.ReadFile(to); string(raw) != "root:x:0:\n# note\nada:x:100:\n" {
		t.Fatalf("%q", raw)
	}
	if err := WriteGroup(from, to, Account{Name: "a\nb"}); err == nil {
		t.Fatal("a name with a line break")
	}
}

func TestEnvironment(t *testing.T) {
	e := NewEnvironment([]string{"A=1", "WORKSPACED_KEYS=/x", "broken", "=x", "PATH=/bin"})
	e.Set(map[string]string{"B": "2", "WORKSPACED_X": "no", "a=b": "no"})
	got := e.For(Account{Name: "ada", Home: "/h"}, map[string]string{"A": "3", "": "no"})
	for _, want := range []string{"A=3", "B=2", "HOME=/h", "LOGNAME=ada", "PATH=/h/.local/bin:/bin", "USER=ada"} {
		if !strings.Contains("\n"+strings.Join(got, "\n")+"\n", "\n"+want+"\n") {
			t.Errorf("%s is missing in %v", want, got)
		}
	}
	if strings.Contains(strings.Join(got, "\n"), "WORKSPACED_") {
		t.Fatal(got)
	}
}

func TestVariablesAreRestoredFromTheHome(t *testing.T) {
	a := Account{Name: "ada", UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Home: t.TempDir()}
	restored := func() *Environment {
		e := NewEnvironment([]string{"A=1"})
		if err := e.Restore(a); err != nil {
			t.Fatal(err)
		}
		return e
	}
	for _, variables := range []map[string]string{{"A": "2", "B": "3"}, {"B": "4", "WORKSPACED_X": "no"}, nil} {
		if err := restored().Remember(variables); err != nil {
			t.Fatal(err)
		}
	}
	if all := restored().All(); len(all) != 2 || all["A"] != "2" || all["B"] != "4" {
		t.Fatal(all)
	}
	path := VariablesFile(a.Home)
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Fatal(info, err)
	}
	if err := restored().Remember(map[string]string{"C": strings.Repeat("x", maxVariables)}); err == nil {
		t.Fatal("too many variables were remembered")
	}
	// What the sandbox itself did to the file does not keep it from starting.
	for _, spoil := range []func() error{
		func() error { return os.WriteFile(path, []byte("{"), 0o600) },
		func() error { return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path)) },
		func() error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		e := NewEnvironment([]string{"A=1"})
		if err := e.Restore(a); err == nil || len(e.All()) != 1 {
			t.Fatal(err, e.All())
		}
	}
}

func TestAsChangesTheOwnerOfFilesAndOnlyThere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root can become another user")
	}
	folder, err := os.MkdirTemp("/tmp", "as-") // others may enter it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	a := Account{UID: 54321, GID: 54322}
	if err := os.Chown(folder, 54321, 0); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "file")
	if err := a.As(func() error { return os.WriteFile(path, nil, 0o600) }); err != nil {
		t.Fatal(err)
	}
	info, _ := os.Stat(path)
	stat := info.Sys().(*syscall.Stat_t)
	if stat.Uid != 54321 || stat.Gid != 54322 {
		t.Fatalf("%d:%d", stat.Uid, stat.Gid)
	}
	secret := filepath.Join(folder, "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, operation := range map[string]func() error{
		"read":         func() error { _, err := os.ReadFile(secret); return err },
		"through link": func() error { return os.WriteFile("/etc/workspaced-test", nil, 0o644) },
	} {
		if err := a.As(operation); !errors.Is(err, os.ErrPermission) {
			t.Errorf("%s of root's: %v", name, err)
		}
	}
	if _, err := os.ReadFile(secret); err != nil {
		t.Fatalf("this thread lost its rights: %v", err)
	}
}

func TestWriteProfileLeavesAProfile(t *testing.T) {
	a := Account{Home: t.TempDir(), UID: uint32(os.Geteuid())}
	path := filepath.Join(a.Home, ".profile")
	if err := WriteProfile(a); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteProfile(a); err != nil {
		t.Fatal(err)
	}
	if raw, _ := os.ReadFile(path); string(raw) != "mine" {
		t.Fatalf("%q", raw)
	}
}

func TestNames(t *testing.T) {
	d := directory(t, "bob:x:54321:7::/:/bin/sh\n")
	if err := os.WriteFile(filepath.Join(filepath.Dir(d.passwd), "group"), []byte("staff:x:54322:\nbroken\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for ids, want := range map[[2]uint32][2]string{
		{54321, 54322}: {"bob", "staff"}, {999, 998}: {"999", "998"},
		{uint32(os.Geteuid()), uint32(os.Getegid())}: {"ada", "ada"},
	} {
		if owner, group := d.Names(ids[0], ids[1]); owner != want[0] || group != want[1] {
			t.Errorf("%v: %s %s", ids, owner, group)
		}
	}
}
