package remote_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/actors/remote"
	"weir/cluster/identity"
)

func TestFullQueueFailsAtOnce(t *testing.T) {
	where := new(directory)
	r1 := start(t, where, replica("r1"), curt)
	link := newLink(t, r1.addr)
	where.set(r1.Self(), link.addr())
	n7 := start(t, where, agent("n7"), func(c *remote.Config) {
		curt(c)
		c.Limits.QueueMessages = 10
	})
	r1.collect(t, "inbox")
	n7.connect(t, r1)
	link.freeze()

	large := text(string(make([]byte, 256<<10)))
	refused := uint64(0)
	// Sockets and flow control hold some, as soon as the stream gets to it: what finds room
	// is tried again when the queue is full again.
	eventuallyFull := func(what string, try func() bool) {
		t.Helper()
		for range 1000 {
			if err := n7.Send(r1.Self(), "inbox", large); err != nil {
				checkError(t, err, remote.ErrQueueFull, "QueueMessages")
				refused++
				if try() {
					refused++
					return
				}
			}
		}
		t.Fatalf("%s always finds room", what)
	}
	eventuallyFull("a request", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := n7.Request(ctx, r1.Self(), "inbox", text("x"))
		if errors.Is(err, remote.ErrTimeout) {
			return false
		}
		checkError(t, err, remote.ErrQueueFull, "")
		return true
	})
	if got := n7.Stats().Dropped["queue_full"]; got != refused {
		t.Errorf("%d dropped, want %d", got, refused)
	}
}

func TestStartRefusesWhatCannotWork(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*remote.Config)
		want   string
	}{
		"no name":               {func(c *remote.Config) { c.Self = identity.Identity{} }, "self: identity"},
		"directory, no dialer":  {func(c *remote.Config) { c.Dialer = nil }, "directory and dialer must be set together"},
		"inboxes too small":     {func(c *remote.Config) { c.Limits.InboxBytes = 1 << 20 }, "InboxBytes is below MaxMessageBytes"},
		"a limit left out":      {func(c *remote.Config) { c.Limits.OpenRequests = 0 }, "OpenRequests is 0"},
		"a limit of no time":    {func(c *remote.Config) { c.Limits.RequestTimeout = 0 }, "RequestTimeout is 0s"},
		"queue below a message": {func(c *remote.Config) { c.Limits.QueueBytes = 1 }, "QueueBytes"},
		"impatience":            {func(c *remote.Config) { c.Limits.KeepAliveTimeout = c.Limits.KeepAlivePeriod }, "KeepAliveTimeout"},
		"pauses that shrink":    {func(c *remote.Config) { c.Limits.RedialMax = time.Millisecond }, "RedialMax"},
	} {
		t.Run(name, func(t *testing.T) {
			config := remote.Config{Self: replica("r1"), Directory: new(directory), Dialer: plainDialer{}, Limits: remote.DefaultLimits()}
			tc.change(&config)
			if _, err := remote.Start(nil, config); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one that says %q", err, tc.want)
			}
		})
	}
}

func TestStreamWithoutHelloIsEnded(t *testing.T) {
	r1 := start(t, new(directory), replica("r1"), func(c *remote.Config) { c.Limits.ConnectTimeout = 50 * time.Millisecond })
	path, _ := r1.Handler()
	conn, err := plainDialer{agent("n7")}.Upgrade(within(t), r1.addr, path, "weir-frames")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Error(err)
	}
}

// TestLargeBatchesEndTheStream has a peer that announces a batch of 4 GiB.
func TestLargeBatchesEndTheStream(t *testing.T) {
	r1 := start(t, new(directory), replica("r1"), nil)
	path, _ := r1.Handler()
	conn, err := plainDialer{agent("n7")}.Upgrade(within(t), r1.addr, path, "weir-frames")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte{0xff, 0xff, 0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Error(err)
	}
}

// TestPeersOfTheFormerVersion have streams in requests over HTTP/2, and know no upgrade.
func TestPeersOfTheFormerVersion(t *testing.T) {
	where := new(directory)
	r1, n7 := start(t, where, replica("r1"), nil), start(t, where, agent("n7"), nil)
	path, streams := r1.Handler()
	var http2 atomic.Int64
	former := http.NewServeMux()
	former.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			w.WriteHeader(http.StatusHTTPVersionNotSupported)
			return
		}
		http2.Add(1)
		streams.ServeHTTP(w, r)
	})
	r1.serveBy(t, where, former)
	r1.spawn(t, "echo", echo)
	n7.connect(t, r1)
	reply, err := n7.Request(within(t), r1.Self(), "echo", text("hello"))
	if got, ok := reply.(*wrapperspb.StringValue); err != nil || !ok || got.Value != "hello for agent/n7" || http2.Load() != 1 {
		t.Errorf("reply %v, error %v, %d streams over HTTP/2", reply, err, http2.Load())
	}
}

// TestOpenRequestsAreLimited lets an actor that never answers hold requests.
func TestOpenRequestsAreLimited(t *testing.T) {
	where := new(directory)
	r1 := start(t, where, replica("r1"), nil)
	n7 := start(t, where, agent("n7"), func(c *remote.Config) { c.Limits.OpenRequests = 3 })
	r1.spawn(t, "silent", func(actor.Context) {})
	n7.connect(t, r1)
	failed := make(chan error, 10)
	for range 4 {
		n7.RequestAsync(r1.Self(), "silent", text("x"), patience, func(_ proto.Message, err error) { failed <- err })
	}
	checkError(t, receive(t, failed), remote.ErrQueueFull, "OpenRequests")
	if len(failed) > 0 {
		t.Errorf("another failed: %v", <-failed)
	}
}

// TestBatchesFitTheReceiver sends much to a peer that reads little at once.
func TestBatchesFitTheReceiver(t *testing.T) {
	where := new(directory)
	r1 := start(t, where, replica("r1"), func(c *remote.Config) { c.Limits.MaxMessageBytes = 1 << 10 })
	n7 := start(t, where, agent("n7"), nil)
	got := r1.collect(t, "inbox")
	n7.connect(t, r1)
	message := strings.Repeat("x", 1000)
	for range 500 {
		if err := n7.Send(r1.Self(), "inbox", text(message)); err != nil {
			t.Fatal(err)
		}
		// Nobody waits for these, and each costs an answer.
		if err := n7.Send(r1.Self(), strings.Repeat("n", 150), text("lost")); err != nil {
			t.Fatal(err)
		}
	}
	for range 500 {
		if receive(t, got) != message {
			t.Fatal("a message was cut")
		}
	}
	eventually(t, func() bool { return n7.Stats().Dropped["undelivered"] == 500 })
	if !n7.Connected(r1.Self()) || len(n7.changes) > 0 {
		t.Error("the stream broke")
	}
}
