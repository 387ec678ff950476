package remote_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"weir/actors/remote"
)

// strange returns a message of a type that no registry knows.
func strange(t testing.TB) proto.Message {
	t.Helper()
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name:        proto.String("strange.proto"),
		Package:     proto.String("strange"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Thing")}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return dynamicpb.NewMessage(file.Messages().ByName("Thing"))
}

// checkError wants err to be of the kind of want and to say wantText.
func checkError(t testing.TB, err, want error, wantText string) {
	t.Helper()
	matches := errors.Is(err, want)
	if _, ok := errors.AsType[*remote.ErrRefused](want); ok {
		_, matches = errors.AsType[*remote.ErrRefused](err)
	}
	if !matches || !strings.Contains(err.Error(), wantText) {
		t.Errorf("error %v, want %v that says %q", err, want, wantText)
	}
}

// eventually waits until what is true.
func eventually(t testing.TB, what func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !what(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not so after %v", patience)
		}
	}
}

// link forwards connections, until it is frozen: then they stay open and carry
// nothing more, not even after thaw. New ones pass again after thaw.
type link struct {
	listener net.Listener
	to       string
	done     sync.WaitGroup

	mu     sync.Mutex
	frozen bool
	conns  []*frozenConn
}

// frozenConn is one side of a forwarded connection.
type frozenConn struct {
	net.Conn
	frozen chan struct{}
	ended  chan struct{}
}

// Read returns nothing once the connection is frozen.
func (c *frozenConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	select {
	case <-c.frozen:
		<-c.ended
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func newLink(t testing.TB, to string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{listener: listener, to: to}
	l.done.Go(l.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		l.freeze()
		l.mu.Lock()
		for _, c := range l.conns {
			close(c.ended)
			_ = c.Conn.Close()
		}
		l.mu.Unlock()
		l.done.Wait()
	})
	return l
}

func (l *link) addr() string { return l.listener.Addr().String() }

func (l *link) accept() {
	for {
		in, err := l.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", l.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		a, b := l.hold(in), l.hold(out)
		l.done.Go(func() { l.forward(a, b) })
		l.done.Go(func() { l.forward(b, a) })
	}
}

func (l *link) hold(conn net.Conn) *frozenConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &frozenConn{Conn: conn, frozen: make(chan struct{}), ended: make(chan struct{})}
	if l.frozen {
		close(c.frozen)
	}
	l.conns = append(l.conns, c)
	return c
}

func (l *link) forward(from, to *frozenConn) {
	_, _ = io.Copy(struct{ io.Writer }{to}, from)
	_ = to.Conn.Close()
}

func (l *link) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen {
		return
	}
	l.frozen = true
	for _, c := range l.conns {
		select {
		case <-c.frozen:
		default:
			close(c.frozen)
		}
	}
}

func (l *link) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = false
}
