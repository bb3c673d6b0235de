package sshd

import (
	"math"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"

	"workspaced/internal/process"
)

// The payloads of channel requests (RFC 4254). A payload that does not parse, or
// holds what no system call takes, is refused.

func parseString(payload []byte) (string, bool) {
	var message struct{ Text string }
	if ssh.Unmarshal(payload, &message) != nil || strings.ContainsRune(message.Text, 0) {
		return "", false
	}
	return message.Text, true
}

func parseEnv(payload []byte) (name, value string, ok bool) {
	var message struct{ Name, Value string }
	if ssh.Unmarshal(payload, &message) != nil || message.Name == "" ||
		strings.ContainsAny(message.Name, "=\x00") || strings.ContainsRune(message.Value, 0) {
		return "", "", false
	}
	return message.Name, message.Value, true
}

func parseTerminal(payload []byte) (term string, size process.Size, ok bool) {
	var message struct {
		Term                      string
		Cols, Rows, Width, Height uint32
		Modes                     string
	}
	if ssh.Unmarshal(payload, &message) != nil || strings.ContainsRune(message.Term, 0) {
		return "", size, false
	}
	return message.Term, sizeOf(message.Cols, message.Rows), true
}

func parseWindow(payload []byte) (size process.Size, ok bool) {
	var message struct{ Cols, Rows, Width, Height uint32 }
	if ssh.Unmarshal(payload, &message) != nil {
		return size, false
	}
	return sizeOf(message.Cols, message.Rows), true
}

func sizeOf(cols, rows uint32) process.Size {
	if cols == 0 {
		cols = 80
	}
	if rows == 0 {
		rows = 24
	}
	return process.Size{Cols: uint16(min(cols, math.MaxUint16)), Rows: uint16(min(rows, math.MaxUint16))}
}

func parseSignal(payload []byte) (syscall.Signal, bool) {
	name, ok := parseString(payload)
	if !ok {
		return 0, false
	}
	signal, found := signals[strings.TrimPrefix(name, "SIG")]
	return signal, found
}
