package api

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// hurried is a response writer with a deadline for each write, so that a client that does
// not read is disconnected. Between writes there is no deadline.
type hurried struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	// turn is given back while the client reads.
	turn *turn
}

func newHurried(w http.ResponseWriter, stall time.Duration) *hurried {
	return &hurried{ResponseWriter: w, control: http.NewResponseController(w), stall: stall}
}

// Unwrap lets an http.ResponseController find the writer.
func (h *hurried) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// Write implements http.ResponseWriter.
func (h *hurried) Write(data []byte) (int, error) {
	if err := h.begin(); err != nil {
		return 0, err
	}
	n, err := h.ResponseWriter.Write(data)
	if ended := h.end(); err == nil {
		err = ended
	}
	return n, err
}

// Flush implements http.Flusher.
func (h *hurried) Flush() { _ = h.FlushError() }

// FlushError sends the buffered part of the answer.
func (h *hurried) FlushError() error {
	if err := h.begin(); err != nil {
		return err
	}
	return errors.Join(h.control.Flush(), h.end())
}

func (h *hurried) begin() error {
	h.turn.rest()
	return able(h.control.SetWriteDeadline(time.Now().Add(h.stall)))
}

func (h *hurried) end() error { return able(h.control.SetWriteDeadline(time.Time{})) }

// finish sets a deadline for sending the rest of the buffers after the call has ended. It does
// so only on HTTP/2 and later: on HTTP/1 the deadline would stay on the connection for the next
// request.
func (h *hurried) finish(r *http.Request) {
	if r.ProtoMajor >= 2 {
		_ = h.begin()
	}
}

// able returns err, or nil if err says that the connection has no deadlines, as in tests.
func able(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// body wraps a request body so that reading it fails once stall has passed since began.
func (h *hurried) body(of io.ReadCloser, began time.Time) *hurriedBody {
	return &hurriedBody{of, h.control, began.Add(h.stall)}
}

type hurriedBody struct {
	io.ReadCloser
	control *http.ResponseController
	until   time.Time
}

// Read implements io.Reader.
func (b *hurriedBody) Read(into []byte) (int, error) {
	if err := able(b.control.SetReadDeadline(b.until)); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(into)
	// Clear the deadline, or it would end a call that waits. Callers compare err with
	// io.EOF, so leave it unwrapped.
	if ended := able(b.control.SetReadDeadline(time.Time{})); err == nil {
		err = ended
	}
	return n, err
}
