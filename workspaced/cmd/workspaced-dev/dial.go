package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// dialCommand connects standard input and output to the SSH server of a sandbox:
//
//	ssh -o ProxyCommand='workspaced-dev dial http://127.0.0.1:49983 token-file' user@sandbox
func dialCommand(arguments []string) error {
	if len(arguments) != 2 {
		return fmt.Errorf("dial: URL TOKEN-FILE")
	}
	return dial(arguments[0], arguments[1])
}

func dial(address, tokenFile string) error {
	network, target := "tcp", ""
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		network, target, address = "unix", path, "http://sandbox"
	} else {
		parsed, err := url.Parse(address)
		if err != nil {
			return err
		}
		target = parsed.Host
	}
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return err
	}
	conn, err := net.Dial(network, target)
	if err != nil {
		return err
	}
	defer conn.Close()
	request, err := http.NewRequest(http.MethodGet, address+"/ssh", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "ssh")
	request.Header.Set("X-Workspace-Token", strings.TrimSpace(string(token)))
	if err := request.Write(conn); err != nil {
		return err
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	_, err = io.Copy(os.Stdout, reader)
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return err
}
