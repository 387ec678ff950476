package api

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// hurried is the writer of an answer whose client has to keep up: one that makes no
// room for the next part in time is cut off. Between parts it may take its time.
type hurried struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
}

func newHurried(w http.ResponseWriter, stall time.Duration) *hurried {
	return &hurried{w, http.NewResponseController(w), stall}
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

// FlushError sends what has been written.
func (h *hurried) FlushError() error {
	if err := h.begin(); err != nil {
		return err
	}
	return errors.Join(h.control.Flush(), h.end())
}

func (h *hurried) begin() error { return able(h.control.SetWriteDeadline(time.Now().Add(h.stall))) }

func (h *hurried) end() error { return able(h.control.SetWriteDeadline(time.Time{})) }

// finish bounds the sending of what is left in buffers when the call has ended. On
// HTTP/1 the connection, and so the deadline, goes on to the next request.
func (h *hurried) finish(r *http.Request) {
	if r.ProtoMajor >= 2 {
		_ = h.begin()
	}
}

// able takes no offence at a connection without deadlines, as tests have them.
func able(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// body lets the request be read until the stall after began.
func (h *hurried) body(of io.ReadCloser, began time.Time) io.ReadCloser {
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
	// A deadline that stays would end a call that waits. io.EOF has to stay itself.
	if ended := able(b.control.SetReadDeadline(time.Time{})); err == nil {
		err = ended
	}
	return n, err
}
