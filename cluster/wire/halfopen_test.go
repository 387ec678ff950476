package wire_test

import (
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"weir/cluster/identity"
	"weir/cluster/identity/identitytest"
)

// hole forwards one connection to a replica until it falls silent: open, but
// carrying nothing, as when a machine is cut off.
type hole struct {
	net.Listener
	silent chan struct{}
	ended  sync.WaitGroup
}

func newHole(t *testing.T, to string) *hole {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hole{Listener: l, silent: make(chan struct{})}
	h.ended.Go(func() {
		near, err := l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", to)
		if err != nil {
			_ = near.Close()
			return
		}
		h.ended.Go(func() { h.copy(far, near) })
		h.copy(near, far)
		_, _ = near.Close(), far.Close()
	})
	t.Cleanup(func() {
		_ = l.Close()
		h.ended.Wait()
	})
	return h
}

// copy forwards bytes, and swallows them once h is silent.
func (h *hole) copy(to, from net.Conn) {
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			_ = to.Close()
			return
		}
		select {
		case <-h.silent:
		default:
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
}

// TestHalfOpenPeerIsNoticed cuts a stream's peer off without a word, and waits
// for the stream to fail by itself.
func TestHalfOpenPeerIsNoticed(t *testing.T) {
	cluster := identitytest.New(t, "c1")
	mux, _ := listen(t, mutual(t, cluster, identity.Replica, "r1"))
	left := make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	})}
	mux.ConfigureServer(server)
	go func() { _ = server.Serve(mux.HTTP()) }()
	defer func() { _ = server.Close() }()

	proxy := newHole(t, mux.Addr().String())
	d := dialer(t, mutual(t, cluster, identity.Agent, "a1"))
	client := d.HTTPClient(0)
	defer client.CloseIdleConnections()
	response, err := client.Get(d.URL(proxy.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	close(proxy.silent)
	failed := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(response.Body)
		failed <- err
	}()
	select {
	case err := <-failed:
		if err == nil {
			t.Error("the stream of a silent peer ended as if it were whole")
		}
	case <-time.After(deadline):
		t.Fatal("the client takes a silent peer for a live one")
	}
	select {
	case <-left:
	case <-time.After(deadline):
		t.Fatal("the server takes a silent peer for a live one")
	}
}
