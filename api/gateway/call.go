package gateway

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"weir/api/client"
	"weir/messages/apipb"
)

const (
	// stall is how long a browser may take to send its request, or to receive a part of the answer.
	stall = 10 * time.Second
	// maxWait bounds a wait for an operation, as replicas do.
	maxWait = 10 * time.Minute
	// maxAnswer bounds an answer, and a message of a stream: more than replicas send at once.
	maxAnswer = 64 << 20
	// retryMillis is when to come again for whom there was no place.
	retryMillis = 1000
)

// call forwards a call of the API.
func (h *Handler) call(w http.ResponseWriter, r *http.Request) {
	if err := h.forward(w, r); err != nil {
		// Whoever no longer listens needs no error.
		_ = h.errors.Write(w, r, err)
	}
}

// forward forwards a call. Nothing was sent to the browser if it returns an error.
func (h *Handler) forward(w http.ResponseWriter, r *http.Request) error {
	who, err := h.usher.visitor(r)
	if err != nil {
		return refusal(connect.CodeUnauthenticated, apipb.CodeUnauthenticated, "%v", err)
	}
	does, stream := methods[r.URL.Path], streams[r.URL.Path]
	switch {
	case does == 0 || does == withheld:
		return refusal(connect.CodeUnimplemented, "unimplemented", "%s: browsers cannot call this", r.URL.Path)
	case does == changes && !h.cfg.Write:
		return refusal(connect.CodePermissionDenied, apipb.CodePermissionDenied, "%s: this page is read-only, as it was started: start weir ui with --write, or weir gateway without --read-only", name(r.URL.Path))
	}
	if err := checkEncoding(r, stream); err != nil {
		return err
	}
	if !h.places.enter(who.name) {
		busy := refusal(connect.CodeResourceExhausted, apipb.CodeOverloaded, "too many calls in flight (%d of one person, %d of all): close some pages", h.cfg.CallsOfOne, h.cfg.Calls)
		busy.Meta().Set(apipb.HeaderRetry, strconv.Itoa(retryMillis))
		return busy
	}
	defer h.places.leave(who.name)
	body, err := receive(w, r, does)
	if err != nil {
		return err
	}
	ctx, cancel, err := limit(r, who)
	if err != nil {
		return err
	}
	defer cancel()
	address, err := h.addressOf(ctx, r, who)
	if err != nil {
		return err
	}
	answer, err := h.cfg.Cluster.Forward(ctx, client.Forwarded{
		Procedure: r.URL.Path, Header: headers(r, who), Body: body, Stream: stream, Address: address,
		Waits: waits[r.URL.Path], Changes: does == changes, Longer: longer[r.URL.Path],
	})
	if err != nil {
		return h.unanswered(ctx, err)
	}
	defer answer.Body.Close()
	for _, name := range []string{
		"Content-Type", apipb.HeaderCode, apipb.HeaderLeader, apipb.HeaderReplica, apipb.HeaderRequest, apipb.HeaderRetry,
	} {
		if value := answer.Header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(answer.StatusCode)
	to := hurried{w, http.NewResponseController(w)}
	if stream && answer.StatusCode == http.StatusOK {
		err = copyStream(to, answer.Body)
	} else {
		err = copyAll(to, answer.Body)
	}
	if err != nil {
		// The browser has a part of the answer: only the end of its connection tells it.
		panic(http.ErrAbortHandler)
	}
	return nil
}

func name(procedure string) string { return procedure[strings.LastIndex(procedure, "/")+1:] }

func refusal(code connect.Code, stable, format string, arguments ...any) *connect.Error {
	err := connect.NewError(code, fmt.Errorf(format, arguments...))
	err.Meta().Set(apipb.HeaderCode, stable)
	return err
}

// checkEncoding returns an error unless the request is in the Connect protocol, JSON or protobuf, and plain.
func checkEncoding(r *http.Request, stream bool) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	wanted := []string{"application/json", "application/proto"}
	if stream {
		wanted = []string{"application/connect+json", "application/connect+proto"}
	}
	if err != nil || kind != wanted[0] && kind != wanted[1] {
		return refusal(connect.CodeInvalidArgument, apipb.CodeInvalidArgument, "content type %q: must be %s or %s", r.Header.Get("Content-Type"), wanted[0], wanted[1])
	}
	for _, name := range []string{"Content-Encoding", "Connect-Content-Encoding"} {
		if encoding := r.Header.Get(name); encoding != "" && encoding != "identity" {
			return refusal(connect.CodeInvalidArgument, apipb.CodeInvalidArgument, "%s %q: requests must not be compressed", name, encoding)
		}
	}
	return nil
}

// receive reads a request.
func receive(w http.ResponseWriter, r *http.Request, does kind) ([]byte, error) {
	most := int64(maxRead)
	if does == changes {
		most = maxChange
	}
	// A connection that takes no deadlines is one of a test.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(stall))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	_ = control.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, refusal(connect.CodeResourceExhausted, apipb.CodeInvalidArgument, "%s: the request has more than %d bytes", name(r.URL.Path), most)
	case err != nil:
		return nil, refusal(connect.CodeInvalidArgument, apipb.CodeInvalidArgument, "%s: the request was not received: %v", name(r.URL.Path), err)
	}
	return body, nil
}

// limit returns the context of a call, which ends with the browser's deadline and with the session.
func limit(r *http.Request, who visitor) (context.Context, context.CancelFunc, error) {
	ctx, end := context.WithCancel(r.Context())
	cancel := end
	if who.ends != nil {
		// A session outlives many calls, and must not keep those that have ended.
		forget := context.AfterFunc(who.ends, end)
		cancel = func() { forget(); end() }
	}
	after := time.Duration(0)
	if waits[r.URL.Path] {
		after = maxWait
	}
	if asked := r.Header.Get("Connect-Timeout-Ms"); asked != "" {
		millis, err := strconv.ParseUint(asked, 10, 32)
		if err != nil {
			cancel()
			return nil, nil, refusal(connect.CodeInvalidArgument, apipb.CodeInvalidArgument, "Connect-Timeout-Ms %q: must be a whole number of milliseconds", asked)
		}
		if asked := time.Duration(millis) * time.Millisecond; after == 0 || asked < after {
			after = max(asked, time.Millisecond)
		}
	}
	if after == 0 {
		return ctx, cancel, nil
	}
	bounded, over := context.WithTimeout(ctx, after)
	return bounded, func() { over(); cancel() }, nil
}

// headers returns what replicas are sent: what says how the request is encoded, and who looks. Whatever else
// a browser sends stays here, above all headers that name somebody.
func headers(r *http.Request, who visitor) http.Header {
	header := http.Header{"Accept-Encoding": {"identity"}}
	for _, name := range []string{"Content-Type", "Connect-Protocol-Version"} {
		if value := r.Header.Get(name); value != "" {
			header.Set(name, value)
		}
	}
	who.introduce(header)
	return header
}

// introduce names the person to a replica, if this process does not speak for itself.
func (v visitor) introduce(header http.Header) {
	if v.name == "" {
		return
	}
	header.Set(apipb.HeaderOnBehalfOf, v.name)
	if len(v.groups) > 0 {
		header.Set(apipb.HeaderGroups, strings.Join(v.groups, ","))
	}
}

// unanswered returns the error for a browser whose call no replica has answered.
func (h *Handler) unanswered(ctx context.Context, err error) error {
	var refused *client.Error
	var unreached *client.UnreachableError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, errors.New("no answer within the deadline of the call"))
	case errors.Is(ctx.Err(), context.Canceled):
		return refusal(connect.CodeUnauthenticated, apipb.CodeUnauthenticated, "the session has ended: sign in again")
	case errors.As(err, &refused):
		return refusal(refused.Kind, refused.Code, "%s", refused.Message)
	case errors.As(err, &unreached):
		h.cfg.Logger.Debug("no replica responding", "call", unreached.What, "error", err)
	}
	return refusal(connect.CodeUnavailable, apipb.CodeUnavailable, "%v", err)
}

// hurried sends to a browser, which has to take each part in time.
type hurried struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (h hurried) Write(p []byte) (int, error) {
	_ = h.control.SetWriteDeadline(time.Now().Add(stall))
	return h.ResponseWriter.Write(p)
}

func copyAll(to hurried, from io.Reader) error {
	n, err := io.Copy(to, io.LimitReader(from, maxAnswer+1))
	if err == nil && n > maxAnswer {
		err = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return err
}

// The head of a message in a stream: a byte of flags, and four with its size.
const (
	frameHead = 5
	frameEnds = 0x02
)

// copyStream copies the messages of a stream. If the replica breaks off between two, the stream ends with an
// error that says so.
func copyStream(to hurried, from io.Reader) error {
	head := make([]byte, frameHead)
	for {
		if _, err := io.ReadFull(from, head); err != nil {
			_, err = to.Write(cutOff)
			return err
		}
		size := int64(binary.BigEndian.Uint32(head[1:]))
		if size > maxAnswer {
			return fmt.Errorf("a message has %d bytes, the limit is %d", size, maxAnswer)
		}
		ends := head[0]&frameEnds != 0
		if _, err := to.Write(head); err != nil {
			return err
		}
		if _, err := io.CopyN(to, from, size); err != nil {
			return err
		}
		if ends {
			return nil
		}
		if err := to.control.Flush(); err != nil {
			return err
		}
	}
}

// cutOff is the last message of a stream that a replica did not end.
var cutOff = func() []byte {
	text := `{"error":{"code":"unavailable","message":"the stream was cut off: open it again"}}`
	return append(binary.BigEndian.AppendUint32([]byte{frameEnds}, uint32(len(text))), text...)
}()
