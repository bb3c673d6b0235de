package server

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxConnections = 2048
	// unacknowledged is how long sent bytes may stay without an answer of the
	// other side's kernel: a caller's node that vanished is noticed.
	unacknowledged = 60 * time.Second
)

// Listen listens on a TCP address, or on a Unix socket ("unix:/path") where a relay
// on the host enters a sandbox without a network. It listens with a bound on connections and notices dead peers.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	config := net.ListenConfig{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3},
		Control: func(_, _ string, raw syscall.RawConn) error {
			return raw.Control(func(fd uintptr) {
				// Neither a Unix socket nor every kernel of a sandbox knows it.
				_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unacknowledged.Milliseconds()))
			})
		},
	}
	network := "tcp"
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		network, address = "unix", path
	}
	listener, err := config.Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &bounded{Listener: listener, places: make(chan struct{}, maxConnections)}, nil
}

// bounded accepts another connection once there is a place for it.
type bounded struct {
	net.Listener
	places chan struct{}
}

func (b *bounded) Accept() (net.Conn, error) {
	b.places <- struct{}{}
	conn, err := b.Listener.Accept()
	if err != nil {
		<-b.places
		return nil, err
	}
	free := sync.OnceFunc(func() { <-b.places })
	if tcp, ok := conn.(*net.TCPConn); ok {
		return &placed{tcp, free}, nil
	}
	return &placedOther{conn, free}, nil
}

// placed is a connection that keeps the methods of TCP (ReadFrom uses sendfile).
type placed struct {
	*net.TCPConn
	free func()
}

func (p *placed) Close() error {
	defer p.free()
	return p.TCPConn.Close()
}

type placedOther struct {
	net.Conn
	free func()
}

func (p *placedOther) Close() error {
	defer p.free()
	return p.Conn.Close()
}

// local reports whether a request comes from inside the sandbox.
func local(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}
