package remote

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/cluster/identity"
	"weir/messages/remotepb"
)

// envelopes are batches as they travel: five bytes of flags and length before each.
func envelopes(f *testing.F, batches ...*remotepb.Batch) []byte {
	f.Helper()
	var stream []byte
	for _, batch := range batches {
		data, err := proto.Marshal(batch)
		if err != nil {
			f.Fatal(err)
		}
		stream = binary.BigEndian.AppendUint32(append(stream, 0), uint32(len(data)))
		stream = append(stream, data...)
	}
	return stream
}

// prefixed are batches as they travel on a connection of their own: four bytes of length before each.
func prefixed(f *testing.F, batches ...*remotepb.Batch) []byte {
	f.Helper()
	conn := &recorded{}
	for _, batch := range batches {
		if err := (&framed{conn: conn}).Send(batch); err != nil {
			f.Fatal(err)
		}
	}
	return conn.out.Bytes()
}

// recorded is a connection whose peer has sent `in` and closed it.
type recorded struct {
	net.Conn
	in *bytes.Reader

	mu  sync.Mutex
	out bytes.Buffer
}

func (c *recorded) Read(p []byte) (int, error) { return c.in.Read(p) }

func (c *recorded) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(p)
}

func (*recorded) SetDeadline(time.Time) error      { return nil }
func (*recorded) SetReadDeadline(time.Time) error  { return nil }
func (*recorded) SetWriteDeadline(time.Time) error { return nil }
func (*recorded) Close() error                     { return nil }

// read returns what was written to the connection as frames; false: it is not made of batches.
func (c *recorded) read() (frames []*remotepb.Frame, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	back := &framed{conn: &recorded{in: bytes.NewReader(c.out.Bytes())}, maxBytes: c.out.Len()}
	for {
		batch, err := back.Receive()
		if err != nil {
			return frames, errors.Is(err, io.EOF)
		}
		frames = append(frames, batch.GetFrames()...)
	}
}

// framesOf returns the frames of a whole answer; false: it is not made of batches.
// The last envelope is the end of the stream, in JSON.
func framesOf(stream []byte) (frames []*remotepb.Frame, ok bool) {
	for len(stream) > 0 {
		if len(stream) < 5 || int(binary.BigEndian.Uint32(stream[1:])) > len(stream)-5 {
			return nil, false
		}
		flags, size := stream[0], int(binary.BigEndian.Uint32(stream[1:]))
		if flags == 2 {
			return frames, len(stream) == 5+size
		}
		batch := new(remotepb.Batch)
		if flags != 0 || proto.Unmarshal(stream[5:5+size], batch) != nil {
			return nil, false
		}
		frames, stream = append(frames, batch.GetFrames()...), stream[5+size:]
	}
	return frames, true
}

// FuzzStream feeds both kinds of streams all that a broken or hostile peer might
// send from the first byte on: lengths or envelopes, the hello, and frames.
func FuzzStream(f *testing.F) {
	payload, err := anypb.New(wrapperspb.String("x"))
	if err != nil {
		f.Fatal(err)
	}
	batch := func(frames ...*remotepb.Frame) *remotepb.Batch { return &remotepb.Batch{Frames: frames} }
	hello := batch(&remotepb.Frame{Kind: &remotepb.Frame_Hello{Hello: &remotepb.Hello{
		Protocol: protocol, Cluster: "test", Peer: "agent/n7", To: "replica/r1", Incarnation: 7, Version: "v9", MaxMessageBytes: 1 << 10}}})
	send := &remotepb.Frame{Kind: &remotepb.Frame_Send{Send: &remotepb.Send{To: "echo", Payload: payload}}}
	request := &remotepb.Frame{Kind: &remotepb.Frame_Request{Request: &remotepb.Request{To: "echo", Payload: payload, Id: 1, TimeoutMillis: 100}}}
	reply := &remotepb.Frame{Kind: &remotepb.Frame_Reply{Reply: &remotepb.Reply{Id: 1, Payload: payload}}}
	failure := &remotepb.Frame{Kind: &remotepb.Frame_Failure{Failure: &remotepb.Failure{Id: 1, Code: remotepb.Failure_CODE_NOT_FOUND, Detail: "x"}}}
	ping := &remotepb.Frame{Kind: &remotepb.Frame_Ping{Ping: &remotepb.Ping{}}}
	bye := &remotepb.Frame{Kind: &remotepb.Frame_Bye{Bye: &remotepb.Bye{Reason: "enough"}}}
	f.Add(envelopes(f, hello))
	f.Add(envelopes(f, hello, batch(send, request, ping), batch(reply, failure), batch(bye)))
	f.Add(envelopes(f, hello, hello, batch(request, request), batch()))
	f.Add(envelopes(f, batch(send), hello))
	f.Add(prefixed(f, hello))
	f.Add(prefixed(f, hello, batch(send, request, ping), batch(reply, failure), batch(bye)))
	f.Add(prefixed(f, hello, hello, batch(request, request), batch()))
	f.Add(prefixed(f, batch(send), hello))

	peer := identity.Identity{Cluster: "test", Role: identity.Agent, Name: "n7"}
	r, took, wrong := fuzzed(f, peer)
	_, handler := r.Handler()
	f.Fuzz(func(t *testing.T, data []byte) {
		in := httptest.NewRequestWithContext(t.Context(), http.MethodPost, procedure, io.NopCloser(bytes.NewReader(data)))
		in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/2.0", 2, 0
		in.Header.Set("Content-Type", "application/connect+proto")
		out := &answer{ResponseRecorder: httptest.NewRecorder()}
		conn := &recorded{in: bytes.NewReader(data)}
		for name, try := range map[string]func() ([]*remotepb.Frame, bool){
			"a request": func() ([]*remotepb.Frame, bool) {
				handler.ServeHTTP(out, in)
				return framesOf(out.Body.Bytes())
			},
			"a connection": func() ([]*remotepb.Frame, bool) {
				_ = r.attend(&framed{conn: conn, maxBytes: r.limits.maxReadBytes()}, newcomer{certified: peer})
				return conn.read()
			},
		} {
			before := took.Load()
			frames, whole := try()
			if left := r.allSessions(); len(left) > 0 {
				t.Fatalf("%s: %d sessions are left of a stream that has ended", name, len(left))
			}
			if !whole {
				t.Fatalf("%s: answered %x, %x", name, out.Body.Bytes(), conn.out.Bytes())
			}
			answers := 0
			for i, frame := range frames {
				if _, greets := frame.GetKind().(*remotepb.Frame_Hello); greets != (i == 0 && frame.GetBye() == nil) {
					t.Errorf("%s: frame %d of the answer is %v", name, i, frame)
				}
				if frame.GetReply() != nil {
					answers++
				}
			}
			if in := wrong.Load(); in != nil {
				t.Errorf("%s: an actor got %v from %s", name, in.Message, in.From)
			}
			if asked := int(took.Load() - before); answers > asked {
				t.Errorf("%s: %d replies to %d requests", name, answers, asked)
			}
		}
	})
}

// answer takes what a handler writes from several goroutines.
type answer struct {
	mu sync.Mutex
	*httptest.ResponseRecorder
}

// Write implements http.ResponseWriter.
func (a *answer) Write(data []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ResponseRecorder.Write(data)
}

// fuzzed returns a process with an actor that counts what it is asked and answers
// it, and keeps what should have been refused.
func fuzzed(f *testing.F, peer identity.Identity) (r *Remote, took *atomic.Int64, wrong *atomic.Pointer[Inbound]) {
	f.Helper()
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterThrottleInterval(time.Millisecond))
	limits := DefaultLimits()
	limits.MaxMessageBytes = 1 << 10
	var err error
	r, err = Start(system, Config{
		Self:       identity.Identity{Cluster: "test", Role: identity.Replica, Name: "r1"},
		IdentityOf: func(*http.Request) (identity.Identity, error) { return peer, nil }, Limits: limits, Logger: quiet,
	})
	if err != nil {
		f.Fatal(err)
	}
	took, wrong = new(atomic.Int64), new(atomic.Pointer[Inbound])
	inbox := r.NewInbox(nil)
	pid := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		in, ok := ctx.Message().(*Inbound)
		switch {
		case !ok:
		case in.From != peer || in.Message == nil || proto.Size(in.Message) > 2*limits.MaxMessageBytes:
			wrong.Store(in)
		case !in.Deadline.IsZero():
			took.Add(1)
			ctx.Respond(in.Message)
		}
	}, inbox.Mailbox()))
	if err := r.Publish("echo", pid, inbox, identity.Agent); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		r.Close()
		_ = system.Root.PoisonFuture(pid).Wait()
		system.Shutdown()
	})
	return r, took, wrong
}
