package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"

	"weir/messages/apipb"
)

// Forwarded is a call in the Connect protocol that somebody else has encoded, such as a browser.
type Forwarded struct {
	// Procedure is the path of the call, such as /weir.api.v1.PoolService/List.
	Procedure string
	// Header is sent to the replica as it is.
	Header http.Header
	// Body is the encoded request, with the head of its frame if Stream is set.
	Body []byte
	// Stream says that the answer is a stream.
	Stream bool
	// Waits says that the replica may wait before it answers: only the context bounds the call.
	Waits bool
	// Changes says that the call changes something. It is not retried after a try that may have
	// changed it.
	Changes bool
	// Longer is added to the time of each try.
	Longer time.Duration
	// Address, if not empty, is that of the only replica to ask, once.
	Address string
}

// maxHeld bounds the part of an answer that Forward reads before it returns: answers up to this size
// survive the end of the replica that sends them. Larger ones break off.
const maxHeld = 256 << 10

// maxErrorBytes bounds an error that a replica sends.
const maxErrorBytes = 64 << 10

// Forward sends a call to one replica after another until one answers, and returns its answer, which
// may be a refusal. It returns an *UnreachableError when none does, or if a change is in doubt, or if the
// replica at Forwarded.Address does not answer. The caller closes the body.
func (c *caller) Forward(ctx context.Context, f Forwarded) (*http.Response, error) {
	t := c.task(f.Procedure)
	t.lasting, t.longer = f.Waits || f.Stream, f.Longer
	limited, cancel := t.limit(ctx)
	defer cancel()
	last := ""
	for {
		address := f.Address
		if address == "" {
			address = c.book.next(last, false)
		}
		last = address
		answer, err := c.forwardTo(ctx, limited, address, f, t.patience())
		if err == nil {
			c.book.answered(address)
			c.book.leads(answer.Header.Get(apipb.HeaderLeader))
			return answer, nil
		}
		if unsure := f.Changes && judge(err).unsure; unsure || f.Address != "" {
			t.note(address, err, false)
			return nil, &UnreachableError{What: t.what, Tried: t.tried, Elapsed: time.Since(t.began), Unsure: unsure}
		}
		if done, err := t.failed(ctx, limited, address, err); done {
			return nil, err
		}
	}
}

// forwardTo sends a call to one replica. An error is worth another try. The answer outlives `limited`, which
// bounds the try, but not ctx.
func (c *caller) forwardTo(ctx, limited context.Context, address string, f Forwarded, patience time.Duration) (*http.Response, error) {
	trying, cancel := context.WithCancelCause(ctx)
	overdue := func() { cancel(context.DeadlineExceeded) }
	stop := context.AfterFunc(limited, overdue)
	var silence *time.Timer
	header := f.Header.Clone()
	switch deadline, bounded := limited.Deadline(); {
	case f.Waits || f.Stream:
		if bounded {
			header.Set("Connect-Timeout-Ms", millis(time.Until(deadline)))
		}
	case !f.Changes:
		header.Set("Connect-Timeout-Ms", millis(min(patience, time.Until(deadline))))
	default:
		header.Set("Connect-Timeout-Ms", millis(time.Until(deadline)))
	}
	if !f.Waits && !f.Changes {
		silence = time.AfterFunc(patience, overdue)
	}
	answer, err := c.ask(trying, address, header, f)
	// From here on only ctx ends the answer.
	late := !stop() || silence != nil && !silence.Stop()
	if err == nil && late {
		_ = answer.Body.Close()
		err = context.DeadlineExceeded
	}
	if err == nil {
		answer.Body = endsWith{answer.Body, func() { cancel(nil) }}
		return answer, nil
	}
	defer cancel(nil)
	var refused *connect.Error
	switch {
	case errors.Is(context.Cause(trying), context.DeadlineExceeded):
		return nil, connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded)
	case errors.As(err, &refused):
		return nil, err
	}
	return nil, connect.NewError(connect.CodeUnavailable, err)
}

func millis(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }

// ask sends a request, and reads the answer's beginning: all of it up to maxHeld, or the first message of
// a stream.
func (c *caller) ask(ctx context.Context, address string, header http.Header, f Forwarded) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.cfg.URL(address)+f.Procedure, bytes.NewReader(f.Body))
	if err != nil {
		return nil, err
	}
	request.Header = header
	answer, err := c.cfg.HTTP.Do(request)
	if err != nil {
		return nil, err
	}
	held, err := begin(answer, f.Stream)
	if err != nil {
		_ = answer.Body.Close()
		return nil, err
	}
	answer.Body = resumed{io.MultiReader(bytes.NewReader(held), answer.Body), answer.Body}
	return answer, nil
}

// begin reads the beginning of an answer. It returns an error if another replica may answer better.
func begin(answer *http.Response, stream bool) (held []byte, err error) {
	if answer.StatusCode != http.StatusOK {
		held, err = io.ReadAll(io.LimitReader(answer.Body, maxErrorBytes))
		if err != nil {
			return nil, err
		}
		return held, worthAnotherTry(wireError(answer.StatusCode, held, answer.Header))
	}
	if !stream {
		return io.ReadAll(io.LimitReader(answer.Body, maxHeld))
	}
	held = make([]byte, frameHead)
	if _, err := io.ReadFull(answer.Body, held); err != nil {
		return nil, err
	}
	if held[0]&frameEnds == 0 {
		return held, nil
	}
	end, err := io.ReadAll(io.LimitReader(answer.Body, min(int64(binary.BigEndian.Uint32(held[1:])), maxErrorBytes)))
	if err != nil {
		return nil, err
	}
	return append(held, end...), worthAnotherTry(streamError(end))
}

// The head of a frame in a stream: a byte of flags, and four with the size of what follows.
const (
	frameHead = 5
	frameEnds = 0x02
)

// worthAnotherTry returns the error if another replica may answer better.
func worthAnotherTry(refused *connect.Error) error {
	if refused != nil && judge(refused).again {
		return refused
	}
	return nil
}

// wireError returns the error in an answer with one message.
func wireError(status int, body []byte, header http.Header) *connect.Error {
	var said struct {
		Code    connect.Code `json:"code"`
		Message string       `json:"message"`
	}
	if err := json.Unmarshal(body, &said); err != nil || said.Code == 0 {
		said.Code, said.Message = connect.CodeUnknown, fmt.Sprintf("HTTP status %d", status)
		if status == http.StatusTooManyRequests || status >= http.StatusBadGateway {
			said.Code = connect.CodeUnavailable
		}
	}
	refused := connect.NewWireError(said.Code, errors.New(said.Message))
	for _, name := range []string{apipb.HeaderCode, apipb.HeaderLeader, apipb.HeaderRetry} {
		refused.Meta().Set(name, header.Get(name))
	}
	return refused
}

// streamError returns the error in the last message of a stream; nil if there is none.
func streamError(end []byte) *connect.Error {
	var said struct {
		Error    json.RawMessage     `json:"error"`
		Metadata map[string][]string `json:"metadata"`
	}
	if err := json.Unmarshal(end, &said); err != nil || len(said.Error) == 0 {
		return nil
	}
	header := http.Header{}
	for name, values := range said.Metadata {
		for _, value := range values {
			header.Add(name, value)
		}
	}
	return wireError(http.StatusOK, said.Error, header)
}

// resumed is a body whose beginning was read.
type resumed struct {
	io.Reader
	io.Closer
}

// endsWith is a body that calls a function when it is closed.
type endsWith struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (e endsWith) Close() error {
	defer e.end()
	return e.ReadCloser.Close()
}
