// Package service is an HTTP service that stops without losing a request.
//
// Its work is simulated: a request says how long it takes. What matters is how it stops. After
// the signal it still accepts requests for a short notice, in which clients hear that it is
// leaving. Then it refuses new ones, finishes those it has, and ends.
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Longest is the longest request that is accepted.
const Longest = time.Minute

// InstanceHeader names the instance that answers.
const InstanceHeader = "Instance"

// Config says how an instance behaves.
type Config struct {
	// Name is the name of the instance: its job id, as in discovery.
	Name string
	// Notice is how long requests are still accepted after the signal: longer than clients take
	// to hear of it. With 0, a request that was on its way when the signal came is refused.
	Notice time.Duration
}

// ErrCut is returned by Serve after a second signal: requests were left unfinished.
var ErrCut = errors.New("second signal: requests were cut off")

// Serve serves on listener until the first signal, and then until its requests are finished. It
// sets no time limit: if that takes too long, Weir kills the instance.
func Serve(listener net.Listener, told <-chan os.Signal, c Config) error {
	i := &instance{Config: c}
	server := &http.Server{Handler: i.handler(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-told:
	}
	// No connection is closed yet, not even an idle one: the next request may be on it.
	i.leaving.Store(true)
	idle := make(chan struct{})
	time.AfterFunc(c.Notice, func() {
		i.refuse()
		close(idle)
	})
	select {
	case <-idle:
	case <-told:
		return errors.Join(ErrCut, server.Close())
	}
	return hangUp(server)
}

// flushTime bounds the wait for the last rejections to be written.
const flushTime = 500 * time.Millisecond

// hangUp closes a server without open requests. The last refusals may not be written yet, so it
// waits for connections in use. It does not wait for connections without any request: clients
// open some in reserve, and Shutdown alone would wait 5 s for them.
func hangUp(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return server.Close()
}

// instance counts the requests that it works on.
type instance struct {
	Config
	leaving atomic.Bool

	mu       sync.Mutex
	refusing bool
	running  sync.WaitGroup
}

func (i *instance) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /work", i.work)
	mux.HandleFunc("GET /ready", i.ready)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(InstanceHeader, i.Name)
		if i.leaving.Load() {
			// This ends the connection after the answer, and tells the client so.
			w.Header().Set("Connection", "close")
		}
		mux.ServeHTTP(w, r)
	})
}

// ready answers whether the instance may be sent requests.
func (i *instance) ready(w http.ResponseWriter, _ *http.Request) {
	if i.leaving.Load() {
		http.Error(w, "leaving", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// work runs for the time that the request says: POST /work?for=250ms.
func (i *instance) work(w http.ResponseWriter, r *http.Request) {
	length, err := time.ParseDuration(r.URL.Query().Get("for"))
	if err != nil || length < 0 || length > Longest {
		http.Error(w, fmt.Sprintf("for=%q: must be a duration from 0 to %v, such as 250ms", r.URL.Query().Get("for"), Longest), http.StatusBadRequest)
		return
	}
	if !i.begin() {
		http.Error(w, "this instance no longer accepts requests", http.StatusServiceUnavailable)
		return
	}
	defer i.running.Done()
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		// Write the whole answer before the request counts as done: the instance may end right
		// after.
		answer := fmt.Sprintf("worked %v\n", length)
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = io.WriteString(w, answer)
		_ = http.NewResponseController(w).Flush()
	case <-r.Context().Done():
		// The client has gone.
	}
}

// begin reports whether a request is accepted. An accepted request counts as running until
// Done.
func (i *instance) begin() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.refusing {
		i.running.Add(1)
	}
	return !i.refusing
}

// refuse ends the notice, and returns when no request runs.
func (i *instance) refuse() {
	i.mu.Lock()
	i.refusing = true
	i.mu.Unlock()
	i.running.Wait()
}
