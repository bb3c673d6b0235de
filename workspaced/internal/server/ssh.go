package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"workspaced/internal/access"
)

// ssh turns a request into an SSH connection: with "Upgrade: ssh", or as the binary
// messages of a WebSocket, which passes proxies that know nothing else.
func (s *Server) ssh(w http.ResponseWriter, r *http.Request) {
	switch strings.ToLower(r.Header.Get("Upgrade")) {
	case "ssh":
		conn, err := upgrade(w)
		if err != nil {
			access.WriteError(w, http.StatusUpgradeRequired, "SSH needs HTTP/1.1")
			return
		}
		_ = s.SSH.Serve(r.Context(), conn)
	case "websocket":
		socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"ssh"}})
		if err != nil {
			return // answered already
		}
		socket.SetReadLimit(1 << 20)
		_ = s.SSH.Serve(r.Context(), websocket.NetConn(r.Context(), socket, websocket.MessageBinary))
	default:
		w.Header().Set("Upgrade", "ssh, websocket")
		access.WriteError(w, http.StatusUpgradeRequired, "use Upgrade: ssh or a WebSocket")
	}
}

func upgrade(w http.ResponseWriter) (net.Conn, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	const answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ssh\r\n\r\n"
	if _, err := io.WriteString(conn, answer); err != nil {
		conn.Close()
		return nil, err
	}
	return &hijacked{conn, buffered.Reader}, nil
}

// hijacked reads first what came with the request.
type hijacked struct {
	net.Conn
	reader *bufio.Reader
}

func (h *hijacked) Read(into []byte) (int, error) { return h.reader.Read(into) }

func (s *Server) hostKey(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, s.SSH.HostKey())
}
