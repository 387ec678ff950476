package api

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"connectrpc.com/connect"
)

// linesType is the content type of an answer with one JSON object per line.
const linesType = "application/x-ndjson"

// A part of a stream has a head of partHead bytes: flags, then the length of its message as a
// big-endian uint32. The flag partEnd marks the last part.
const (
	partHead = 5
	partEnd  = 2
)

// lines makes streaming calls usable like all others: the client posts one message as
// application/json, and each message of the answer is a JSON object on a line of its own, sent as
// soon as it arrives. An error before the first line is answered as in any call; a later one is
// the last line, {"error": {...}}.
type lines struct {
	next       http.Handler
	procedures map[string]procedure
	errors     *connect.ErrorWriter
}

// ServeHTTP implements http.Handler.
func (l lines) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || r.Method != http.MethodPost || !l.procedures[r.URL.Path].streams {
		l.next.ServeHTTP(&advised{ResponseWriter: w, request: r}, r)
		return
	}
	message, err := l.read(r)
	if err != nil {
		// If the client is gone, nobody can receive the error.
		_ = l.errors.Write(w, r, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%s: read request: %w", strings.TrimPrefix(r.URL.Path, "/"), err)))
		return
	}
	part := make([]byte, partHead, partHead+len(message))
	binary.BigEndian.PutUint32(part[1:], uint32(len(message)))
	asked := r.Clone(r.Context())
	asked.Header.Del("Connect-Accept-Encoding")
	asked.Header.Set("Content-Type", "application/connect+json")
	asked.Body = io.NopCloser(bytes.NewReader(append(part, message...)))
	asked.ContentLength = int64(partHead + len(message))
	l.next.ServeHTTP(&lineWriter{to: w, request: r, errors: l.errors, header: http.Header{}}, asked)
}

// read returns the message of a request, which receive has unpacked.
func (l lines) read(r *http.Request) ([]byte, error) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, fmt.Errorf("Content-Encoding %q: use gzip or none", encoding)
	}
	message, err := io.ReadAll(r.Body)
	if err == nil && len(bytes.TrimSpace(message)) == 0 {
		err = errors.New("the body is empty: send at least {}")
	}
	return message, err
}

// lineWriter writes the parts of a stream as lines.
type lineWriter struct {
	to      http.ResponseWriter
	request *http.Request
	errors  *connect.ErrorWriter
	// header is the header of the stream. It is not sent: the answer has a header of its own.
	header http.Header
	began  bool
	// rest is the beginning of a part that is not complete yet.
	rest []byte
}

// Header implements http.ResponseWriter.
func (l *lineWriter) Header() http.Header { return l.header }

// WriteHeader implements http.ResponseWriter. It ignores the status: a stream always has 200,
// and whether the answer is an error is known only from the first part.
func (l *lineWriter) WriteHeader(int) {}

// Flush implements http.Flusher.
func (l *lineWriter) Flush() {
	if l.began {
		_ = http.NewResponseController(l.to).Flush()
	}
}

// Write implements http.ResponseWriter.
func (l *lineWriter) Write(data []byte) (int, error) {
	l.rest = append(l.rest, data...)
	for len(l.rest) >= partHead {
		end := partHead + int(binary.BigEndian.Uint32(l.rest[1:]))
		if len(l.rest) < end {
			break
		}
		part := l.line
		if l.rest[0]&partEnd != 0 {
			part = l.end
		}
		if err := part(l.rest[partHead:end]); err != nil {
			return 0, err
		}
		l.rest = l.rest[end:]
	}
	return len(data), nil
}

func (l *lineWriter) line(data []byte) error {
	if !l.began {
		l.began = true
		l.to.Header().Set("Content-Type", linesType)
	}
	_, err := l.to.Write(append(data[:len(data):len(data)], '\n'))
	return err
}

// end handles the last part: it sends the error of the stream, if there is one.
func (l *lineWriter) end(data []byte) error {
	var ended struct {
		Error *struct {
			Code    connect.Code `json:"code"`
			Message string       `json:"message"`
		} `json:"error"`
		Metadata http.Header `json:"metadata"`
	}
	err := json.Unmarshal(data, &ended)
	switch {
	case err != nil:
		return fmt.Errorf("read the end of a stream: %w", err)
	case ended.Error == nil && l.began:
		return nil
	case ended.Error == nil:
		l.to.Header().Set("Content-Type", linesType)
		l.to.WriteHeader(http.StatusOK)
		return nil
	case l.began:
		return l.line(data)
	}
	failure := connect.NewError(ended.Error.Code, errors.New(ended.Error.Message))
	for name, values := range ended.Metadata {
		for _, value := range values {
			failure.Meta().Add(name, value)
		}
	}
	return l.errors.Write(l.to, l.request, failure)
}

// advised adds advice on how to make a call to the error for a wrong method or an unknown
// content type.
type advised struct {
	http.ResponseWriter
	request *http.Request
	said    bool
}

// WriteHeader implements http.ResponseWriter.
func (a *advised) WriteHeader(status int) {
	if status != http.StatusUnsupportedMediaType && status != http.StatusMethodNotAllowed || a.said {
		a.ResponseWriter.WriteHeader(status)
		return
	}
	a.said = true
	why := fmt.Sprintf("Content-Type %q is not supported", a.request.Header.Get("Content-Type"))
	if status == http.StatusMethodNotAllowed {
		why = "the method is " + a.request.Method
	}
	body, _ := json.Marshal(map[string]string{
		"code":    connect.CodeInvalidArgument.String(),
		"message": fmt.Sprintf("%s: %s: POST an object of JSON, such as {}, with Content-Type: application/json", strings.TrimPrefix(a.request.URL.Path, "/"), why),
	})
	a.Header().Set("Content-Type", "application/json")
	a.ResponseWriter.WriteHeader(status)
	_, _ = a.ResponseWriter.Write(append(body, '\n'))
}

// Flush implements http.Flusher.
func (a *advised) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

// Unwrap lets an http.ResponseController find the writer.
func (a *advised) Unwrap() http.ResponseWriter { return a.ResponseWriter }
