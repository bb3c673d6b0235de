// Podnetwork runs a command in a network namespace whose every connection is decided and carried elsewhere.
//
//	podnetwork --address 100.64.0.5 --relay SOCKET --inbound SOCKET -- COMMAND [ARGUMENT...]
//
// The namespace has a loopback and one interface with that address, on which a network stack in this process answers.
// For each connection it asks at the Unix socket of the relay: `tcp 192.0.2.1 443\n` is answered by `open`, `refuse`
// or `drop`, and an open connection carries its bytes from then on. Datagrams carry their length in two bytes before
// them, as DNS over TCP does. At its own socket it takes `tcp 8080 100.64.0.9\n`: a connection to a port of the
// command, from that address. What is neither TCP nor UDP over IPv4 is dropped.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

var version = "dev"

func main() {
	// The network namespace is that of this thread, from which the command is started.
	runtime.LockOSThread()
	address := flag.String("address", "", "the IPv4 address inside")
	relay := flag.String("relay", "", "the socket that is asked for each connection")
	inbound := flag.String("inbound", "", "the socket at which connections to the command are taken")
	show := flag.Bool("version", false, "print the version")
	flag.Parse()
	if *show {
		fmt.Println(version)
		return
	}
	code, err := run(*address, *relay, *inbound, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "podnetwork:", err)
		os.Exit(125)
	}
	os.Exit(code)
}

func run(address, relay, inbound string, arguments []string) (int, error) {
	if len(arguments) == 0 {
		return 0, errors.New("there is no command")
	}
	ip, err := netip.ParseAddr(address)
	if err != nil || !ip.Is4() {
		return 0, fmt.Errorf("%q is no IPv4 address", address)
	}
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		return 0, fmt.Errorf("a network namespace: %w", err)
	}
	device, err := interfaces(ip)
	if err != nil {
		return 0, err
	}
	if err := serve(device, ip, relay, inbound); err != nil {
		return 0, err
	}
	return command(arguments)
}

func command(arguments []string) (int, error) {
	cmd := exec.Command(arguments[0], arguments[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		for number := range signals {
			_ = cmd.Process.Signal(number)
		}
	}()
	err := cmd.Wait()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		return 0, err
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}
