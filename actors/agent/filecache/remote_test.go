package filecache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// shop is a server whose answers a test makes.
type shop struct {
	*httptest.Server
	asked atomic.Int64
}

func newShop(t *testing.T, answer func(try int64, w http.ResponseWriter, r *http.Request)) *shop {
	t.Helper()
	s := &shop{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(s.asked.Add(1), w, r) }))
	t.Cleanup(s.Close)
	return s
}

// wholeFile is what the servers of these tests have.
var wholeFile = strings.Repeat("x", 1000)

// shopCase is a server, and what comes of asking it for a file.
type shopCase struct {
	answer    func(try int64, w http.ResponseWriter, r *http.Request)
	wantTries int64
	wantError string
}

// placeAll places a file of each server in a cache of 1500 bytes.
func placeAll(t *testing.T, cases map[string]shopCase) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			s, c, to := newShop(t, test.answer), opened(t, t.TempDir(), 1500), t.TempDir()
			err := c.Place(t.Context(), to, nil, []File{{Source: s.URL + "/a/b?X-Amz-Signature=secret", Path: "f"}})
			if s.asked.Load() != test.wantTries {
				t.Errorf("asked %d times, want %d", s.asked.Load(), test.wantTries)
			}
			if c.index.reserved != 0 {
				t.Errorf("%d bytes are reserved", c.index.reserved)
			}
			if test.wantError == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), test.wantError) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want ErrSource with %q and no signature", err, test.wantError)
			}
		})
	}
}

func TestServersAreAskedAgain(t *testing.T) {
	placeAll(t, map[string]shopCase{
		"one that answers": {
			answer:    func(_ int64, w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, wholeFile) },
			wantTries: 1,
		},
		"one that is overloaded for a while": {
			answer: func(try int64, w http.ResponseWriter, _ *http.Request) {
				if try < 3 {
					http.Error(w, "slow down", http.StatusServiceUnavailable)
					return
				}
				_, _ = io.WriteString(w, wholeFile)
			},
			wantTries: 3,
		},
		"one that is broken": {
			answer: func(_ int64, w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "no", http.StatusInternalServerError)
			},
			wantTries: 3, wantError: "file unavailable: 3 attempts: server responded 500 Internal Server Error",
		},
		"one that does not have it": {
			answer:    func(_ int64, w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
			wantTries: 1, wantError: "file unavailable: server responded 404 Not Found",
		},
		"one that breaks off": {
			answer: func(try int64, w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "1000")
				if try < 3 {
					_, _ = io.WriteString(w, wholeFile[:500])
					panic(http.ErrAbortHandler)
				}
				_, _ = io.WriteString(w, wholeFile)
			},
			wantTries: 3,
		},
		"one that does not say how much it has": {
			answer: func(_ int64, w http.ResponseWriter, _ *http.Request) {
				w.(http.Flusher).Flush()
				_, _ = io.WriteString(w, wholeFile)
			},
			wantTries: 1,
		},
	})
}

// TestFilesThatAreTooLarge has servers with more than the cache holds: they are asked once.
func TestFilesThatAreTooLarge(t *testing.T) {
	placeAll(t, map[string]shopCase{
		"one that has more than the cache holds": {
			answer:    func(_ int64, w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, wholeFile+wholeFile) },
			wantTries: 1, wantError: "it has 2000 bytes, but the file cache of the node holds 1500",
		},
		"one that has too much, and does not say so": {
			answer: func(_ int64, w http.ResponseWriter, _ *http.Request) {
				w.(http.Flusher).Flush()
				_, _ = io.WriteString(w, wholeFile+wholeFile)
			},
			wantTries: 1, wantError: "it has more than 1500 bytes",
		},
	})
}

// TestAServerThatFallsSilent in the middle of a file is asked again, and then given up.
func TestAServerThatFallsSilent(t *testing.T) {
	s := newShop(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, "half of it")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	c := openedWith(t, t.TempDir(), 1500, Retry{Tries: 3, Pause: time.Millisecond, Silence: 50 * time.Millisecond})
	// The beginning of an answer may take the server as long as it likes.
	c.client.Transport.(*http.Transport).ResponseHeaderTimeout = 0
	err := c.Place(t.Context(), t.TempDir(), nil, []File{{Source: s.URL + "/f", Path: "f"}})
	if !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), "3 attempts: no data from the server for too long") || s.asked.Load() != 3 {
		t.Errorf("asked %d times: %v", s.asked.Load(), err)
	}
	if c.index.reserved != 0 {
		t.Errorf("%d bytes are reserved", c.index.reserved)
	}
}

// lateBody has its next bytes at the moment at which the request is given up.
type lateBody struct{ ctx context.Context }

// Read implements io.Reader.
func (b lateBody) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, b.ctx.Err()
	}
	<-b.ctx.Done()
	return copy(p, "late"), nil
}

func (b lateBody) Close() error { return nil }

// lateServer answers each request with a lateBody.
type lateServer struct{ asked atomic.Int64 }

// RoundTrip implements http.RoundTripper.
func (s *lateServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	return &http.Response{StatusCode: http.StatusOK, Body: lateBody{r.Context()}, ContentLength: 1000, Request: r}, nil
}

// TestAServerThatSpeaksAsItIsGivenUp is asked again as one that says nothing: no file is
// at fault, and nobody has cancelled anything.
func TestAServerThatSpeaksAsItIsGivenUp(t *testing.T) {
	s := &lateServer{}
	c := openedWith(t, t.TempDir(), 1500, Retry{Tries: 3, Pause: time.Millisecond, Silence: time.Millisecond})
	c.client.Transport = s
	err := c.Place(t.Context(), t.TempDir(), nil, []File{{Source: "http://store/f", Path: "f"}})
	if !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), "3 attempts: no data from the server for too long") || s.asked.Load() != 3 {
		t.Errorf("asked %d times: %v", s.asked.Load(), err)
	}
}

func TestAServerThatCannotBeReached(t *testing.T) {
	s := newShop(t, func(int64, http.ResponseWriter, *http.Request) {})
	url := s.URL
	s.Close()
	c := opened(t, t.TempDir(), 100)
	err := c.Place(t.Context(), t.TempDir(), nil, []File{{Source: url + "/f?secret", Path: "f"}})
	if !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestWhatHasNotChangedIsNotSentAgain(t *testing.T) {
	sent := 0
	tag := `"one"`
	s := newShop(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		sent++
		w.Header().Set("ETag", tag)
		_, _ = fmt.Fprintf(w, "content %s", tag)
	})
	dir := t.TempDir()
	c := opened(t, dir, 100)
	for i := range 3 {
		if got := place(t, c, fmt.Sprintf("%s/f?X-Amz-Signature=%d", s.URL, i)); string(got) != `content "one"` {
			t.Errorf("got %q", got)
		}
	}
	c.Close()
	c = opened(t, dir, 100)
	place(t, c, s.URL+"/f?X-Amz-Signature=4")
	if sent != 1 {
		t.Errorf("sent %d times, want once", sent)
	}
	tag = `"two"`
	if got := place(t, c, s.URL+"/f"); string(got) != `content "two"` || sent != 2 {
		t.Errorf("got %q, sent %d times", got, sent)
	}
}

func TestURLsThatAskForDifferentThings(t *testing.T) {
	s := newShop(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		// A careless server: what it has is told apart by its parameters alone.
		if w.Header().Set("ETag", `"1"`); r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, r.URL.Query().Get("file"))
	})
	c := opened(t, t.TempDir(), 100)
	for _, name := range []string{"a", "b", "a"} {
		if got := place(t, c, s.URL+"/get?X-Amz-Signature=s&file="+name); string(got) != name {
			t.Errorf("asked for %s, got %q", name, got)
		}
	}
}

func TestADownloadIsSharedByThoseWithTheSameRights(t *testing.T) {
	arrived, open := make(chan struct{}, 1), make(chan struct{})
	s := newShop(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("X-Amz-Signature") != "good" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		arrived <- struct{}{}
		<-open
		_, _ = io.WriteString(w, "secret")
	})
	c := opened(t, t.TempDir(), 100)
	var jobs sync.WaitGroup
	get := func(query string) (err error) {
		return c.Place(context.Background(), t.TempDir(), nil, []File{{Source: s.URL + "/f" + query, Path: "f"}})
	}
	jobs.Go(func() {
		if err := get("?X-Amz-Signature=good"); err != nil {
			t.Error(err)
		}
	})
	<-arrived
	for _, query := range []string{"", "?X-Amz-Signature=made-up"} {
		jobs.Go(func() {
			if err := get(query); !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), "403") {
				t.Errorf("%q: got %v, want what the server says to it", query, err)
			}
		})
	}
	close(open)
	jobs.Wait()
}

func TestJobsShareADownload(t *testing.T) {
	arrived, open := make(chan struct{}, 100), make(chan struct{})
	s := newShop(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-open
		_, _ = io.WriteString(w, "content")
	})
	c := opened(t, t.TempDir(), 100)
	// One that goes away does not take the download from the others.
	hasty, leave := context.WithCancel(t.Context())
	var jobs sync.WaitGroup
	for i := range 10 {
		ctx, to := context.Background(), t.TempDir()
		if i == 0 {
			ctx = hasty
		}
		jobs.Go(func() {
			err := c.Place(ctx, to, nil, []File{{Source: s.URL + "/f", Path: "f"}})
			if (err != nil) != (i == 0) {
				t.Errorf("job %d: %v", i, err)
			}
		})
		if i == 0 {
			<-arrived
		}
	}
	until(t, func() bool { return c.waiting(s.URL+"/f") == 10 })
	leave()
	until(t, func() bool { return c.waiting(s.URL+"/f") == 9 })
	close(open)
	jobs.Wait()
	if s.asked.Load() != 1 {
		t.Errorf("asked %d times, want once", s.asked.Load())
	}
}

// until waits for something that happens soon.
func until(t *testing.T, happened func() bool) {
	t.Helper()
	deadline, tick := time.After(patience), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it has not happened for %v", patience)
		}
	}
}

// waiting is how many wait for a source.
func (c *Cache) waiting(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.flights[key]; f != nil {
		return f.waiting
	}
	return 0
}

func TestADownloadThatNobodyWantsEnds(t *testing.T) {
	ended := make(chan struct{})
	s := newShop(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(ended)
	})
	c := opened(t, t.TempDir(), 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	to := t.TempDir()
	go func() { done <- c.Place(ctx, to, nil, []File{{Source: s.URL + "/f", Path: "f"}}) }()
	until(t, func() bool { return s.asked.Load() > 0 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-ended
}
