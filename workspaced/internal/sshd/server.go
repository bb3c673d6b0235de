// Package sshd serves SSH and SFTP over a connection whose caller the token has
// admitted already: there is no further authentication, and no port of its own.
package sshd

import (
	"context"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"workspaced/internal/account"
	"workspaced/internal/process"
)

const (
	handshakeTimeout = 30 * time.Second
	aliveEvery       = 45 * time.Second
	maxChannels      = 128
	maxConnections   = 64
)

// Server serves SSH connections.
type Server struct {
	processes *process.Manager
	accounts  *account.Directory
	key       ssh.Signer
	refuse    func(port int) bool // ports that are not forwarded to
	places    chan struct{}
}

// New returns a server.
func New(m *process.Manager, d *account.Directory, key ssh.Signer, refuse func(port int) bool) *Server {
	return &Server{m, d, key, refuse, make(chan struct{}, maxConnections)}
}

// HostKey returns the line of the host key for known_hosts.
func (s *Server) HostKey() string { return string(ssh.MarshalAuthorizedKey(s.key.PublicKey())) }

// connection is an SSH connection and what was opened through it.
type connection struct {
	*Server
	ssh *ssh.ServerConn
	who account.Account

	mu        sync.Mutex
	channels  int
	listeners map[string]net.Listener

	agentMu sync.Mutex
	agent   string // the socket of the caller's agent
}

// Serve serves a connection until it ends or the context is cancelled.
func (s *Server) Serve(ctx context.Context, raw net.Conn) error {
	defer raw.Close()
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		return nil
	}
	config := &ssh.ServerConfig{NoClientAuth: true, ServerVersion: "SSH-2.0-workspaced"}
	config.AddHostKey(s.key)
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	_ = raw.SetDeadline(time.Now().Add(handshakeTimeout))
	conn, channels, requests, err := ssh.NewServerConn(raw, config)
	if err != nil {
		return err
	}
	_ = raw.SetDeadline(time.Time{})
	// The name selects a user of the image where this program may become it; any
	// other name is the sandbox's own user.
	who, err := s.accounts.Find(conn.User())
	if err != nil {
		who = s.accounts.Self()
	}
	c := &connection{Server: s, ssh: conn, who: who, listeners: map[string]net.Listener{}}
	defer c.closeListeners()
	live, cancel := context.WithCancel(ctx)
	defer cancel()
	go c.global(requests)
	go c.alive(live)
	for channel := range channels {
		if !c.enter() {
			_ = channel.Reject(ssh.ResourceShortage, "too many channels")
			continue
		}
		go func() {
			defer c.leave()
			c.open(live, channel)
		}()
	}
	return nil
}

func (c *connection) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.channels >= maxChannels {
		return false
	}
	c.channels++
	return true
}

func (c *connection) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.channels--
}

// alive closes a connection whose caller no longer answers.
func (c *connection) alive(ctx context.Context) {
	ticker := time.NewTicker(aliveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		answered := make(chan error, 1)
		go func() {
			_, _, err := c.ssh.SendRequest("keepalive@openssh.com", true, nil)
			answered <- err
		}()
		select {
		case err := <-answered:
			if err == nil {
				continue
			}
		case <-time.After(aliveEvery):
		case <-ctx.Done():
			return
		}
		c.ssh.Close()
		return
	}
}

func (c *connection) open(ctx context.Context, channel ssh.NewChannel) {
	switch channel.ChannelType() {
	case "session":
		c.session(ctx, channel)
	case "direct-tcpip":
		c.directTCP(ctx, channel)
	case "direct-streamlocal@openssh.com":
		c.directUnix(ctx, channel)
	default:
		_ = channel.Reject(ssh.UnknownChannelType, "not offered: "+channel.ChannelType())
	}
}
