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
	// HelloTimeout bounds the time from accepting a connection to its ClientHello, unless a
	// member has been at its address. Default 1 s: clients send it at once.
	HelloTimeout time.Duration
	// HandshakeTimeout bounds the time from accepting a connection to the end of
	// its handshake, and memberPatience times as long if a member has been at its address. Default 5 s: a handshake
	// takes two round trips.
	HandshakeTimeout time.Duration
	// Limits bound connections in their handshake, and those of one user.
	Limits Limits
	// Members are the addresses, host:port, of replicas. Connections from there have the room of
	// members from the start. Other addresses of members are learned from their certificates.
	Members []string
	// only, if set, are the roles that the port is for. It has HTTP/1.1 then, and nothing else.
	only []identity.Role
	// Backlog bounds the connections of one protocol that wait for Accept;
	// further ones are closed. Default 128.
	Backlog int
}

// withDefaults returns c with defaults in place of zeroes.
func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.HelloTimeout, c.HandshakeTimeout = cmp.Or(c.HelloTimeout, time.Second), cmp.Or(c.HandshakeTimeout, 5*time.Second)
	c.Limits, c.Backlog = c.Limits.withDefaults(), cmp.Or(c.Backlog, 128)
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
	case c.HelloTimeout < 0 || c.HandshakeTimeout < 0 || c.Backlog < 0:
		return fmt.Errorf("hello timeout %v, handshake timeout %v, backlog %d: must not be negative", c.HelloTimeout, c.HandshakeTimeout, c.Backlog)
	}
	return cmp.Or(c.Limits.validate(), c.Security.validate())
}

// Mux is one open port that hands out its connections by protocol.
type Mux struct {
	config Config
	tcp    net.Listener
	udp    net.PacketConn
	tls    *tls.Config // nil in plaintext
	log    *refusalLog

	raft, gossip, http *listener

	gate      *gate
	pen       pen
	penRoom   int
	ctx       context.Context
	cancel    context.CancelFunc
	running   sync.WaitGroup
	closeOnce sync.Once
	closeErr  error
}

// Listen opens the port that config describes and starts to accept connections.
func Listen(config Config) (*Mux, error) {
	config = config.withDefaults()
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	tcp, udp, err := openPort(config.Address, config.only == nil)
	if err != nil {
		return nil, fmt.Errorf("listen %s: %w", config.Address, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &Mux{
		config: config,
		tcp:    tcp,
		udp:    udp,
		log:    &refusalLog{logger: config.Logger},
		raft:   newListener(tcp.Addr(), config.Backlog),
		gossip: newListener(tcp.Addr(), config.Backlog),
		http:   newListener(tcp.Addr(), config.Backlog),
		gate:   newGate(config),
		// It changes only while nothing is connected.
		penRoom: roomInPen(),
		ctx:     ctx,
		cancel:  cancel,
	}
	switch security := config.Security.(type) {
	case Mutual:
		m.tls = security.server(config.only)
	case Insecure:
		config.Logger.Warn("INSECURE: plaintext port; anyone who can reach it controls the cluster", "address", tcp.Addr().String())
	}
	for _, member := range config.Members {
		m.running.Go(func() { m.expect(member) })
	}
	m.running.Go(m.accept)
	return m, nil
}

// expect makes the address of a member known. A name that cannot be looked up is ignored: the address is
// learned later.
func (m *Mux) expect(member string) {
	host, _, err := net.SplitHostPort(member)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(m.ctx, 10*time.Second)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		m.config.Logger.Debug("address of a member is not known yet", "address", member, "error", err)
	}
	for _, address := range addresses {
		m.gate.expect(address)
	}
}

// openPort opens address for TCP, and for UDP under the same port number if `both` says so.
func openPort(address string, both bool) (net.Listener, net.PacketConn, error) {
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
		if err != nil || !both {
			return tcp, nil, err
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
		if m.udp != nil {
			if err := m.udp.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				m.closeErr = errors.Join(m.closeErr, err)
			}
		}
		m.running.Wait() // The end of ctx ends the handshakes.
		m.gate.close()
		m.pen.close()
		for _, l := range []*listener{m.raft, m.gossip, m.http} {
			_ = l.Close() // Never fails.
		}
	})
	return m.closeErr
}

// Stats returns how many connections are in their handshake, and how many were refused.
func (m *Mux) Stats() Stats { return m.gate.stats() }

// accept takes every connection at once: those that have to wait, wait at the gate.
func (m *Mux) accept() {
	const maxPause = time.Second
	pause := 5 * time.Millisecond
	for {
		conn, err := m.tcp.Accept()
		if err != nil {
			if m.ctx.Err() != nil {
				return
			}
			// Most likely file descriptors have run out; retry.
			m.gate.countRefusal(RefusedAccept)
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
		visitor := m.gate.enter(m.ctx, conn)
		m.running.Go(func() { m.serve(visitor) })
	}
}

// serve does the handshake of a connection and hands it to the listener of its
// protocol, or closes it.
func (m *Mux) serve(v *visitor) {
	defer v.stop(nil)
	// This ends a handshake that waits for the peer, but leaves the connection open.
	stop := context.AfterFunc(v.ctx, func() { _ = v.Conn.SetDeadline(time.Unix(1, 0)) })
	ready, chosen, err := m.handshake(v)
	if !stop() {
		err = cmp.Or(err, context.Cause(v.ctx))
	}
	if err == nil {
		err = m.gate.admit(v, identityOf(ready))
	}
	if err != nil {
		if ready != nil {
			_ = ready.Close()
		}
		why, cause := m.gate.leave(v, err)
		// Members come again, and are let in then.
		silent := v.hurried && !v.heard && (why == RefusedSilent || why == RefusedCrowded)
		if !silent || !m.pen.put(v.Conn, m.penRoom, time.Now()) {
			_ = v.Conn.Close()
		}
		if m.ctx.Err() == nil {
			m.log.refused(v.RemoteAddr(), "handshake", cause, "reason", why)
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
		m.gate.countRefusal(RefusedBacklog)
		m.log.refused(v.RemoteAddr(), chosen.String(), err, "reason", RefusedBacklog)
	}
}

func (m *Mux) handshake(v *visitor) (net.Conn, protocol, error) {
	if v.hurried {
		if err := v.SetDeadline(time.Now().Add(m.config.HelloTimeout)); err != nil {
			return nil, 0, err
		}
	}
	shake := m.handshakePlain
	if m.tls != nil {
		shake = m.handshakeTLS
	}
	ready, chosen, err := shake(v)
	if err != nil {
		return nil, 0, err
	}
	if chosen != httpProtocol {
		if _, err := ready.Write([]byte{byteAccepted}); err != nil {
			return ready, 0, err
		}
	}
	return ready, chosen, v.SetDeadline(time.Time{})
}

func (m *Mux) handshakeTLS(v *visitor) (net.Conn, protocol, error) {
	// Silent strangers cost no more than their connection.
	if err := v.listen(); err != nil {
		return nil, 0, err
	}
	guarded, config := m.config.Security.(Mutual).Credentials.Guard(v, m.tls)
	config.GetConfigForClient = v.hear
	secured := tls.Server(guarded, config)
	if err := secured.Handshake(); err != nil {
		_ = guarded.Close()
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

// identityOf returns who is at the other end of a connection; nobody in plaintext.
func identityOf(conn net.Conn) identity.Identity {
	secured, ok := conn.(*tls.Conn)
	if !ok {
		return identity.Identity{}
	}
	who, _ := identity.PeerIdentity(secured.ConnectionState()) // VerifyConnection has seen it.
	return who
}

func (m *Mux) handshakePlain(conn *visitor) (net.Conn, protocol, error) {
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
