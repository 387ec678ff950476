package service_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"weir/examples/clique/service"
)

const patience = 2 * time.Minute

// served is an instance under test.
type served struct {
	url    string
	client *http.Client
	told   chan os.Signal
	ended  chan error
}

func serve(t *testing.T, notice time.Duration) *served {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &served{url: "http://" + listener.Addr().String(), client: http.DefaultClient, told: make(chan os.Signal, 2), ended: make(chan error, 1)}
	go func() { s.ended <- service.Serve(listener, s.told, service.Config{Name: "job", Notice: notice}) }()
	return s
}

func (s *served) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-s.ended:
		return err
	case <-time.After(patience):
		t.Fatal("the instance does not end")
		return nil
	}
}

// work sends a request on a connection of its own.
func (s *served) work(length string) (code int, body string, err error) {
	r, err := http.NewRequest(http.MethodPost, s.url+"/work?for="+length, nil)
	if err != nil {
		return 0, "", err
	}
	r.Close = true
	answer, err := s.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// wire is a network in this process, which a bubble has to itself.
type wire struct {
	calls  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newWire() *wire { return &wire{calls: make(chan net.Conn), closed: make(chan struct{})} }

// Accept implements net.Listener.
func (w *wire) Accept() (net.Conn, error) {
	select {
	case conn := <-w.calls:
		return conn, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

// Addr implements net.Listener.
func (w *wire) Addr() net.Addr { return &net.UnixAddr{Name: "wire"} }

// dial connects with who accepts.
func (w *wire) dial() (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case w.calls <- far:
		return near, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

// serveInBubble starts an instance on a network of its own.
func serveInBubble(notice time.Duration) (*served, *wire) {
	w := newWire()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return w.dial() }}
	s := &served{url: "http://instance", client: &http.Client{Transport: transport}, told: make(chan os.Signal, 2), ended: make(chan error, 1)}
	go func() { s.ended <- service.Serve(w, s.told, service.Config{Name: "job", Notice: notice}) }()
	return s, w
}

func TestLeavingFinishesWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const notice = 100 * time.Millisecond
		s, _ := serveInBubble(notice)
		answers := make(chan error, 1)
		go func() {
			code, body, err := s.work("2s")
			if err == nil && (code != http.StatusOK || body != "worked 2s\n") {
				err = errors.New(body)
			}
			answers <- err
		}()
		synctest.Wait()
		s.told <- syscall.SIGTERM
		synctest.Wait()
		if code, _, err := s.work("0s"); code != http.StatusOK {
			t.Errorf("within the notice: %d, %v", code, err)
		}
		<-time.After(notice)
		synctest.Wait()
		if code, _, err := s.work("0s"); code != http.StatusServiceUnavailable {
			t.Errorf("after the notice: %d, %v", code, err)
		}
		select {
		case err := <-s.ended:
			t.Fatalf("the instance has ended with a request unfinished: %v", err)
		default:
		}
		if err := <-answers; err != nil {
			t.Errorf("the request that ran: %v", err)
		}
		if err := s.end(t); err != nil {
			t.Error(err)
		}
	})
}

// TestLastAnswerIsWrittenBeforeTheEnd has a client that takes its answer long after it was
// worked out.
func TestLastAnswerIsWrittenBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := serveInBubble(0)
		slow, err := w.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Close()
		request, err := http.NewRequest(http.MethodPost, s.url+"/work?for=1s", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if err := request.Write(slow); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.told <- syscall.SIGTERM
		<-time.After(time.Minute)
		answer, err := http.ReadResponse(bufio.NewReader(slow), request)
		if err != nil {
			t.Fatalf("the answer: %v", err)
		}
		if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "worked 1s\n" {
			t.Errorf("the answer is %q, %v", text, err)
		}
		if err := s.end(t); err != nil {
			t.Error(err)
		}
	})
}

// TestLeavingDoesNotWaitForSilentConnections ends with a connection open on which
// nothing was asked.
func TestLeavingDoesNotWaitForSilentConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := serveInBubble(0)
		silent, err := w.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		if code, _, err := s.work("0s"); code != http.StatusOK {
			t.Fatalf("answered with %d, %v", code, err)
		}
		began := time.Now()
		s.told <- syscall.SIGTERM
		if err := s.end(t); err != nil {
			t.Error(err)
		}
		// The server's own patience with such a connection is 5 s.
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestNoticeTakesRequests sends one within the notice, on a connection that was idle when
// the signal came.
func TestNoticeTakesRequests(t *testing.T) {
	s := serve(t, time.Hour)
	idle, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	answers := bufio.NewReader(idle)
	work := func() *http.Response {
		t.Helper()
		request, err := http.NewRequest(http.MethodPost, s.url+"/work?for=1ms", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if err := request.Write(idle); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(answers, request)
		if err != nil {
			t.Fatalf("the request on the idle connection: %v", err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != http.StatusOK || answer.Header.Get(service.InstanceHeader) != "job" {
			t.Errorf("answered with %s by %q", answer.Status, answer.Header.Get(service.InstanceHeader))
		}
		return answer
	}
	if work().Close {
		t.Error("the connection ends though the instance may stay")
	}
	s.told <- syscall.SIGTERM
	// It has heard when it says that it leaves.
	for leaving := false; !leaving; {
		answer, err := http.Get(s.url + "/ready")
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		leaving = answer.StatusCode == http.StatusServiceUnavailable
	}
	if !work().Close {
		t.Error("the connection goes on though the instance leaves")
	}
	s.told <- syscall.SIGTERM
	if err := s.end(t); !errors.Is(err, service.ErrCut) {
		t.Errorf("told twice it ends with %v", err)
	}
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	s := serve(t, 0)
	for _, length := range []string{"", "long", "-1s", "2m"} {
		if code, body, err := s.work(length); code != http.StatusBadRequest || err != nil || !strings.Contains(body, "must be a duration") {
			t.Errorf("for=%s: %d %q, %v", length, code, body, err)
		}
	}
	s.told <- syscall.SIGTERM
	if err := s.end(t); err != nil {
		t.Error(err)
	}
}
