package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// storeClient speaks HTTP with object stores, and retries.
type storeClient struct {
	http *http.Client
	// attempts is the number of tries. The pauses between tries start at about the duration `pause`
	// and double each time, up to maxPause.
	attempts        int
	pause, maxPause time.Duration
	// silence is how long a store may be silent before a request is given up.
	silence time.Duration
}

// stores is the client of the proxy. If each attempt fails at once, it gives up after about a
// minute.
var stores = newStoreClient()

func newStoreClient() *storeClient {
	return &storeClient{
		http: &http.Client{Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			DisableCompression:  true,
			IdleConnTimeout:     30 * time.Second,
			ReadBufferSize:      32 << 10,
		}},
		attempts: 8,
		pause:    250 * time.Millisecond,
		maxPause: 15 * time.Second,
		silence:  30 * time.Second,
	}
}

// passingError is an error that may not recur on another try.
type passingError struct{ error }

func (e passingError) Unwrap() error { return e.error }

func passing(err error) error { return passingError{err} }

// persist retries until there is no passing error, or attempts are used up.
func (c *storeClient) persist(ctx context.Context, try func(context.Context) error) error {
	pause := c.pause
	for attempt := 1; ; attempt++ {
		err := try(ctx)
		var again passingError
		switch {
		case err == nil || ctx.Err() != nil || !errors.As(err, &again):
			return err
		case attempt == c.attempts:
			return fmt.Errorf("gave up after %d attempts: %w", attempt, err)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return ctx.Err()
		}
		pause = min(2*pause, c.maxPause)
	}
}

// do sends a request and returns the response when it begins. It calls cancel, which must end the
// request, when ctx ends or no data moves for too long.
func (c *storeClient) do(ctx context.Context, cancel context.CancelFunc, request *http.Request) (*http.Response, error) {
	var response *http.Response
	err := c.watch(ctx, cancel, func(alive func()) error {
		if request.ContentLength > 0 {
			request.Body = &watchedBody{ReadCloser: request.Body, alive: alive}
		}
		var err error
		response, err = c.http.Do(request) //nolint:bodyclose // whoever gets the answer closes it
		return err
	})
	if err != nil {
		if of, ok := errors.AsType[*url.Error](err); ok {
			err = of.Err // the URL may have a signature in it
		}
		return nil, passing(err)
	}
	return response, nil
}

// watchedBody calls alive whenever a part of it is sent.
type watchedBody struct {
	io.ReadCloser
	alive func()
}

// Read implements io.Reader.
func (w *watchedBody) Read(p []byte) (int, error) {
	w.alive()
	return w.ReadCloser.Read(p)
}

// errSilent is the error of a request to a store that hangs.
var errSilent = errors.New("the store did not answer in time")

// watch calls the function `wait`. It calls `cancel` when ctx ends, or when `alive` has not been
// called for too long.
func (c *storeClient) watch(ctx context.Context, cancel context.CancelFunc, wait func(alive func()) error) error {
	defer context.AfterFunc(ctx, cancel)()
	var silent atomic.Bool
	timer := time.AfterFunc(c.silence, func() {
		silent.Store(true)
		cancel()
	})
	defer timer.Stop()
	err := wait(func() { timer.Reset(c.silence) })
	if err != nil && silent.Load() && ctx.Err() == nil {
		return fmt.Errorf("%w: no data for %v", errSilent, c.silence)
	}
	return err
}

// refused returns the error for an unexpected response.
func refused(response *http.Response) error {
	said, _ := io.ReadAll(io.LimitReader(response.Body, 300)) // as much as can be read
	err := fmt.Errorf("the store answered %s: %s", response.Status, strings.Join(strings.Fields(string(said)), " "))
	switch code := response.StatusCode; {
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		return passing(err)
	}
	return err
}

// put uploads a file to a URL of a store, in one request that is repeated from the beginning
// after passing errors. It calls move for each part sent and each try.
func (c *storeClient) put(ctx context.Context, destination string, file *os.File, move func()) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	err = c.persist(ctx, func(ctx context.Context) error {
		move()
		sending, cancel := context.WithCancel(ctx)
		defer cancel()
		body := &watchedBody{ReadCloser: io.NopCloser(io.NewSectionReader(file, 0, info.Size())), alive: move}
		request, err := http.NewRequestWithContext(sending, http.MethodPut, destination, body)
		if err != nil {
			return errors.New("invalid URL")
		}
		if request.ContentLength = info.Size(); info.Size() == 0 {
			request.Body = http.NoBody
		}
		response, err := c.do(ctx, cancel, request)
		if err != nil {
			return err
		}
		if response.StatusCode < 200 || response.StatusCode > 299 {
			err = refused(response)
		}
		return errors.Join(err, response.Body.Close())
	})
	if err != nil {
		return fmt.Errorf("put %s: %w", withoutQuery(destination), err)
	}
	return nil
}

// withoutQuery makes a URL fit to be shown: its query may contain a signature.
func withoutQuery(destination string) string {
	if isURL(destination) {
		destination, _, _ = strings.Cut(destination, "?")
	}
	return destination
}
