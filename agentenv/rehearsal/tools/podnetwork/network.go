package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/link/nested"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const (
	card          = 1
	mostWaiting   = 1024             // connections that are being decided
	datagramIdle  = 30 * time.Second // after which a flow of datagrams is forgotten
	mostDatagram  = 1 << 16
	connectWithin = 5 * time.Second
)

type network struct {
	stack *stack.Stack
	own   netip.Addr
	relay string
}

// short returns a path of the socket that fits into an address, however long the path of its folder is.
func short(path string) (string, error) {
	folder, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Dir(path), err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", folder, filepath.Base(path)), nil
}

// serve answers on the device for every address there is.
func serve(device int, own netip.Addr, relay, inbound string) error {
	card, err := newStack(device)
	if err != nil {
		return err
	}
	if relay, err = short(relay); err != nil {
		return err
	}
	n := &network{card, own, relay}
	card.SetTransportProtocolHandler(tcp.ProtocolNumber, tcp.NewForwarder(card, 0, mostWaiting, n.connection).HandlePacket)
	card.SetTransportProtocolHandler(udp.ProtocolNumber, udp.NewForwarder(card, n.datagrams).HandlePacket)
	if inbound == "" {
		return nil
	}
	if inbound, err = short(inbound); err != nil {
		return err
	}
	listener, err := net.Listen("unix", inbound)
	if err != nil {
		return err
	}
	go n.accept(listener)
	return nil
}

func newStack(device int) (*stack.Stack, error) {
	link, err := fdbased.New(&fdbased.Options{FDs: []int{device}, MTU: mtu, RXChecksumOffload: true})
	if err != nil {
		return nil, err
	}
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})
	filtered := &transportsOnly{}
	filtered.Init(link, filtered)
	if err := s.CreateNIC(card, filtered); err != nil {
		return nil, errors.New(err.String())
	}
	// For every address: it takes what is sent to any, and answers from it
	s.SetPromiscuousMode(card, true)
	s.SetSpoofing(card, true)
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: card}})
	return s, nil
}

// transportsOnly drops what is neither TCP nor UDP: the stack would answer an echo request for any address.
type transportsOnly struct{ nested.Endpoint }

func (t *transportsOnly) DeliverNetworkPacket(protocol tcpip.NetworkProtocolNumber, packet *stack.PacketBuffer) {
	bytes, ok := packet.Data().PullUp(header.IPv4MinimumSize)
	if !ok || header.IPVersion(bytes) != header.IPv4Version {
		return
	}
	switch header.IPv4(bytes).TransportProtocol() {
	case header.TCPProtocolNumber, header.UDPProtocolNumber:
		t.Endpoint.DeliverNetworkPacket(header.IPv4ProtocolNumber, packet)
	}
}

func (n *network) connection(request *tcp.ForwarderRequest) {
	id := request.ID()
	upstream, answer := n.ask("tcp", id)
	if answer != "open" {
		request.Complete(answer == "refuse")
		return
	}
	defer upstream.Close()
	var queue waiter.Queue
	endpoint, failure := request.CreateEndpoint(&queue)
	request.Complete(failure != nil)
	if failure != nil {
		return
	}
	both(gonet.NewTCPConn(&queue, endpoint), upstream)
}

func (n *network) datagrams(request *udp.ForwarderRequest) bool {
	id := request.ID()
	var queue waiter.Queue
	endpoint, failure := request.CreateEndpoint(&queue)
	if failure != nil {
		return false
	}
	go func() {
		inside := gonet.NewUDPConn(&queue, endpoint)
		defer inside.Close()
		upstream, answer := n.ask("udp", id)
		if answer != "open" {
			return
		}
		defer upstream.Close()
		go func() {
			defer inside.Close()
			_ = fromFrames(upstream, inside)
		}()
		_ = toFrames(inside, upstream)
	}()
	return true
}

// toFrames passes datagrams on until none has come for a while.
func toFrames(inside *gonet.UDPConn, upstream io.Writer) error {
	buffer := make([]byte, 2+mostDatagram)
	for {
		if err := inside.SetReadDeadline(time.Now().Add(datagramIdle)); err != nil {
			return err
		}
		size, err := inside.Read(buffer[2:])
		if err != nil {
			return err
		}
		if size >= mostDatagram {
			continue
		}
		binary.BigEndian.PutUint16(buffer, uint16(size))
		if _, err := upstream.Write(buffer[:2+size]); err != nil {
			return err
		}
	}
}

func fromFrames(upstream io.Reader, inside io.Writer) error {
	buffer := make([]byte, mostDatagram)
	for {
		if _, err := io.ReadFull(upstream, buffer[:2]); err != nil {
			return err
		}
		datagram := buffer[:binary.BigEndian.Uint16(buffer)]
		if _, err := io.ReadFull(upstream, datagram); err != nil {
			return err
		}
		if _, err := inside.Write(datagram); err != nil {
			return err
		}
	}
}

// ask returns the connection that carries on, where the answer is `open`. Without an answer nothing is let out.
func (n *network) ask(protocol string, id stack.TransportEndpointID) (net.Conn, string) {
	upstream, err := net.Dial("unix", n.relay)
	if err != nil {
		return nil, "drop"
	}
	if _, err := fmt.Fprintf(upstream, "%s %s %d\n", protocol, id.LocalAddress, id.LocalPort); err != nil {
		upstream.Close()
		return nil, "drop"
	}
	answer, err := line(upstream)
	if err != nil || answer != "open" {
		upstream.Close()
		return nil, answer
	}
	return upstream, answer
}

// line reads byte by byte: what follows the line belongs to the connection.
func line(from io.Reader) (string, error) {
	var text strings.Builder
	one := make([]byte, 1)
	for text.Len() < 64 {
		if _, err := io.ReadFull(from, one); err != nil {
			return "drop", err
		}
		if one[0] == '\n' {
			return text.String(), nil
		}
		text.WriteByte(one[0])
	}
	return "drop", errors.New("the line is too long")
}

// accept takes connections to the command from other pods.
func (n *network) accept(listener net.Listener) {
	for {
		caller, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer caller.Close()
			reader := bufio.NewReaderSize(caller, 128)
			request, err := reader.ReadString('\n')
			if err != nil {
				return
			}
			inside, answer := n.enter(request)
			if _, err := fmt.Fprintln(caller, answer); err != nil || inside == nil {
				return
			}
			// A caller waits for the answer, so the reader holds nothing more
			both(inside, caller)
		}()
	}
}

func (n *network) enter(request string) (net.Conn, string) {
	var port uint16
	var from string
	if _, err := fmt.Sscanf(request, "tcp %d %s", &port, &from); err != nil {
		return nil, "drop"
	}
	source, err := netip.ParseAddr(from)
	if err != nil || !source.Is4() {
		return nil, "drop"
	}
	within, cancel := context.WithTimeout(context.Background(), connectWithin)
	defer cancel()
	local := tcpip.FullAddress{NIC: card, Addr: tcpip.AddrFrom4(source.As4())}
	remote := tcpip.FullAddress{NIC: card, Addr: tcpip.AddrFrom4(n.own.As4()), Port: port}
	inside, err := gonet.DialTCPWithBind(within, n.stack, local, remote, ipv4.ProtocolNumber)
	if err != nil {
		return nil, "refuse"
	}
	return inside, "open"
}

type half interface {
	net.Conn
	CloseWrite() error
}

// both carries bytes in both directions until both have ended; a half-closed connection stays so.
func both(one, other net.Conn) {
	defer one.Close()
	defer other.Close()
	ended := make(chan error, 2)
	carry := func(to, from net.Conn) {
		_, err := io.Copy(to, from)
		if err == nil {
			err = to.(half).CloseWrite()
		}
		ended <- err
	}
	go carry(one, other)
	go carry(other, one)
	if <-ended == nil {
		<-ended
	}
}
