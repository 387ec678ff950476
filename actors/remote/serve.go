package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"weir/cluster/identity"
	"weir/messages/remotepb"
)

// procedure is the method that opens a stream.
const procedure = "/weir.remote.v1.Remote/Stream"

// Handler returns the handler of streams that peers open, and the path to mount it at: as frames on an HTTP/1.1
// connection that it takes over, or, for peers of the former version, in a request over HTTP/2. Close the Remote before
// the server shuts down: streams do not end by themselves.
func (r *Remote) Handler() (path string, handler http.Handler) {
	streams := connect.NewBidiStreamHandler(procedure, r.serve, r.wireOptions(),
		connect.WithCompression("gzip", nil, nil))
	return procedure, http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Header.Get("Upgrade") == framesProtocol {
			r.takeOver(w, request)
			return
		}
		opened := &served{control: http.NewResponseController(w)}
		opened.from = r.newcomer(request)
		defer opened.close()
		// A stream lasts longer than the server's timeout for a response.
		_ = opened.control.SetWriteDeadline(time.Time{})
		streams.ServeHTTP(w, request.WithContext(context.WithValue(request.Context(), servedKey{}, opened)))
	})
}

// newcomer is who opens a stream, as the request says.
type newcomer struct {
	addr      string
	certified identity.Identity
	// refused is set if nobody is certified.
	refused error
}

func (r *Remote) newcomer(request *http.Request) newcomer {
	from := newcomer{addr: request.RemoteAddr}
	if r.config.IdentityOf == nil {
		from.refused = refusef("%s accepts no streams", r.self)
		return from
	}
	certified, err := r.config.IdentityOf(request)
	if err != nil {
		from.refused = refusef("%v", err)
	}
	from.certified = certified
	return from
}

// takeOver answers the request for a stream of frames, and runs it until it ends. It returns before: the goroutine and
// the buffers of the request are not kept for the stream.
func (r *Remote) takeOver(w http.ResponseWriter, request *http.Request) {
	from := r.newcomer(request)
	if !r.begin() {
		http.Error(w, ErrClosed.Error(), http.StatusServiceUnavailable)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		r.tasks.Done()
		http.Error(w, err.Error(), http.StatusHTTPVersionNotSupported)
		return
	}
	go func() {
		defer r.tasks.Done()
		defer func() { _ = conn.Close() }()
		opened := &framed{conn: conn, maxBytes: r.limits.maxReadBytes()}
		opened.setRead(time.Now().Add(r.limits.connect(r.config.Self.Role, from.certified.Role)))
		if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+framesProtocol+"\r\n\r\n"); err != nil {
			r.log.Info("stream failed during setup", "from", from.addr, "cause", err)
			return
		}
		_ = r.attend(opened, from) // It has been logged.
	}()
}

// opening is the transport of a stream that a peer opens.
type opening interface {
	transport
	// setRead sets a deadline for Receive; none if it is zero.
	setRead(deadline time.Time)
}

// attend runs a stream that a peer has opened, until it ends. The error has been logged, and says that there was no
// hello.
func (r *Remote) attend(opened opening, from newcomer) error {
	s, err := r.greet(opened, from)
	if err != nil {
		return r.refuse(opened, from, err)
	}
	if err := opened.Send(r.hello(s.peer.name)); err != nil {
		s.end(fmt.Errorf("stream failed: %w", err), "")
	}
	// The cause has been logged, and sent to the peer in a Bye.
	_ = s.run()
	return nil
}

// wireOptions are the options of both sides of a stream.
func (r *Remote) wireOptions() connect.Option {
	return connect.WithReadMaxBytes(r.limits.maxReadBytes())
}

type servedKey struct{}

// served is the transport of a stream that the peer has opened.
type served struct {
	*connect.BidiStream[remotepb.Batch, remotepb.Batch]
	from newcomer

	mu      sync.Mutex
	control *http.ResponseController // nil once the handler has returned.
}

// past is a deadline in the past: it fails reads and writes at once.
var past = time.Unix(1, 0)

func (s *served) setRead(deadline time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.control != nil {
		_ = s.control.SetReadDeadline(deadline)
	}
}

// finish makes Receive fail. The handler then returns, which ends the stream in an orderly way.
func (s *served) finish() { s.setRead(past) }

func (s *served) abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.control != nil {
		_ = s.control.SetReadDeadline(past)
		_ = s.control.SetWriteDeadline(past)
	}
}

// close makes setRead and abort do nothing once the handler has returned.
func (s *served) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.control = nil
}

// serve runs a stream that a peer has opened, until it ends.
func (r *Remote) serve(ctx context.Context, stream *connect.BidiStream[remotepb.Batch, remotepb.Batch]) error {
	opened, ok := ctx.Value(servedKey{}).(*served)
	if !ok {
		return connect.NewError(connect.CodeInternal, errors.New("handler mounted without its wrapper"))
	}
	opened.BidiStream = stream
	if !r.begin() {
		return connect.NewError(connect.CodeUnavailable, ErrClosed)
	}
	defer r.tasks.Done()
	if err := r.attend(opened, opened.from); err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	return nil
}

// greet receives and checks the peer's hello and makes a session of its stream.
func (r *Remote) greet(opened opening, from newcomer) (*session, error) {
	opened.setRead(time.Now().Add(r.limits.connect(r.config.Self.Role, from.certified.Role)))
	batch, err := opened.Receive()
	if from.refused != nil {
		// With the hello unread, the end of the connection could overtake the reason.
		return nil, from.refused
	}
	if err != nil {
		return nil, fmt.Errorf("hello of %s: %w", from.certified, err)
	}
	opened.setRead(time.Time{})
	peer, err := checkHello(r.config.Self, &from.certified, "", firstHello(batch))
	if err != nil {
		return nil, err
	}
	return r.enter(peer, false, opened)
}

// refuse logs why the peer's stream is not established, and sends the peer the reason.
func (r *Remote) refuse(opened opening, from newcomer, err error) error {
	var refused *ErrRefused
	if !errors.As(err, &refused) {
		r.log.Info("stream failed during setup", "from", from.addr, "cause", err)
		return err
	}
	r.counters.refusals.Add(1)
	r.log.Warn("peer rejected", "from", from.addr, "reason", refused.Reason)
	return opened.Send(bye(refused.Reason))
}

func firstHello(batch *remotepb.Batch) *remotepb.Hello {
	if len(batch.GetFrames()) == 0 {
		return nil
	}
	return batch.GetFrames()[0].GetHello()
}
