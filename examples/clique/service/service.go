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
	i := &instance{Config: c, idle: make(chan struct{})}
	server := &http.Server{Handler: i.handler(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-told:
	}
	// No connection is closed yet, not even an idle one: the next request may be on it.
	i.leave()
	notice := time.NewTimer(c.Notice)
	defer notice.Stop()
	select {
	case <-notice.C:
		i.refuse()
	case <-told:
		return errors.Join(ErrCut, server.Close())
	}
	select {
	case <-i.idle:
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

	mu       sync.Mutex
	running  int
	leaving  bool
	refusing bool
	// idle is closed when requests are refused and none runs.
	idle chan struct{}
}

func (i *instance) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /work", i.work)
	mux.HandleFunc("GET /ready", i.ready)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(InstanceHeader, i.Name)
		if i.isLeaving() {
			// The connection ends with this answer, and the client knows.
			w.Header().Set("Connection", "close")
		}
		mux.ServeHTTP(w, r)
	})
}

// ready says whether the instance may be sent requests.
func (i *instance) ready(w http.ResponseWriter, _ *http.Request) {
	if i.isLeaving() {
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
	defer i.end()
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

func (i *instance) begin() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.refusing {
		return false
	}
	i.running++
	return true
}

func (i *instance) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.running--
	i.settle()
}

func (i *instance) isLeaving() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.leaving
}

func (i *instance) leave() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.leaving = true
}

// refuse ends the notice.
func (i *instance) refuse() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.refusing = true
	i.settle()
}

func (i *instance) settle() {
	if i.refusing && i.running == 0 {
		close(i.idle)
	}
}
