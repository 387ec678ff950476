package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"weir/messages/remotepb"
)

// procedure is the method that opens a stream.
const procedure = "/weir.remote.v1.Remote/Stream"

// Handler returns the handler of streams that peers open, and the path to mount it at. The server
// must speak HTTP/2. It should detect dead connections by pings, because only the server can abort
// a write to a peer that does not read. Close the Remote before the server shuts down: streams do
// not end by themselves.
func (r *Remote) Handler() (path string, handler http.Handler) {
	streams := connect.NewBidiStreamHandler(procedure, r.serve, r.wireOptions(),
		connect.WithCompression("gzip", nil, nil))
	return procedure, http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		opened := &served{request: request, control: http.NewResponseController(w)}
		defer opened.close()
		// A stream lasts longer than the server's timeout for a response.
		_ = opened.control.SetWriteDeadline(time.Time{})
		streams.ServeHTTP(w, request.WithContext(context.WithValue(request.Context(), servedKey{}, opened)))
	})
}

// wireOptions are the options of both sides of a stream.
func (r *Remote) wireOptions() connect.Option {
	return connect.WithReadMaxBytes(r.limits.maxReadBytes())
}

type servedKey struct{}

// served is the transport of a stream that the peer has opened.
type served struct {
	*connect.BidiStream[remotepb.Batch, remotepb.Batch]
	request *http.Request

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
	s, err := r.greet(opened)
	if err != nil {
		return r.refuse(opened, err)
	}
	if err := opened.Send(r.hello(s.peer.name)); err != nil {
		s.end(fmt.Errorf("stream failed: %w", err), "")
	}
	// The cause has been logged, and sent to the peer in a Bye.
	_ = s.run()
	return nil
}

// greet receives and checks the peer's hello and makes a session of its stream.
func (r *Remote) greet(opened *served) (*session, error) {
	if r.config.IdentityOf == nil {
		return nil, refusef("%s accepts no streams", r.self)
	}
	certified, err := r.config.IdentityOf(opened.request)
	if err != nil {
		return nil, refusef("%v", err)
	}
	opened.setRead(time.Now().Add(r.limits.ConnectTimeout))
	batch, err := opened.Receive()
	if err != nil {
		return nil, fmt.Errorf("hello of %s: %w", certified, err)
	}
	opened.setRead(time.Time{})
	peer, err := checkHello(r.config.Self, &certified, "", firstHello(batch))
	if err != nil {
		return nil, err
	}
	return r.enter(peer, false, opened)
}

// refuse logs why the peer's stream is not established, and sends the peer the reason.
func (r *Remote) refuse(opened *served, err error) error {
	from := opened.request.RemoteAddr
	var refused *ErrRefused
	if !errors.As(err, &refused) {
		r.log.Info("stream failed during setup", "from", from, "cause", err)
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	r.counters.refusals.Add(1)
	r.log.Warn("peer rejected", "from", from, "reason", refused.Reason)
	return opened.Send(bye(refused.Reason))
}

func firstHello(batch *remotepb.Batch) *remotepb.Hello {
	if len(batch.GetFrames()) == 0 {
		return nil
	}
	return batch.GetFrames()[0].GetHello()
}
