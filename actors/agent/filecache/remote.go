package filecache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// remote is a file at a URL.
type remote struct{ at *url.URL }

// signing is the prefix of the query parameters with which an object store signs a URL.
const signing = "x-amz-"

// name implements source. It omits the signature, which changes while the file does not. Other
// parameters may select the file and may be secrets, so they are hashed.
func (r *remote) name() string {
	text := r.at.RawQuery
	if parameters, err := url.ParseQuery(text); err == nil {
		maps.DeleteFunc(parameters, func(name string, _ []string) bool { return strings.HasPrefix(strings.ToLower(name), signing) })
		text = parameters.Encode()
	}
	if text == "" {
		return r.shown()
	}
	sum := sha256.Sum256([]byte(text))
	return r.shown() + "?" + hex.EncodeToString(sum[:])
}

// shown returns the URL for people, without secrets.
func (r *remote) shown() string {
	bare := *r.at
	bare.RawQuery, bare.Fragment, bare.User = "", "", nil
	return bare.String()
}

func (r *remote) version() string { return "" }

// flight implements source. It includes the signature: only jobs with the same rights to a file
// share a fetch.
func (r *remote) flight() string { return r.at.String() }
func (r *remote) close()         {}

// fetch implements source.
func (r *remote) fetch(c *Cache) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		pause := c.cfg.Retry.Pause
		for try := 1; ; try++ {
			hash, err := r.get(ctx, c)
			var again *unsteady
			if !errors.As(err, &again) {
				return hash, err
			}
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			if try >= c.cfg.Retry.Tries {
				return "", fmt.Errorf("%s: %w: %d attempts: %w", r.shown(), ErrSource, try, again.cause)
			}
			c.cfg.Logger.Debug("retrying file download", "file", r.shown(), "try", try, "pause", pause, "cause", again.cause)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return "", ctx.Err()
			}
			pause *= 2
		}
	}
}

// unsteady is a failure that may pass: the download is retried.
type unsteady struct{ cause error }

func (u *unsteady) Error() string { return u.cause.Error() }

// get tries the download once.
func (r *remote) get(ctx context.Context, c *Cache) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.at.String(), nil)
	if err != nil {
		return "", fmt.Errorf("%s: %w: %w", r.shown(), ErrSource, err)
	}
	c.mu.Lock()
	known := c.index.sources[r.name()]
	c.mu.Unlock()
	if known.Version != "" {
		request.Header.Set("If-None-Match", known.Version)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return "", &unsteady{withoutURL(err)}
	}
	defer response.Body.Close()
	switch code := response.StatusCode; {
	case code == http.StatusNotModified && known.Version != "":
		return known.Hash, nil
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		return "", &unsteady{fmt.Errorf("server responded %s", response.Status)}
	case code != http.StatusOK:
		return "", fmt.Errorf("%s: %w: server responded %s", r.shown(), ErrSource, response.Status)
	}
	t := taking{cache: c, name: r.shown(), known: response.ContentLength}
	defer t.discard()
	body := &watched{from: response.Body, silence: c.cfg.Retry.Silence, cancel: cancel}
	err = t.take(ctx, body)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errSilent) {
		// The server was silent for too long, even if some bytes arrived just now.
		return "", &unsteady{cause}
	}
	if body.err != nil {
		return "", &unsteady{body.err}
	}
	if err == nil && t.known >= 0 && t.size != t.known {
		return "", &unsteady{fmt.Errorf("received %d of %d bytes", t.size, t.known)}
	}
	if err != nil {
		return "", err
	}
	return t.keep(r.name(), response.Header.Get("ETag"))
}

// withoutURL returns the cause of a failed request without its URL, whose signature is a secret
// until it expires.
func withoutURL(err error) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err
	}
	return err
}

// errSilent is the error of a download whose server sent nothing for Retry.Silence.
var errSilent = errors.New("no data from the server for too long")

// watched reads a response, and cancels the request if the server sends nothing for too long.
type watched struct {
	from    io.Reader
	silence time.Duration
	cancel  context.CancelCauseFunc
	// err is the error of the response body, if any.
	err error
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	alarm := time.AfterFunc(w.silence, func() { w.cancel(errSilent) })
	defer alarm.Stop()
	n, err := w.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}
