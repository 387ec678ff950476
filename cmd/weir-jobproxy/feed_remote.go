package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"weir/actors/agent/runner/proxyproto"
)

// remoteSource is an object in a store, read by HTTP.
type remoteSource struct {
	part   *proxyproto.FeedPart
	client *storeClient
	// version is the object's ETag; empty while unknown.
	version string

	// body is the current response. Its next byte is the object's byte at `offset`. Its last byte
	// is the object's last byte before `end`.
	body        io.ReadCloser
	offset, end int64
	cancel      context.CancelFunc
}

func newRemoteSource(part *proxyproto.FeedPart) *remoteSource {
	return &remoteSource{part: part, client: stores, version: entityTag(part.Version)}
}

// entityTag returns a version in the syntax of HTTP.
func entityTag(version string) string {
	if version == "" || strings.HasSuffix(version, `"`) {
		return version
	}
	return strconv.Quote(version)
}

// read implements source. It retries until the client's attempts are used up.
func (r *remoteSource) read(ctx context.Context, p []byte, offset int64) (int, error) {
	var n int
	err := r.client.persist(ctx, func(ctx context.Context) error {
		var err error
		n, err = r.try(ctx, p, offset)
		return err
	})
	if err == nil {
		return n, nil
	}
	r.drop()
	if _, changed := errors.AsType[changedError](err); changed {
		return 0, err
	}
	return 0, fmt.Errorf("at byte %d: %w", offset, err)
}

// try makes one attempt: it continues to read the current response, or sends a new request if there
// is none.
func (r *remoteSource) try(ctx context.Context, p []byte, offset int64) (int, error) {
	if r.body != nil && (r.offset != offset || r.offset >= r.end) {
		r.drop()
	}
	if r.body == nil {
		if err := r.request(ctx, offset, max(r.part.End, offset)+feedOverhang); err != nil {
			return 0, err
		}
	}
	var n int
	err := r.client.watch(ctx, r.cancel, func(func()) (err error) {
		n, err = r.body.Read(p)
		return err
	})
	r.offset += int64(n)
	if n > 0 {
		return n, nil
	}
	r.drop()
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return 0, passing(err)
}

// request asks for [begin, end) of the object.
func (r *remoteSource) request(ctx context.Context, begin, end int64) error {
	end = min(end, r.part.Size)
	// The body lives longer than the attempt.
	reading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	request, err := http.NewRequestWithContext(reading, http.MethodGet, r.part.URL, nil)
	if err != nil {
		cancel()
		return errors.New("invalid URL")
	}
	request.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", begin, end-1))
	if r.version != "" {
		request.Header.Set("If-Match", r.version)
	}
	response, err := r.client.do(ctx, cancel, request)
	if err == nil {
		if err = r.check(response, begin); err != nil {
			err = errors.Join(err, response.Body.Close())
		}
	}
	if err != nil {
		cancel()
		return err
	}
	r.body, r.offset, r.end, r.cancel = response.Body, begin, end, cancel
	return nil
}

// check returns an error if a response is not the requested range of the listed object.
func (r *remoteSource) check(response *http.Response, begin int64) error {
	switch response.StatusCode {
	case http.StatusPartialContent, http.StatusOK:
	case http.StatusPreconditionFailed:
		return changedError{"it is no longer version " + r.version}
	case http.StatusNotFound, http.StatusGone:
		return changedError{"it no longer exists"}
	case http.StatusRequestedRangeNotSatisfiable:
		return changedError{fmt.Sprintf("it now ends before byte %d, but had %d bytes", begin, r.part.Size)}
	default:
		return refused(response)
	}
	version := response.Header.Get("ETag")
	if r.version != "" && version != "" && version != r.version {
		return changedError{fmt.Sprintf("it is now version %s, but was %s", version, r.version)}
	}
	r.version = version
	if response.StatusCode == http.StatusOK && begin > 0 {
		return errors.New("the server does not support range requests")
	}
	size := response.ContentLength
	if response.StatusCode == http.StatusPartialContent {
		var err error
		if size, err = rangeSize(response.Header.Get("Content-Range"), begin); err != nil {
			return err
		}
	}
	if size >= 0 && size != r.part.Size {
		return changedError{fmt.Sprintf("it has %d bytes now, but had %d", size, r.part.Size)}
	}
	return nil
}

// rangeSize reads "bytes 5-9/100": the size is 100, or -1 if it is not given.
func rangeSize(text string, begin int64) (int64, error) {
	rest, ok := strings.CutPrefix(text, "bytes ")
	place, total, slash := strings.Cut(rest, "/")
	first, _, dash := strings.Cut(place, "-")
	from, err := strconv.ParseInt(first, 10, 64)
	if !ok || !slash || !dash || err != nil || from != begin {
		return 0, fmt.Errorf("requested bytes from %d on, but the server sent Content-Range %.60q", begin, text)
	}
	if total == "*" {
		return -1, nil
	}
	size, err := strconv.ParseInt(total, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the server sent Content-Range %.60q", text)
	}
	return size, nil
}

// drop closes the current response.
func (r *remoteSource) drop() {
	if r.body != nil {
		r.cancel()
		_ = r.body.Close() // its data has been read, or is not needed
		r.body = nil
	}
}

// close implements source. check has made sure that all responses were of one version.
func (r *remoteSource) close() error {
	r.drop()
	return nil
}
