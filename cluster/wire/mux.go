package wire

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"weir/cluster/identity"
)

// Config configures Listen.
type Config struct {
	// Address is the host:port to listen on; port 0: any free one.
	Address string
	// Security is Mutual or Insecure.
	Security Security
	// Logger logs refused connections. If nil, nothing is logged.
	Logger *slog.Logger
	// HandshakeTimeout bounds the time from accepting a connection to the end of
	// its handshake. Default 5 s: a handshake takes two round trips.
	HandshakeTimeout time.Duration
	// MaxHandshakes bounds the handshakes in progress; further connections
	// wait in the system's queue. Default 256: a handshake costs about a
	// millisecond of processor time, so more would only time out together.
	MaxHandshakes int
	// Backlog bounds the connections of one protocol that wait for Accept;
	// further ones are closed. Default 128.
	Backlog int
}

// withDefaults returns c with defaults in place of zeroes.
func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.HandshakeTimeout = cmp.Or(c.HandshakeTimeout, 5*time.Second)
	c.MaxHandshakes, c.Backlog = cmp.Or(c.MaxHandshakes, 256), cmp.Or(c.Backlog, 128)
	return c
}

// Validate returns an error that names the first field that makes no sense.
func (c Config) Validate() error {
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		return fmt.Errorf("address %q: %w: want host:port", c.Address, err)
	}
	switch {
	case c.Security == nil:
		return errors.New("security: must be chosen, Mutual or Insecure")
	case c.HandshakeTimeout < 0 || c.MaxHandshakes < 0 || c.Backlog < 0:
		return fmt.Errorf("handshake timeout %v, max handshakes %d, backlog %d: must not be negative", c.HandshakeTimeout, c.MaxHandshakes, c.Backlog)
	}
	return c.Security.validate()
}

// Mux is one open port that hands out its connections by protocol.
type Mux struct {
	config Config
	tcp    net.Listener
	udp    net.PacketConn
	tls    *tls.Config // nil in plaintext
	log    *refusalLog

	raft, gossip, http *listener

	handshakes chan struct{} // one element per handshake in progress
	ctx        context.Context
	cancel     context.CancelFunc
	running    sync.WaitGroup
	closeOnce  sync.Once
	closeErr   error

	mu      sync.Mutex
	pending map[net.Conn]struct{} // in handshake; nil once closed
}

// Listen opens the port that config describes and starts to accept connections.
func Listen(config Config) (*Mux, error) {
	config = config.withDefaults()
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	tcp, udp, err := openPort(config.Address)
	if err != nil {
		return nil, fmt.Errorf("listen %s: %w", config.Address, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &Mux{
		config:     config,
		tcp:        tcp,
		udp:        udp,
		log:        &refusalLog{logger: config.Logger},
		raft:       newListener(tcp.Addr(), config.Backlog),
		gossip:     newListener(tcp.Addr(), config.Backlog),
		http:       newListener(tcp.Addr(), config.Backlog),
		handshakes: make(chan struct{}, config.MaxHandshakes),
		ctx:        ctx,
		cancel:     cancel,
		pending:    make(map[net.Conn]struct{}),
	}
	switch security := config.Security.(type) {
	case Mutual:
		m.tls = security.server()
	case Insecure:
		config.Logger.Warn("INSECURE: plaintext port; anyone who can reach it controls the cluster", "address", tcp.Addr().String())
	}
	m.running.Go(m.accept)
	return m, nil
}

// openPort opens address for TCP and UDP under one port number.
func openPort(address string) (net.Listener, net.PacketConn, error) {
	// A port that is free for TCP may be taken for UDP. With port 0, try again with another port.
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, nil, err
	}
	attempts := 1
	if port == "0" {
		attempts = 16
	}
	keepAlive := net.ListenConfig{KeepAliveConfig: keepAliveConfig}
	for attempt := 1; ; attempt++ {
		tcp, err := keepAlive.Listen(context.Background(), "tcp", address)
		if err != nil {
			return nil, nil, err
		}
		udp, err := net.ListenPacket("udp", tcp.Addr().String())
		if err == nil {
			return tcp, udp, nil
		}
		err = errors.Join(err, tcp.Close())
		if attempt == attempts {
			return nil, nil, err
		}
	}
}

// Addr returns the address that the port is open on.
func (m *Mux) Addr() net.Addr { return m.tcp.Addr() }

// Raft returns the listener of raft connections. They come from replicas.
func (m *Mux) Raft() net.Listener { return m.raft }

// Gossip returns the listener of gossip connections. They come from replicas.
func (m *Mux) Gossip() net.Listener { return m.gossip }

// HTTP returns the listener of HTTP connections, for an http.Server prepared by ConfigureServer.
// With Mutual security they are *tls.Conn whose handshake is complete.
func (m *Mux) HTTP() net.Listener { return m.http }

// Packets returns the UDP socket under the same port number.
func (m *Mux) Packets() net.PacketConn { return m.udp }

// Close closes the port, the listeners, and the connections that have not been
// accepted yet. Accepted ones stay open.
func (m *Mux) Close() error {
	m.closeOnce.Do(func() {
		m.cancel()
		m.closeErr = m.tcp.Close()
		// Gossip may have closed its socket before.
		if err := m.udp.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			m.closeErr = errors.Join(m.closeErr, err)
		}
		m.mu.Lock()
		pending := m.pending
		m.pending = nil
		m.mu.Unlock()
		for conn := range pending {
			_ = conn.Close() // The error of its handshake is not logged after Close.
		}
		m.running.Wait()
		for _, l := range []*listener{m.raft, m.gossip, m.http} {
			_ = l.Close() // Never fails.
		}
	})
	return m.closeErr
}

func (m *Mux) accept() {
	const maxPause = time.Second
	pause := 5 * time.Millisecond
	for {
		select {
		case m.handshakes <- struct{}{}:
		case <-m.ctx.Done():
			return
		}
		conn, err := m.tcp.Accept()
		if err != nil {
			<-m.handshakes
			if m.ctx.Err() != nil {
				return
			}
			// Most likely file descriptors have run out; retry.
			m.log.refused(nil, "accept", err)
			select {
			case <-time.After(pause):
				pause = min(2*pause, maxPause)
			case <-m.ctx.Done():
				return
			}
			continue
		}
		pause = 5 * time.Millisecond
		m.running.Go(func() {
			defer func() { <-m.handshakes }()
			m.serve(conn)
		})
	}
}

// serve does the handshake of conn and hands it to the listener of its
// protocol, or closes it.
func (m *Mux) serve(conn net.Conn) {
	m.mu.Lock()
	closed := m.pending == nil
	if !closed {
		m.pending[conn] = struct{}{}
	}
	m.mu.Unlock()
	if closed {
		_ = conn.Close()
		return
	}
	ready, chosen, err := m.handshake(conn)
	m.mu.Lock()
	delete(m.pending, conn)
	m.mu.Unlock()
	if err != nil {
		_ = conn.Close()
		if m.ctx.Err() == nil {
			m.log.refused(conn.RemoteAddr(), "handshake", err)
		}
		return
	}
	to := map[protocol]*listener{raftProtocol: m.raft, gossipProtocol: m.gossip, httpProtocol: m.http}[chosen]
	if err := to.deliver(ready); err != nil {
		_ = ready.Close()
		if errors.Is(err, net.ErrClosed) {
			// The protocol has stopped, and the port is about to close.
			return
		}
		m.log.refused(conn.RemoteAddr(), chosen.String(), err)
	}
}

func (m *Mux) handshake(conn net.Conn) (net.Conn, protocol, error) {
	if err := conn.SetDeadline(time.Now().Add(m.config.HandshakeTimeout)); err != nil {
		return nil, 0, err
	}
	shake := m.handshakePlain
	if m.tls != nil {
		shake = m.handshakeTLS
	}
	ready, chosen, err := shake(conn)
	if err != nil {
		return nil, 0, err
	}
	if chosen != httpProtocol {
		if _, err := ready.Write([]byte{byteAccepted}); err != nil {
			return nil, 0, err
		}
	}
	return ready, chosen, conn.SetDeadline(time.Time{})
}

func (m *Mux) handshakeTLS(conn net.Conn) (net.Conn, protocol, error) {
	secured := tls.Server(conn, m.tls)
	if err := secured.HandshakeContext(m.ctx); err != nil {
		return nil, 0, identity.Explain(err)
	}
	// VerifyConnection has checked that the peer's role may speak this protocol.
	name := secured.ConnectionState().NegotiatedProtocol
	chosen, ok := protocolOf(name)
	if !ok {
		return nil, 0, fmt.Errorf("unknown protocol %q", name)
	}
	return secured, chosen, nil
}

func (m *Mux) handshakePlain(conn net.Conn) (net.Conn, protocol, error) {
	reader := bufio.NewReaderSize(conn, 16)
	first, err := reader.Peek(1)
	if err != nil {
		return nil, 0, err
	}
	chosen := httpProtocol
	switch first[0] {
	case byteHandshake:
		return nil, 0, errors.New("the peer uses TLS, but this port is plaintext: start both with the same security")
	case byteRaft:
		chosen = raftProtocol
	case byteGossip:
		chosen = gossipProtocol
	}
	if chosen != httpProtocol {
		var start [1 + len(preface)]byte
		if _, err := io.ReadFull(reader, start[:]); err != nil {
			return nil, 0, err
		}
		if string(start[1:]) != preface {
			return nil, 0, fmt.Errorf("%v connection starts with %q: the peer is not a weir process", chosen, start)
		}
	}
	return &plainConn{Conn: conn, reader: reader}, chosen, nil
}

// plainConn is a plaintext connection of which a few bytes were read ahead.
type plainConn struct {
	net.Conn
	reader *bufio.Reader
}

// Read returns the bytes that were read ahead first.
func (c *plainConn) Read(p []byte) (int, error) {
	if c.reader.Buffered() > 0 {
		return c.reader.Read(p)
	}
	return c.Conn.Read(p)
}
