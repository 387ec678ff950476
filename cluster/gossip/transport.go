package gossip

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// maxPacket is larger than any UDP packet, in bytes.
const maxPacket = 1 << 16

// readPause is the pause after a packet could not be read.
const readPause = 100 * time.Millisecond

// transport carries memberlist's packets and streams over a replica's port.
type transport struct {
	port      Port
	dialer    Dialer
	advertise netip.AddrPort
	// bars reports whether an address is that of a replica that is not a member.
	bars func(netip.AddrPort) bool
	log  *slog.Logger

	packets chan *memberlist.Packet
	streams chan net.Conn

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

var _ memberlist.Transport = (*transport)(nil)

func newTransport(port Port, dialer Dialer, advertise netip.AddrPort, bars func(netip.AddrPort) bool, log *slog.Logger) *transport {
	ctx, cancel := context.WithCancel(context.Background())
	t := &transport{
		port:      port,
		dialer:    dialer,
		advertise: advertise,
		bars:      bars,
		log:       log,
		packets:   make(chan *memberlist.Packet),
		streams:   make(chan net.Conn),
		ctx:       ctx,
		cancel:    cancel,
	}
	t.running.Go(t.readPackets)
	t.running.Go(t.acceptStreams)
	return t
}

// FinalAdvertiseAddr implements memberlist.Transport.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.advertise.Addr().AsSlice(), int(t.advertise.Port()), nil
}

// WriteTo implements memberlist.Transport.
func (t *transport) WriteTo(packet []byte, addr string) (time.Time, error) {
	// memberlist resolves names when it joins; here addr is an IP and a port.
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, err
	}
	if t.bars(to) {
		return time.Now(), nil
	}
	_, err = t.port.Packets().WriteTo(packet, net.UDPAddrFromAddrPort(to))
	return time.Now(), err
}

// PacketCh implements memberlist.Transport.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh implements memberlist.Transport.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// DialTimeout implements memberlist.Transport.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(t.ctx, timeout)
	defer cancel()
	conn, err := t.dialer.DialGossip(ctx, addr)
	if err != nil {
		return nil, err
	}
	return t.track(conn), nil
}

// Shutdown implements memberlist.Transport. When it returns, nothing uses the
// port.
func (t *transport) Shutdown() error {
	t.cancel()
	err := errors.Join(ignoreClosed(t.port.Gossip().Close()), ignoreClosed(t.port.Packets().Close()))
	t.running.Wait()
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (t *transport) readPackets() {
	buffer := make([]byte, maxPacket)
	for {
		n, from, err := t.port.Packets().ReadFrom(buffer)
		if t.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			t.log.Warn("gossip packet unreadable", "cause", err)
			select {
			case <-time.After(readPause):
			case <-t.ctx.Done():
			}
			continue
		}
		if sender, ok := from.(*net.UDPAddr); n == 0 || ok && t.bars(unmapped(sender)) {
			continue
		}
		packet := &memberlist.Packet{Buf: append([]byte(nil), buffer[:n]...), From: from, Timestamp: time.Now()}
		select {
		case t.packets <- packet:
		case <-t.ctx.Done():
			return
		}
	}
}

func unmapped(at *net.UDPAddr) netip.AddrPort {
	endpoint := at.AddrPort()
	return netip.AddrPortFrom(endpoint.Addr().Unmap(), endpoint.Port())
}

func (t *transport) acceptStreams() {
	for {
		conn, err := t.port.Gossip().Accept()
		if err != nil {
			return // The port has closed: after any other error it retries by itself.
		}
		tracked := t.track(conn)
		select {
		case t.streams <- tracked:
		case <-t.ctx.Done():
			_ = tracked.Close()
			return
		}
	}
}

// stream is a connection that its transport closes at Shutdown.
type stream struct {
	net.Conn
	forget func() bool
}

func (t *transport) track(conn net.Conn) net.Conn {
	// The user of the connection gets the error of its next read or write.
	return &stream{Conn: conn, forget: context.AfterFunc(t.ctx, func() { _ = conn.Close() })}
}

// Close closes the connection, and the transport forgets it.
func (s *stream) Close() error {
	s.forget()
	return s.Conn.Close()
}
