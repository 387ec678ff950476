package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"weir/cluster/identity"
)

// keepAliveConfig finds dead peers of idle connections within five seconds:
// silence for 2 s, then three probes a second apart.
var keepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3}

// Dialer connects to replicas. It is safe for concurrent use.
type Dialer struct {
	security Security
	net      net.Dialer
}

// NewDialer returns a Dialer for ports opened with the same kind of security.
func NewDialer(security Security) (*Dialer, error) {
	if security == nil {
		return nil, errors.New("dialer: security must be chosen, Mutual or Insecure")
	}
	if err := security.validate(); err != nil {
		return nil, fmt.Errorf("dialer: %w", err)
	}
	return &Dialer{security: security, net: net.Dialer{KeepAliveConfig: keepAliveConfig}}, nil
}

// DialRaft returns a raft connection that the replica at addr, host:port, has
// accepted.
func (d *Dialer) DialRaft(ctx context.Context, addr string) (net.Conn, error) {
	return d.dial(ctx, addr, raftProtocol)
}

// DialGossip returns a gossip connection that the replica at addr, host:port,
// has accepted.
func (d *Dialer) DialGossip(ctx context.Context, addr string) (net.Conn, error) {
	return d.dial(ctx, addr, gossipProtocol)
}

func (d *Dialer) dial(ctx context.Context, addr string, chosen protocol) (net.Conn, error) {
	return d.open(ctx, addr, chosen.String(), func(raw net.Conn) (net.Conn, error) { return d.introduce(ctx, raw, chosen) })
}

// open dials addr for a protocol, and returns what begin makes of the connection.
func (d *Dialer) open(ctx context.Context, addr, protocol string, begin func(raw net.Conn) (net.Conn, error)) (net.Conn, error) {
	raw, err := d.net.DialContext(ctx, "tcp", addr)
	if deadline, ok := ctx.Deadline(); err != nil && ok && !time.Now().Before(deadline) {
		// The socket may reach the context's deadline a moment before the context is done.
		<-ctx.Done()
		err = fmt.Errorf("%s: %w", addr, context.Cause(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", protocol, err)
	}
	// Only closing the connection ends a blocked handshake.
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn, err := begin(raw)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = raw.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("dial %s %s: %w", protocol, addr, err)
	}
	return conn, nil
}

// introduce presents our credentials and the protocol, and waits to be accepted.
func (d *Dialer) introduce(ctx context.Context, raw net.Conn, chosen protocol) (net.Conn, error) {
	conn := raw
	switch security := d.security.(type) {
	case Mutual:
		secured, err := security.shake(ctx, raw, chosen.alpn())
		if err != nil {
			return nil, identity.Explain(err)
		}
		conn = secured
	case Insecure:
		first := byte(byteGossip)
		if chosen == raftProtocol {
			first = byteRaft
		}
		if _, err := raw.Write(append([]byte{first}, preface...)); err != nil {
			return nil, err
		}
	}
	var answer [1]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return nil, d.explainSilence(err)
	}
	if answer[0] != byteAccepted {
		return nil, fmt.Errorf("answered %#02x instead of %#02x: is it a replica's port?", answer[0], byteAccepted)
	}
	return conn, nil
}

// explainSilence explains the error when a peer ends a connection without
// accepting it.
func (d *Dialer) explainSilence(err error) error {
	closed := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	if _, plaintext := d.security.(Insecure); plaintext && closed {
		return fmt.Errorf("%w: it may use TLS, while this process uses plaintext: see its log: %w", identity.ErrRefused, err)
	}
	if closed {
		return fmt.Errorf("%w: see its log: %w", identity.ErrRefused, err)
	}
	return identity.Explain(err)
}
