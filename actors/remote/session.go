package remote

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"weir/messages/remotepb"
)

// transport is one end of a stream.
type transport interface {
	Send(*remotepb.Batch) error
	Receive() (*remotepb.Batch, error)
	// finish closes this side's direction after the Bye, so that the peer still receives it.
	// Receive then returns soon.
	finish()
	// abort breaks the stream, which makes Send and Receive return. It does not block.
	abort()
}

// session is a stream with one incarnation of a peer.
type session struct {
	remote *Remote
	// number identifies the stream within this process.
	number    uint64
	claim     claim
	peer      counterpart
	transport transport
	since     time.Time
	// heard is when the peer's last batch arrived, as a time.Duration after the time `since`.
	heard atomic.Int64
	// wake signals the writer that there is something to write. Its capacity is 1.
	wake chan struct{}
	// done is closed when the session has ended.
	done chan struct{}

	mu  sync.Mutex
	out outbox
	// asks are the open requests by id; a reply to any other id is dropped.
	asks      map[uint64]ask
	lastAsk   uint64 // The last id used; ids are not reused.
	keeper    *time.Timer
	cause     error // Set once, when the session ends.
	lastWords string
}

// ask is a request that waits for its reply.
type ask struct {
	done  func(proto.Message, error)
	timer *time.Timer
}

func newSession(r *Remote, number uint64, c claim, peer counterpart, tr transport) *session {
	return &session{
		remote:    r,
		number:    number,
		claim:     c,
		peer:      peer,
		transport: tr,
		since:     time.Now(),
		wake:      make(chan struct{}, 1),
		done:      make(chan struct{}),
		out:       outbox{maxMessages: r.limits.QueueMessages, maxBytes: r.limits.QueueBytes},
		asks:      map[uint64]ask{},
	}
}

// run reads and writes until the session ends, and returns the cause.
func (s *session) run() error {
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.write()
	}()
	s.read()
	<-written
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

func (s *session) read() {
	for {
		batch, err := s.transport.Receive()
		if err != nil {
			s.end(fmt.Errorf("stream failed: %w", err), "")
			return
		}
		s.heard.Store(int64(time.Since(s.since)))
		if s.ended() {
			// Read on to the end of the stream, but ignore the frames.
			if slices.ContainsFunc(batch.GetFrames(), func(f *remotepb.Frame) bool { return f.GetBye() != nil }) {
				s.transport.abort() // Neither side waits for more.
			}
			continue
		}
		for _, frame := range batch.GetFrames() {
			s.receive(frame)
		}
	}
}

func (s *session) write() {
	var batch []*remotepb.Frame
	for {
		s.mu.Lock()
		ended, lastWords := s.cause != nil, s.lastWords
		lost := 0
		if !ended {
			batch, lost = s.out.take(batch[:0], s.batchBytes(), time.Now())
		}
		s.mu.Unlock()
		s.remote.counters.drop(late, lost)
		switch {
		case ended:
			s.sayBye(lastWords)
			return
		case len(batch) == 0:
			select {
			case <-s.wake:
			case <-s.done:
			}
			continue
		}
		err := s.transport.Send(&remotepb.Batch{Frames: batch})
		clear(batch)
		switch {
		case errors.Is(err, io.EOF):
			// The peer has stopped reading. The reader receives the cause, from a Bye or from the
			// stream.
			<-s.done
		case err != nil:
			s.end(fmt.Errorf("stream failed: %w", err), "")
		}
	}
}

// batchBytes limits a batch, in bytes, to less than either side accepts in one read.
func (s *session) batchBytes() int {
	return min(s.remote.limits.BatchBytes, s.peer.maxMessageBytes)
}

// sayBye ends writing. If there are last words, it sends them in a Bye and finishes the stream.
func (s *session) sayBye(lastWords string) {
	if lastWords == "" {
		return
	}
	if s.transport.Send(bye(lastWords)) != nil {
		s.transport.abort()
		return
	}
	s.transport.finish()
}

func bye(reason string) *remotepb.Batch {
	return &remotepb.Batch{Frames: []*remotepb.Frame{{Kind: &remotepb.Frame_Bye{Bye: &remotepb.Bye{Reason: reason}}}}}
}

// keepAlive pings the peer if it has been silent for a while, and ends the session when it has been silent for too
// long. It comes again when either may be.
func (s *session) keepAlive() {
	if silence, lost := s.askAlive(); lost {
		s.end(fmt.Errorf("silent for %v", silence.Round(time.Millisecond)), "")
	}
}

func (s *session) askAlive() (silence time.Duration, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return 0, false
	}
	period, timeout := s.remote.limits.keepAlive(s.remote.config.Self.Role, s.peer.id.Role)
	silence = time.Since(s.since) - time.Duration(s.heard.Load())
	next := period - silence
	switch {
	case silence >= timeout:
		return silence, true
	case next <= 0:
		s.out.ping = true
		s.signal()
		next = min(period, timeout-silence)
	}
	if s.keeper == nil {
		s.keeper = time.AfterFunc(next, s.keepAlive)
	} else {
		s.keeper.Reset(next)
	}
	return silence, false
}

// end ends the session once; later calls do nothing. Without last words, the stream is aborted at
// once. Otherwise they are sent to the peer in a Bye, and the stream is aborted after
// FarewellTimeout.
func (s *session) end(cause error, lastWords string) {
	s.mu.Lock()
	if s.cause != nil {
		s.mu.Unlock()
		return
	}
	s.cause, s.lastWords = cause, lastWords
	if s.keeper != nil {
		s.keeper.Stop()
	}
	s.remote.counters.drop(peerGone, s.out.messages)
	s.out.queue = nil
	asks := s.asks
	s.asks = nil
	s.mu.Unlock()

	s.remote.leave(s, cause)
	close(s.done)
	if lastWords == "" {
		s.transport.abort()
	} else {
		time.AfterFunc(s.remote.limits.FarewellTimeout, s.transport.abort)
	}
	s.remote.log.Info("peer disconnected", "peer", s.peer.name, "incarnation", hex(s.peer.incarnation), "cause", cause)

	gone := fmt.Errorf("%w: %w", ErrPeerGone, cause)
	for _, a := range asks {
		a.timer.Stop()
		a.done(nil, gone)
	}
}

// enqueue queues a frame with a message, and counts the payload.
func (s *session) enqueue(frame *remotepb.Frame, payload *anypb.Any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enqueueLocked(outgoing{frame: frame, bytes: sizeOf(payload)}, payload)
}

func (s *session) enqueueLocked(out outgoing, payload *anypb.Any) error {
	switch {
	case s.cause != nil:
		return fmt.Errorf("%w: %w", ErrNotConnected, s.cause)
	case !s.out.push(out):
		return fmt.Errorf("%w: %d messages of %d bytes waiting for %s, limits %d and %d (QueueMessages, QueueBytes)",
			ErrQueueFull, s.out.messages, s.out.bytes, s.peer.name, s.out.maxMessages, s.out.maxBytes)
	}
	s.remote.counters.sentMessages.Add(1)
	s.remote.counters.sentBytes.Add(uint64(len(payload.GetValue())))
	s.signal()
	return nil
}

// notice queues a frame without a message. It returns false if there is no room or
// the session has ended.
func (s *session) notice(frame *remotepb.Frame) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil || !s.out.pushNotice(frame) {
		return false
	}
	s.signal()
	return true
}

// signal wakes the writer.
func (s *session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// request queues a request. done is called once, unless an error is returned.
func (s *session) request(to string, payload *anypb.Any, deadline time.Time, done func(proto.Message, error)) (id uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit := s.remote.limits.OpenRequests; len(s.asks) >= limit {
		return 0, fmt.Errorf("%w: %d open requests to %s, the limit (OpenRequests)", ErrQueueFull, limit, s.peer.name)
	}
	id = s.lastAsk + 1
	request := &remotepb.Request{To: to, Payload: payload, Id: id}
	out := outgoing{
		frame:    &remotepb.Frame{Kind: &remotepb.Frame_Request{Request: request}},
		bytes:    sizeOf(payload),
		deadline: deadline,
	}
	if err := s.enqueueLocked(out, payload); err != nil {
		return 0, err
	}
	s.lastAsk = id
	s.asks[id] = ask{done: done, timer: time.AfterFunc(time.Until(deadline), func() { s.answer(id, nil, ErrTimeout) })}
	return id, nil
}

// answer completes the open request with this id. It returns false if there is none.
func (s *session) answer(id uint64, reply proto.Message, err error) bool {
	s.mu.Lock()
	a, ok := s.asks[id]
	delete(s.asks, id)
	s.mu.Unlock()
	if ok {
		a.timer.Stop()
		a.done(reply, err)
	}
	return ok
}

func (s *session) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// change returns the PeerChange for the start or the end of the session.
func (s *session) change(up bool, reason string) PeerChange {
	return PeerChange{Peer: s.peer.name, Identity: s.peer.id, Incarnation: s.peer.incarnation, Version: s.peer.version, Up: up, Reason: reason}
}

func (s *session) stats() PeerStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return PeerStats{
		Peer:           s.peer.name,
		Incarnation:    s.peer.incarnation,
		Version:        s.peer.version,
		Dialed:         s.claim.ours,
		Since:          s.since,
		QueuedMessages: s.out.messages,
		QueuedBytes:    s.out.bytes,
		OpenRequests:   len(s.asks),
	}
}

func sizeOf(payload *anypb.Any) int {
	return len(payload.GetValue()) + len(payload.GetTypeUrl()) + frameOverhead
}

// errBye is the cause of the end if the peer ends a session with a Bye.
var errBye = errors.New("closed by the peer")
