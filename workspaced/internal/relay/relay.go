// Package relay passes requests on to the ports of the user's own programs, which
// may listen on the loopback addresses only.
package relay

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"workspaced/internal/access"
)

const (
	// PortHeader names the port. The gateway sets it and strips a caller's own.
	PortHeader = "X-Workspace-Port"
	// ProtocolHeader says "h2c" where the program speaks HTTP/2 without TLS only;
	// gRPC is recognised without it.
	ProtocolHeader = "X-Workspace-Port-Protocol"

	dialTimeout = 5 * time.Second
)

// ErrOwnPort says that the port is this program's own.
var ErrOwnPort = errors.New("this port is not relayed")

// Relay relays requests.
type Relay struct {
	own   int
	http1 *httputil.ReverseProxy
	http2 *httputil.ReverseProxy
}

// New returns a relay that refuses this program's own port.
func New(own int) *Relay {
	r := &Relay{own: own}
	var first, second http.Protocols
	first.SetHTTP1(true)
	second.SetUnencryptedHTTP2(true)
	r.http1, r.http2 = r.proxy(&first), r.proxy(&second)
	return r
}

func (r *Relay) proxy(protocols *http.Protocols) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: rewrite,
		Transport: &http.Transport{
			Protocols: protocols, DialContext: dialHTTP,
			DisableCompression: true, // bodies pass as they are
			MaxIdleConns:       64, MaxIdleConnsPerHost: 8, IdleConnTimeout: 30 * time.Second,
			ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10,
		},
		FlushInterval: -1, // events and chunks pass at once
		BufferPool:    pool{},
		ErrorHandler:  refuse,
	}
}

// Parse returns the port that a header names.
func (r *Relay) Parse(text string) (int, error) {
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 || strconv.Itoa(port) != text {
		return 0, errors.New("no port: " + strconv.Quote(text))
	}
	if port == r.own {
		return 0, ErrOwnPort
	}
	return port, nil
}

// Serve relays an admitted request to a port.
func (r *Relay) Serve(w http.ResponseWriter, request *http.Request, port int) {
	if request.ProtoMajor == 1 {
		// A program may answer before it has read the request to its end.
		_ = http.NewResponseController(w).EnableFullDuplex()
	}
	outgoing := request.WithContext(context.WithValue(request.Context(), portKey{}, port))
	kind := request.Header.Get("Content-Type")
	grpc := kind == "application/grpc" || strings.HasPrefix(kind, "application/grpc+") || strings.HasPrefix(kind, "application/grpc;")
	if request.Header.Get(ProtocolHeader) == "h2c" || grpc && request.ProtoMajor == 2 {
		r.http2.ServeHTTP(w, outgoing)
		return
	}
	r.http1.ServeHTTP(w, outgoing)
}

type portKey struct{}

func portOf(ctx context.Context) int {
	port, _ := ctx.Value(portKey{}).(int)
	return port
}

// rewrite addresses the request to the port. The program sees the caller's host and
// headers, and nothing of the gateway's.
func rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme = "http"
	r.Out.URL.Host = net.JoinHostPort("loopback", strconv.Itoa(portOf(r.In.Context())))
	r.Out.Host = r.In.Host
	// An unparsable query passes as it came.
	r.Out.URL.RawQuery = r.In.URL.RawQuery
	r.Out.Header.Del(access.TokenHeader)
	r.Out.Header.Del(PortHeader)
	r.Out.Header.Del(ProtocolHeader)
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values := r.In.Header.Values(name); len(values) > 0 {
			r.Out.Header[name] = values
		}
	}
	if _, has := r.In.Header["User-Agent"]; !has {
		r.Out.Header["User-Agent"] = nil // and not the library's
	}
}

func dialHTTP(ctx context.Context, _, address string) (net.Conn, error) {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, err
	}
	return Dial(ctx, port)
}

// Dial connects to a port on the IPv4 or else the IPv6 loopback address.
func Dial(ctx context.Context, port int) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	text := strconv.Itoa(port)
	conn, err := dialer.DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", text))
	if err == nil {
		return conn, nil
	}
	if second, other := dialer.DialContext(ctx, "tcp6", net.JoinHostPort("::1", text)); other == nil {
		return second, nil
	}
	return nil, err
}

// refuse answers a request that the port did not. The message is the one that
// clients of envd know.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	port := strconv.Itoa(portOf(r.Context()))
	var dial *net.OpError
	switch {
	case errors.Is(context.Cause(r.Context()), access.ErrEnded):
		access.WriteError(w, http.StatusUnauthorized, access.ErrEnded.Error())
	case errors.As(err, &dial) && dial.Op == "dial":
		access.WriteError(w, http.StatusBadGateway, "The sandbox is running but port is not open: "+port)
	default:
		access.WriteError(w, http.StatusBadGateway, "the program on port "+port+" did not answer: "+hide(err))
	}
}

// hide drops the made-up host from an error.
func hide(err error) string {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return err.Error()
}

type pool struct{}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func (pool) Get() []byte { return buffers.Get().(*[32 << 10]byte)[:] }

func (pool) Put(buffer []byte) { buffers.Put((*[32 << 10]byte)(buffer)) }
