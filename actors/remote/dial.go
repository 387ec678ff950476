package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"connectrpc.com/connect"

	"weir/cluster/identity"
	"weir/messages/remotepb"
)

// Connect keeps a stream to peer (role/name) until Disconnect or Close. It does not dial while
// there is a stream that the peer has opened. It returns at once; Config.OnPeer reports when the
// stream is up.
func (r *Remote) Connect(peer string) error {
	switch _, _, err := ParsePeer(peer); {
	case err != nil:
		return fmt.Errorf("connect: %w", err)
	case peer == r.self:
		return fmt.Errorf("connect %s: a process cannot connect to itself", peer)
	case r.config.Dialer == nil:
		return fmt.Errorf("connect %s: this process has no dialer", peer)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return fmt.Errorf("connect %s: %w", peer, ErrClosed)
	}
	if _, wanted := r.wanted[peer]; wanted {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.wanted[peer] = cancel
	r.tasks.Go(func() { r.keepConnected(ctx, peer) })
	return nil
}

// keepConnected dials peer whenever there is no stream, with growing pauses.
func (r *Remote) keepConnected(ctx context.Context, peer string) {
	pause := r.limits.RedialMin
	told := ""
	for ctx.Err() == nil {
		if s := r.stream(peer); s != nil {
			select {
			case <-s.done:
			case <-ctx.Done():
			}
			continue
		}
		up, err := r.dial(ctx, peer)
		if up {
			pause, told = r.limits.RedialMin, ""
		} else if ctx.Err() == nil && r.stream(peer) == nil && err.Error() != told {
			told = err.Error()
			r.log.Warn("no stream to peer", "peer", peer, "cause", err)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2+1)):
		case <-ctx.Done():
		}
		pause = min(2*pause, r.limits.RedialMax)
	}
}

// dial opens a stream to peer and returns when the stream has ended. `up` says whether the stream
// was ever established.
func (r *Remote) dial(ctx context.Context, peer string) (up bool, err error) {
	addr, ok := r.config.Directory.Address(peer)
	if !ok {
		return false, errors.New("no known address")
	}
	role, _, err := ParsePeer(peer)
	if err != nil {
		return false, err
	}
	timeout := r.limits.connect(r.config.Self.Role, role)
	waiting, cancel := context.WithTimeoutCause(ctx, timeout, errNoAnswer)
	defer cancel()
	d, err := r.open(waiting, addr)
	if err != nil {
		return false, unreached(waiting, timeout, addr, err)
	}
	defer d.abort()
	// The end of ctx must not break an established stream: Disconnect and Close end it with a Bye to the peer.
	stop := context.AfterFunc(waiting, d.abort)
	found, err := r.introduce(d, peer)
	stop()
	var s *session
	if err == nil {
		s, err = r.enter(found, true, d)
	}
	if refused, ours := errors.AsType[*ErrRefused](err); ours && !refused.byPeer {
		r.counters.refusals.Add(1)
		r.sendAway(d, refused.Reason)
	}
	if err != nil {
		return false, unreached(waiting, timeout, addr, err)
	}
	if ctx.Err() != nil {
		s.end(errors.New("disconnected by this process"), r.self+" has disconnected")
	}
	return true, s.run()
}

var errNoAnswer = errors.New("no answer in time")

// unreached says why there is no stream with the peer at addr.
func unreached(waiting context.Context, timeout time.Duration, addr string, err error) error {
	if errors.Is(context.Cause(waiting), errNoAnswer) {
		err = fmt.Errorf("no answer within %v (ConnectTimeout): %w", timeout, err)
	}
	return fmt.Errorf("%s: %w", addr, err)
}

// line is the transport of a stream that this side opens.
type line interface {
	transport
	// protection returns the TLS state of the connection; nil without TLS. Call it after Receive has returned.
	protection() *tls.ConnectionState
}

// open opens a stream to the peer at addr: of frames, or in a request if the peer is of the former version.
func (r *Remote) open(ctx context.Context, addr string) (line, error) {
	conn, err := r.config.Dialer.Upgrade(ctx, addr, procedure, framesProtocol)
	switch {
	case err == nil:
		return &framed{conn: conn, maxBytes: r.limits.maxReadBytes()}, nil
	case !errors.Is(err, http.ErrNotSupported):
		return nil, err
	}
	lasting, cancel := context.WithCancel(context.Background())
	d := &dialed{client: r.config.Dialer.StreamClient(), cancel: cancel}
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { d.connected(info.Conn) }}
	d.BidiStreamForClient = connect.NewClient[remotepb.Batch, remotepb.Batch](d, r.config.Dialer.URL(addr)+procedure,
		r.wireOptions(), connect.WithAcceptCompression("gzip", nil, nil)).CallBidiStream(httptrace.WithClientTrace(lasting, trace))
	return d, nil
}

// introduce sends our hello, and receives and checks the peer's.
func (r *Remote) introduce(d line, peer string) (counterpart, error) {
	// Ignore the error: if the peer has ended the stream, Receive returns the reason.
	_ = d.Send(r.hello(peer))
	batch, err := d.Receive()
	if err != nil {
		return counterpart{}, err
	}
	if frames := batch.GetFrames(); len(frames) > 0 && frames[0].GetBye() != nil {
		return counterpart{}, &ErrRefused{Reason: frames[0].GetBye().GetReason(), byPeer: true}
	}
	certified, err := certifiedBy(d.protection())
	if err != nil {
		return counterpart{}, err
	}
	return checkHello(r.config.Self, certified, peer, firstHello(batch))
}

// sendAway sends the peer the reason for which it is refused, and waits until it ends the stream.
func (r *Remote) sendAway(d line, reason string) {
	if d.Send(bye(reason)) != nil {
		return
	}
	impatience := time.AfterFunc(r.limits.FarewellTimeout, d.abort)
	defer impatience.Stop()
	d.finish()
	for {
		if _, err := d.Receive(); err != nil {
			return
		}
	}
}

// dialed is the transport of a stream that this side has opened in a request. It has its own connection.
type dialed struct {
	*connect.BidiStreamForClient[remotepb.Batch, remotepb.Batch]
	client *http.Client
	cancel context.CancelFunc

	mu      sync.Mutex
	conn    net.Conn
	aborted bool
	tls     *tls.ConnectionState // nil without TLS, and before the answer.
}

// Do implements connect.HTTPClient.
func (d *dialed) Do(request *http.Request) (*http.Response, error) {
	response, err := d.client.Do(request)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.tls = response.TLS
	}
	return response, err
}

// protection returns the TLS state of the connection. Call it after Receive has
// returned.
func (d *dialed) protection() *tls.ConnectionState {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tls
}

func (d *dialed) connected(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conn = conn
	if d.aborted {
		d.hangUp()
	}
}

// finish closes this side's direction; the peer then closes the other.
func (d *dialed) finish() { _ = d.CloseRequest() }

// abort cancels the request and closes the connection: after cancelling alone, a
// write to a lost peer would still block.
func (d *dialed) abort() {
	d.cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil && !d.aborted {
		d.hangUp()
	}
	d.aborted = true
	d.client.CloseIdleConnections()
}

// hangUp closes the connection without waiting: under TLS, Close may first try to
// write an alert.
func (d *dialed) hangUp() {
	conn := d.conn
	go func() { _ = conn.Close() }()
}

// certifiedBy returns the identity in the certificate of the replica that answered; nil without
// TLS.
func certifiedBy(state *tls.ConnectionState) (*identity.Identity, error) {
	if state == nil {
		return nil, nil
	}
	id, err := identity.PeerIdentity(*state)
	if err != nil {
		return nil, refusef("%v", err)
	}
	return &id, nil
}
