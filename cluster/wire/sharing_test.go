package wire_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"weir/cluster/identity"
	"weir/cluster/identity/identitytest"
	"weir/cluster/wire"
)

// TestRequestsShareAConnection (T5) makes many requests at once to a replica that was not dialed before. They are all
// open together, over one connection: the replica has one handshake to make, and hardly ever more.
func TestRequestsShareAConnection(t *testing.T) {
	const requests = 300
	cluster := identitytest.New(t, "c1")
	for name, of := range map[string]struct{ server, client wire.Security }{
		"mutual":   {mutual(t, cluster, identity.Replica, "r1"), mutual(t, cluster, identity.User, "ann")},
		"insecure": {wire.Insecure{}, wire.Insecure{}},
	} {
		t.Run(name, func(t *testing.T) {
			mux, _ := listen(t, of.server)
			var connections atomic.Int32
			var here sync.WaitGroup
			here.Add(requests)
			server := &http.Server{
				ConnState: func(_ net.Conn, state http.ConnState) {
					if state == http.StateNew {
						connections.Add(1)
					}
				},
				Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					here.Done()
					here.Wait()
					_, _ = io.WriteString(w, "all are here")
				}),
			}
			mux.ConfigureServer(server)
			go func() { _ = server.Serve(mux.HTTP()) }()
			defer func() { _ = server.Close() }()

			d := dialer(t, of.client)
			client := d.HTTPClient(deadline)
			defer client.CloseIdleConnections()
			var all sync.WaitGroup
			for range requests {
				all.Go(func() {
					response, err := client.Get(d.URL(mux.Addr().String()))
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				})
			}
			all.Wait()
			// http.Transport gives a new connection to the request that dialed, and to others a moment later.
			if got := connections.Load(); got > 3 {
				t.Errorf("%d connections, want 1, or 3 at most", got)
			}
		})
	}
}

// TestRequestsWaitForADial has requests wait for one that dials a host that says nothing. One that has no more
// time ends, as one that was not sent, and one behind it goes on when the first is given up.
func TestRequestsWaitForADial(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	dialed := make(chan net.Conn, 10)
	go func() {
		for conn, err := mute.Accept(); err == nil; conn, err = mute.Accept() {
			dialed <- conn
		}
		close(dialed)
	}()
	d := dialer(t, mutual(t, identitytest.New(t, "c1"), identity.User, "ann"))
	client := d.HTTPClient(0)
	defer client.CloseIdleConnections()
	ask := func() (cancel func(error), failed chan error) {
		ctx, cancel := context.WithCancelCause(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL(mute.Addr().String()), nil)
		if err != nil {
			t.Fatal(err)
		}
		failed = make(chan error, 1)
		go func() {
			response, err := client.Do(request)
			if err == nil {
				_ = response.Body.Close()
			}
			failed <- err
		}()
		return cancel, failed
	}
	errFirst, errSecond := errors.New("the first is given up"), errors.New("the second has no more time")
	first, firstFailed := ask()
	conn := <-dialed
	defer func() { _ = conn.Close() }()
	second, secondFailed := ask()
	second(errSecond)
	var network *net.OpError
	if err := <-secondFailed; !errors.As(err, &network) || network.Op != "dial" || !errors.Is(err, errSecond) {
		t.Errorf("the second: %v", err)
	}
	third, thirdFailed := ask()
	first(errFirst)
	if err := <-firstFailed; !errors.Is(err, errFirst) && !errors.Is(err, context.Canceled) {
		t.Errorf("the first: %v", err)
	}
	conn = <-dialed // The third dials now.
	_ = conn.Close()
	if err := <-thirdFailed; err == nil {
		t.Error("the third: a host that closes its connection answers")
	}
	third(nil)
	if len(dialed) > 0 {
		t.Error("a request that was given up dials")
	}
}
