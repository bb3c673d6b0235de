package sshd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"workspaced/internal/relay"
)

const maxListeners = 32

type tcpMessage struct {
	Host   string
	Port   uint32
	Origin string
	From   uint32
}

// directTCP connects to a program on a loopback address (ssh -L, -D, -J).
func (c *connection) directTCP(ctx context.Context, channel ssh.NewChannel) {
	var message tcpMessage
	if ssh.Unmarshal(channel.ExtraData(), &message) != nil || message.Port == 0 || message.Port > 65535 {
		_ = channel.Reject(ssh.ConnectionFailed, "malformed")
		return
	}
	port := int(message.Port)
	if !loopback(message.Host) || c.refuse(port) {
		_ = channel.Reject(ssh.Prohibited, "forwarding goes to programs of this sandbox on localhost only")
		return
	}
	var conn net.Conn
	var err error
	if ip := net.ParseIP(strings.Trim(message.Host, "[]")); ip != nil && ip.String() != "127.0.0.1" && ip.String() != "::1" {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(ip.String(), strconv.Itoa(port)))
	} else {
		conn, err = relay.Dial(ctx, port)
	}
	if err != nil {
		_ = channel.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	join(ctx, channel, conn)
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

// directUnix connects to a Unix socket.
func (c *connection) directUnix(ctx context.Context, channel ssh.NewChannel) {
	var message struct {
		Path     string
		Reserved string
		Number   uint32
	}
	if ssh.Unmarshal(channel.ExtraData(), &message) != nil {
		_ = channel.Reject(ssh.ConnectionFailed, "malformed")
		return
	}
	var conn net.Conn
	err := c.who.As(func() (err error) {
		conn, err = net.Dial("unix", c.who.Resolve(message.Path))
		return err
	})
	if err != nil {
		_ = channel.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	join(ctx, channel, conn)
}

func join(ctx context.Context, opening ssh.NewChannel, conn net.Conn) {
	channel, requests, err := opening.Accept()
	if err != nil {
		conn.Close()
		return
	}
	go ssh.DiscardRequests(requests)
	splice(ctx, channel, conn)
}

// splice copies both ways until both sides have ended, or the context has.
func splice(ctx context.Context, channel ssh.Channel, conn net.Conn) {
	stop := context.AfterFunc(ctx, func() { conn.Close(); channel.Close() })
	defer stop()
	defer channel.Close()
	defer conn.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := io.Copy(conn, channel)
		if half, ok := conn.(interface{ CloseWrite() error }); ok && err == nil {
			_ = half.CloseWrite()
		} else {
			conn.Close()
		}
	}()
	if _, err := io.Copy(channel, conn); err != nil {
		channel.Close()
	}
	_ = channel.CloseWrite()
	<-done
}

// global handles requests for listeners (ssh -R) and answers the rest with no.
func (c *connection) global(requests <-chan *ssh.Request) {
	for request := range requests {
		accepted, answer := false, []byte(nil)
		switch request.Type {
		case "tcpip-forward":
			accepted, answer = c.listenTCP(request.Payload)
		case "cancel-tcpip-forward":
			var message struct {
				Host string
				Port uint32
			}
			if ssh.Unmarshal(request.Payload, &message) == nil {
				accepted = c.closeListener(fmt.Sprintf("tcp:%d", message.Port))
			}
		case "streamlocal-forward@openssh.com":
			if path, ok := parseString(request.Payload); ok {
				accepted = c.listenUnix(c.who.Resolve(path), func() (string, []byte) {
					return "forwarded-streamlocal@openssh.com", ssh.Marshal(struct{ Path, Reserved string }{path, ""})
				}) == nil
			}
		case "cancel-streamlocal-forward@openssh.com":
			if path, ok := parseString(request.Payload); ok {
				accepted = c.closeListener("unix:" + c.who.Resolve(path))
			}
		case "keepalive@openssh.com":
			accepted = true
		}
		if request.WantReply {
			_ = request.Reply(accepted, answer)
		}
	}
}

// listenTCP listens on the loopback address, whatever address was asked for.
func (c *connection) listenTCP(payload []byte) (bool, []byte) {
	var message struct {
		Host string
		Port uint32
	}
	if ssh.Unmarshal(payload, &message) != nil || message.Port > 65535 {
		return false, nil
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(message.Port))))
	if err != nil {
		return false, nil
	}
	bound := uint32(listener.Addr().(*net.TCPAddr).Port)
	if !c.keep(fmt.Sprintf("tcp:%d", bound), listener) {
		return false, nil
	}
	go c.accept(listener, func(conn net.Conn) (string, []byte) {
		from, _ := conn.RemoteAddr().(*net.TCPAddr)
		return "forwarded-tcpip", ssh.Marshal(tcpMessage{message.Host, bound, from.IP.String(), uint32(from.Port)})
	})
	return true, ssh.Marshal(struct{ Port uint32 }{bound})
}

func (c *connection) listenUnix(path string, open func() (string, []byte)) error {
	var listener net.Listener
	err := c.who.As(func() (err error) {
		if listener, err = net.Listen("unix", path); err == nil {
			err = os.Chmod(path, 0o600)
		}
		return err
	})
	if err != nil {
		return err
	}
	if !c.keep("unix:"+path, listener) {
		return errors.New("too many listeners")
	}
	go c.accept(listener, func(net.Conn) (string, []byte) { return open() })
	return nil
}

// forwardAgent listens on a socket that leads to the caller's SSH agent; the
// sessions of a connection share it.
func (c *connection) forwardAgent() (string, error) {
	c.agentMu.Lock()
	defer c.agentMu.Unlock()
	if c.agent != "" {
		return c.agent, nil
	}
	var folder string
	err := c.who.As(func() (err error) {
		folder, err = os.MkdirTemp("", "ssh-")
		return err
	})
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "agent")
	if err := c.listenUnix(path, func() (string, []byte) { return "auth-agent@openssh.com", nil }); err != nil {
		_ = os.Remove(folder)
		return "", err
	}
	c.agent = path
	return path, nil
}

func (c *connection) accept(listener net.Listener, open func(net.Conn) (string, []byte)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		if !c.enter() {
			conn.Close()
			continue
		}
		go func() {
			defer c.leave()
			kind, extra := open(conn)
			channel, requests, err := c.ssh.OpenChannel(kind, extra)
			if err != nil {
				conn.Close()
				return
			}
			go ssh.DiscardRequests(requests)
			splice(context.Background(), channel, conn)
		}()
	}
}

func (c *connection) keep(name string, listener net.Listener) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.listeners) >= maxListeners || c.listeners[name] != nil {
		listener.Close()
		return false
	}
	c.listeners[name] = listener
	return true
}

func (c *connection) closeListener(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	listener := c.listeners[name]
	delete(c.listeners, name)
	if listener == nil {
		return false
	}
	listener.Close()
	return true
}

func (c *connection) closeListeners() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, listener := range c.listeners {
		listener.Close()
	}
	clear(c.listeners)
	c.agentMu.Lock()
	defer c.agentMu.Unlock()
	if c.agent != "" {
		_ = os.Remove(filepath.Dir(c.agent))
	}
}
