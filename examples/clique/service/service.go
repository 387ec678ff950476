// Package service is an HTTP service that leaves without losing a request.
//
// What it does takes no thought: a request says how long it takes. What matters is its
// end. When it is told to go it still takes requests for a short notice, in which those
// who send them hear of it; then it refuses new ones, finishes what it has, and ends.
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

// Longest is the longest request that is taken.
const Longest = time.Minute

// InstanceHeader names the instance that answers.
const InstanceHeader = "Instance"

// Config says how an instance behaves.
type Config struct {
	// Name is that of the instance, the same as discovery has for it: its job.
	Name string
	// Notice is how long requests are still taken when the instance has been told to
	// go: longer than word of it takes to those who send them. With 0 a request that
	// was on its way when the signal came is refused.
	Notice time.Duration
}

// ErrCut is returned by Serve when the instance was told to go a second time, and has
// left requests unfinished.
var ErrCut = errors.New("told to go twice: requests were cut off")

// Serve serves on listener until the instance has been told to go and has finished its
// requests. How long that may take is not for it to know: it is killed when its time is
// over.
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

// flushTime is how long the last refusals may take to be on their way.
const flushTime = 500 * time.Millisecond

// hangUp ends a server that works on no request. The last refusals may not be written
// yet, so that it waits for connections that are in use. It does not wait for those on
// which nothing was ever asked: clients open some in reserve, and Shutdown by itself
// would give them 5 s more.
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
			// The connection ends with this answer, and the client knows.
			w.Header().Set("Connection", "close")
		}
		mux.ServeHTTP(w, r)
	})
}

// ready says whether the instance may be sent requests.
func (i *instance) ready(w http.ResponseWriter, _ *http.Request) {
	if i.leaving.Load() {
		http.Error(w, "leaving", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// work takes as long as the request says: POST /work?for=250ms.
func (i *instance) work(w http.ResponseWriter, r *http.Request) {
	length, err := time.ParseDuration(r.URL.Query().Get("for"))
	if err != nil || length < 0 || length > Longest {
		http.Error(w, fmt.Sprintf("for=%q: must be a duration from 0 to %v, such as 250ms", r.URL.Query().Get("for"), Longest), http.StatusBadRequest)
		return
	}
	if !i.begin() {
		http.Error(w, "this instance takes no more requests", http.StatusServiceUnavailable)
		return
	}
	defer i.running.Done()
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		// All of it is written while the request counts, if the client is still there: the
		// instance may end then.
		answer := fmt.Sprintf("worked %v\n", length)
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = io.WriteString(w, answer)
		_ = http.NewResponseController(w).Flush()
	case <-r.Context().Done():
		// Nobody waits for the answer any more.
	}
}

// begin says whether a request is taken, which counts then until it is done.
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
