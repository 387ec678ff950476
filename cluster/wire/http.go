package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"weir/cluster/identity"
)

// InsecureHeader is the HTTP header in which a client of an insecure port claims an identity, as
// role/name.
const InsecureHeader = "Weir-Insecure-Identity"

// InsecureCluster is the id of every cluster without certificates.
const InsecureCluster = "insecure"

// Bounds of HTTP connections.
const (
	// pingAfter and pingTimeout have a client detect a half-open connection within four
	// seconds: long enough for a loaded machine, shorter than a node's lease.
	pingAfter   = 2 * time.Second
	pingTimeout = 2 * time.Second
	// serverPing is after what silence a server pings a client, and how long it waits for the answer. It is
	// in no hurry, and may have thousands of them.
	serverPing = 10 * time.Second
	// handshakeTimeout bounds the handshake of a client.
	handshakeTimeout = 5 * time.Second
	// writeTimeout closes a connection whose peer has stopped reading.
	writeTimeout = 10 * time.Second
	// headerTimeout bounds the time that a request's headers may take.
	headerTimeout = 10 * time.Second
	// idleTimeout closes unused connections.
	idleTimeout = 2 * time.Minute
	// maxHeaders bounds the headers of a request.
	maxHeaders = 64 << 10
	// maxStreams bounds the requests and streams of one connection.
	maxStreams = 1000
)

// ConfigureServer prepares server, before it serves m.HTTP(), for HTTP/2 with liveness pings and
// for IdentityOfRequest. It sets Protocols and HTTP2. It sets ReadHeaderTimeout, IdleTimeout,
// MaxHeaderBytes and ErrorLog only if they are not set.
func (m *Mux) ConfigureServer(server *http.Server) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	server.Protocols = protocols
	server.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: maxStreams,
		SendPingTimeout:      serverPing,
		PingTimeout:          serverPing,
		WriteByteTimeout:     writeTimeout,
	}
	if server.ReadHeaderTimeout == 0 {
		server.ReadHeaderTimeout = headerTimeout
	}
	if server.MaxHeaderBytes == 0 {
		server.MaxHeaderBytes = maxHeaders
	}
	if server.IdleTimeout == 0 {
		server.IdleTimeout = idleTimeout
	}
	if server.ErrorLog == nil {
		// Broken connections are normal, so they are logged at debug level.
		server.ErrorLog = slog.NewLogLogger(m.config.Logger.Handler(), slog.LevelDebug)
	}
	if m.tls != nil {
		return
	}
	protocols.SetUnencryptedHTTP2(true)
	next := server.ConnContext
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if next != nil {
			ctx = next(ctx, conn)
		}
		if _, ok := conn.(*plainConn); ok {
			ctx = context.WithValue(ctx, insecureKey{}, true)
		}
		return ctx
	}
}

// insecureKey marks the contexts of requests that came through an insecure Mux.
type insecureKey struct{}

// IdentityOfRequest returns the identity of the client that sent r: the one in its certificate or,
// on an insecure port, the one that it claims. A client that claims none is the operator
// "insecure". A plaintext request that did not come through a Mux is an error.
func IdentityOfRequest(r *http.Request) (identity.Identity, error) {
	if r.TLS != nil {
		return identity.PeerIdentity(*r.TLS)
	}
	if insecure, _ := r.Context().Value(insecureKey{}).(bool); !insecure {
		return identity.Identity{}, fmt.Errorf("identity of request: %w", identity.ErrNoCertificate)
	}
	stated := r.Header.Get(InsecureHeader)
	if stated == "" {
		return identity.Identity{Cluster: InsecureCluster, Role: identity.Operator, Name: "insecure"}, nil
	}
	role, name, ok := strings.Cut(stated, "/")
	if !ok {
		return identity.Identity{}, fmt.Errorf("header %s: %q: want role/name", InsecureHeader, stated)
	}
	id := identity.Identity{Cluster: InsecureCluster, Name: name}
	var err error
	if id.Role, err = identity.ParseRole(role); err == nil {
		err = id.Validate()
	}
	if err != nil {
		return identity.Identity{}, fmt.Errorf("header %s: %w", InsecureHeader, err)
	}
	return id, nil
}

// URL returns the base URL of the replica at addr, host:port, for HTTPClient.
func (d *Dialer) URL(addr string) string {
	if _, ok := d.security.(Mutual); ok {
		return "https://" + addr
	}
	return "http://" + addr
}

// HTTPClient returns a client that speaks HTTP/2 with replicas. `timeout` bounds a whole request,
// including the body of the answer. With 0 only the context bounds a request, as streams need.
// Half-open connections are detected within seconds. CloseIdleConnections of the client closes the
// connections that the client keeps open. Requests to a replica share a connection: while one dials, the
// others wait for it.
func (d *Dialer) HTTPClient(timeout time.Duration) *http.Client {
	return d.client(timeout, &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: writeTimeout})
}

// StreamClient is like HTTPClient(0), for streams that find out by themselves whether the peer is still there.
func (d *Dialer) StreamClient() *http.Client {
	return d.client(0, &http.HTTP2Config{WriteByteTimeout: writeTimeout})
}

func (d *Dialer) client(timeout time.Duration, config *http.HTTP2Config) *http.Client {
	transport := &http.Transport{
		DialContext:     d.net.DialContext,
		IdleConnTimeout: idleTimeout,
		Protocols:       new(http.Protocols),
		HTTP2:           config,
	}
	shared := &sharing{Transport: transport, dialing: map[string]chan struct{}{}}
	client := &http.Client{Timeout: timeout}
	switch security := d.security.(type) {
	case Mutual:
		transport.Protocols.SetHTTP2(true)
		transport.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			raw, err := d.net.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
			defer cancel()
			return security.shake(ctx, raw, alpnHTTP2)
		}
		client.Transport = explaining{shared}
	case Insecure:
		transport.Protocols.SetUnencryptedHTTP2(true)
		client.Transport = shared
		if security.Self != (identity.Identity{}) {
			client.Transport = stating{shared, security.Self.Role.String() + "/" + security.Self.Name}
		}
	}
	return client
}

// sharing is a transport in which only one request to a host looks for its connection at a time. Where
// none is open, http.Transport alone would dial for each request that waits, and thousands of handshakes
// would be the answer to thousands of calls.
type sharing struct {
	*http.Transport

	mu      sync.Mutex
	dialing map[string]chan struct{} // by host; full while a request looks
}

func (t *sharing) place(host string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	place := t.dialing[host]
	if place == nil {
		place = make(chan struct{}, 1)
		t.dialing[host] = place
	}
	return place
}

// RoundTrip implements http.RoundTripper.
func (t *sharing) RoundTrip(r *http.Request) (*http.Response, error) {
	place := t.place(r.URL.Host)
	select {
	case place <- struct{}{}:
	case <-r.Context().Done():
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: context.Cause(r.Context())}
	}
	found := sync.OnceFunc(func() { <-place })
	defer found()
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { found() }}
	return t.Transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}

// explaining is a transport whose errors are passed through identity.Explain.
type explaining struct{ *sharing }

// RoundTrip implements http.RoundTripper.
func (t explaining) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.sharing.RoundTrip(r)
	if err != nil && !errors.Is(err, context.Canceled) {
		err = identity.Explain(err)
	}
	return response, err
}

// stating is a transport that claims an identity in InsecureHeader.
type stating struct {
	*sharing
	stated string
}

// RoundTrip implements http.RoundTripper.
func (t stating) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(InsecureHeader, t.stated)
	return t.sharing.RoundTrip(r)
}
