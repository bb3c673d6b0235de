package sshd

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"
)

func FuzzPayloads(f *testing.F) {
	f.Add(ssh.Marshal(struct{ Text string }{"ls -l"}))
	f.Add(ssh.Marshal(struct{ Name, Value string }{"LANG", "C"}))
	f.Add(ssh.Marshal(struct {
		Term                      string
		Cols, Rows, Width, Height uint32
		Modes                     string
	}{"xterm", 1 << 31, 0, 0, 0, ""}))
	f.Fuzz(func(t *testing.T, payload []byte) {
		if text, ok := parseString(payload); ok && strings.ContainsRune(text, 0) {
			t.Fatal("NUL")
		}
		if name, value, ok := parseEnv(payload); ok && (name == "" || strings.ContainsAny(name+value, "\x00") || strings.Contains(name, "=")) {
			t.Fatalf("%q=%q", name, value)
		}
		if _, size, ok := parseTerminal(payload); ok && (size.Cols == 0 || size.Rows == 0) {
			t.Fatalf("%v", size)
		}
		if size, ok := parseWindow(payload); ok && (size.Cols == 0 || size.Rows == 0) {
			t.Fatalf("%v", size)
		}
		if signal, ok := parseSignal(payload); ok && signal == 0 {
			t.Fatal("signal 0")
		}
	})
}

func TestSignals(t *testing.T) {
	for text, want := range map[string]syscall.Signal{"TERM": syscall.SIGTERM, "SIGKILL": syscall.SIGKILL, "INT": syscall.SIGINT} {
		if got, ok := parseSignal(ssh.Marshal(struct{ Text string }{text})); !ok || got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if _, ok := parseSignal(ssh.Marshal(struct{ Text string }{"9"})); ok {
		t.Error("a number")
	}
	if signalName(syscall.SIGSEGV) != "SEGV" || signalName(syscall.Signal(40)) != "KILL" {
		t.Error("names")
	}
}

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.1.2.3": true, "::1": true, "[::1]": true, "": false,
		"0.0.0.0": false, "10.0.0.1": false, "localhost.example.com": false, "2130706433": false, "::ffff:10.0.0.1": false,
	} {
		if loopback(host) != want {
			t.Errorf("%q", host)
		}
	}
}
