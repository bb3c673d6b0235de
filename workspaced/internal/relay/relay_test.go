package relay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"workspaced/internal/access"
)

// program serves on one loopback address, as a dev server does.
func program(t *testing.T, network, address string, handler http.HandlerFunc) int {
	t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Skip("no such loopback address here:", err)
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: handler, Protocols: &protocols}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return listener.Addr().(*net.TCPAddr).Port
}

func serve(t *testing.T, port int) *httptest.Server {
	t.Helper()
	r := New(49983)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) { r.Serve(w, request, port) }))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

func TestParse(t *testing.T) {
	r := New(49983)
	for text, want := range map[string]int{"3000": 3000, "1": 1, "65535": 65535, "0": 0, "65536": 0, "-1": 0, "": 0, "03000": 0, "+80": 0, " 80": 0, "80 ": 0, "3e3": 0, "49983": 0} {
		got, err := r.Parse(text)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %d %v", text, got, err)
		}
	}
	if _, err := r.Parse("49983"); !errors.Is(err, ErrOwnPort) {
		t.Fatal(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("3000")
	r := New(49983)
	f.Fuzz(func(t *testing.T, text string) {
		if port, err := r.Parse(text); err == nil && (strconv.Itoa(port) != text || port == 49983 || port < 1 || port > 65535) {
			t.Fatalf("%q: %d", text, port)
		}
	})
}

func TestTheProgramSeesTheCallersRequest(t *testing.T) {
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0"} {
		t.Run(network, func(t *testing.T) {
			port := program(t, network, address, func(w http.ResponseWriter, r *http.Request) {
				for _, name := range []string{access.TokenHeader, PortHeader, ProtocolHeader} {
					if r.Header.Get(name) != "" {
						t.Errorf("%s came through", name)
					}
				}
				body, _ := io.ReadAll(r.Body)
				fmt.Fprintf(w, "%s %s %s %s %s %s", r.Method, r.Host, r.URL.RequestURI(), r.Header.Get("Authorization"), r.Header.Get("X-Forwarded-Host"), body)
			})
			r, _ := http.NewRequest("PUT", serve(t, port).URL+"/a%2Fb?x=1;y=%zz", strings.NewReader("body"))
			r.Host = "3000-w.example.com"
			for name, value := range map[string]string{
				access.TokenHeader: "secret", PortHeader: "1", ProtocolHeader: "", "Authorization": "Bearer mine",
				"X-Forwarded-Host": "outer", "X-Access-Token": "the program's",
			} {
				r.Header.Set(name, value)
			}
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			got, _ := io.ReadAll(response.Body)
			if string(got) != "PUT 3000-w.example.com /a%2Fb?x=1;y=%zz Bearer mine outer body" {
				t.Fatalf("%q", got)
			}
		})
	}
}

func TestAClosedPort(t *testing.T) {
	port := program(t, "tcp4", "127.0.0.1:0", nil)
	closed, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := closed.Addr().(*net.TCPAddr).Port
	closed.Close()
	_ = port
	response, err := http.Get(serve(t, free).URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode != 502 || !strings.Contains(string(body), "The sandbox is running but port is not open") {
		t.Fatalf("%d %s", response.StatusCode, body)
	}
}

func TestEventsPassAtOnceAndTrailersPass(t *testing.T) {
	next := make(chan struct{})
	port := program(t, "tcp4", "127.0.0.1:0", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Trailer", "X-Sum")
		for range 3 {
			fmt.Fprint(w, "data: x\n")
			w.(http.Flusher).Flush()
			<-next
		}
		w.Header().Set("X-Sum", "3")
	})
	response, err := http.Get(serve(t, port).URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for range 3 { // each comes before the program goes on
		if line, err := lines.ReadString('\n'); err != nil || line != "data: x\n" {
			t.Fatalf("%q %v", line, err)
		}
		next <- struct{}{}
	}
	if _, err := io.Copy(io.Discard, lines); err != nil || response.Trailer.Get("X-Sum") != "3" {
		t.Fatalf("%v %v", err, response.Trailer)
	}
}

func TestWebSockets(t *testing.T) {
	port := program(t, "tcp4", "127.0.0.1:0", func(w http.ResponseWriter, r *http.Request) {
		socket, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		kind, data, err := socket.Read(r.Context())
		if err == nil {
			_ = socket.Write(r.Context(), kind, append([]byte("echo "), data...))
		}
		_, _, _ = socket.Read(r.Context())
	})
	server := serve(t, port)
	socket, _, err := websocket.Dial(t.Context(), server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.CloseNow()
	if err := socket.Write(t.Context(), websocket.MessageText, []byte("hi")); err != nil {
		t.Fatal(err)
	}
	if _, got, err := socket.Read(t.Context()); err != nil || string(got) != "echo hi" {
		t.Fatalf("%q %v", got, err)
	}
}

func TestGRPCPassesWithItsTrailers(t *testing.T) {
	port := program(t, "tcp4", "127.0.0.1:0", func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the program is spoken to by %s", r.Proto)
		}
		w.Header().Set("Content-Type", "application/grpc")
		// Both directions at once: an answer before the request has ended.
		buffer := make([]byte, 4)
		for range 2 {
			if _, err := io.ReadFull(r.Body, buffer); err != nil {
				t.Error(err)
			}
			_, _ = w.Write(buffer)
			w.(http.Flusher).Flush()
		}
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	server := serve(t, port)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	read, write := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, "POST", server.URL, read)
	r.Header.Set("Content-Type", "application/grpc+proto")
	r.Header.Set("TE", "trailers")
	go write.Write([]byte("ping"))
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	buffer := make([]byte, 4)
	if _, err := io.ReadFull(response.Body, buffer); err != nil || string(buffer) != "ping" {
		t.Fatalf("%q %v", buffer, err)
	}
	go func() { _, _ = write.Write([]byte("pong")); write.Close() }()
	if _, err := io.ReadAll(response.Body); err != nil || response.Trailer.Get("Grpc-Status") != "0" {
		t.Fatalf("%v %v", err, response.Trailer)
	}
}

// A program may answer while its caller still sends, over HTTP/1.1 too.
func TestBothDirectionsAtOnce(t *testing.T) {
	port := program(t, "tcp4", "127.0.0.1:0", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		buffer := make([]byte, 4)
		for range 2 {
			if _, err := io.ReadFull(r.Body, buffer); err != nil {
				t.Error(err)
			}
			_, _ = w.Write(buffer)
			w.(http.Flusher).Flush()
		}
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(serve(t, port).URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nping\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 4)
	if _, err := io.ReadFull(response.Body, buffer); err != nil || string(buffer) != "ping" {
		t.Fatalf("%q %v", buffer, err)
	}
	_, _ = io.WriteString(conn, "4\r\npong\r\n0\r\n\r\n")
	if rest, err := io.ReadAll(response.Body); err != nil || string(rest) != "pong" {
		t.Fatalf("%q %v", rest, err)
	}
}
