package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/actors/agent/runner/proxyproto"
	"weir/scheduling/records"
)

// store is an object store with one object, and troubles.
type store struct {
	*httptest.Server
	mutex   sync.Mutex
	data    string
	version string
	puts    []string
	// trouble, where it is set, takes an answer in its hands and says whether it did.
	trouble  func(w http.ResponseWriter, r *http.Request, attempt int64) bool
	attempts atomic.Int64
	// asked counts what was asked of it, whether it has heard of it or not.
	asked atomic.Int64
}

func newStore(t *testing.T, data string) *store {
	s := &store{data: data, version: `"v1"`}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *store) serve(w http.ResponseWriter, r *http.Request) {
	attempt := s.attempts.Add(1)
	if s.trouble != nil && s.trouble(w, r, attempt) {
		return
	}
	if r.Method == http.MethodPut {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			s.mutex.Lock()
			s.puts = append(s.puts, string(body))
			s.mutex.Unlock()
		}
		return
	}
	w.Header().Set("ETag", s.version)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(s.data))
}

// part is the whole object.
func (s *store) part() proxyproto.FeedPart {
	return proxyproto.FeedPart{URL: s.URL + "/object?signature=secret", Name: "s3://bucket/object", Size: int64(len(s.data)), End: int64(len(s.data)), Version: "v1"}
}

// shortSilence is that of a client which is to come upon it.
const shortSilence = 200 * time.Millisecond

// client tries few times.
func (s *store) client(silence time.Duration) *storeClient {
	c := newStoreClient()
	c.attempts, c.pause, c.maxPause, c.silence = 3, time.Millisecond, time.Millisecond, silence
	c.http.Transport = s
	return c
}

// RoundTrip implements http.RoundTripper.
func (s *store) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	return s.Client().Transport.RoundTrip(r)
}

// readRemote reads an object to its end, some bytes at a time.
func readRemote(ctx context.Context, s *store, part proxyproto.FeedPart, silence time.Duration) (string, error) {
	source := newRemoteSource(&part)
	source.client = s.client(silence)
	defer source.drop()
	var all strings.Builder
	p := make([]byte, 7000)
	for offset := part.Begin; offset < part.End; {
		n, err := source.read(ctx, p, offset)
		if err != nil {
			return all.String(), err
		}
		all.Write(p[:n])
		offset += int64(n)
	}
	return all.String(), nil
}

// answer is a trouble.
func answer(code int, text string) func(http.ResponseWriter, *http.Request, int64) bool {
	return func(w http.ResponseWriter, _ *http.Request, _ int64) bool {
		http.Error(w, text, code)
		return true
	}
}

// hang says nothing until the client has had enough.
func hang(_ http.ResponseWriter, r *http.Request, _ int64) bool {
	// A server that has not read all of a request does not notice that the client goes.
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
	return true
}

// half breaks off in the middle of each odd answer.
func half(w http.ResponseWriter, r *http.Request, attempt int64) bool {
	if attempt%2 == 0 {
		return false
	}
	var begin, end int
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &begin, &end); err != nil {
		return false
	}
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/200000", begin, end))
	w.Header().Set("Content-Length", fmt.Sprint(end-begin+1))
	w.WriteHeader(http.StatusPartialContent)
	_, _ = io.WriteString(w, strings.Repeat("x", min(10000, end-begin)))
	panic(http.ErrAbortHandler)
}

// remoteData is what the object of these tests has in it.
var remoteData = strings.Repeat("x", 200000)

// remoteCase is an object of remoteData in a store.
type remoteCase struct {
	trouble func(http.ResponseWriter, *http.Request, int64) bool
	change  func(s *store, part *proxyproto.FeedPart)
	// silence is how long the store may say nothing; 0: as long as the test lasts.
	silence time.Duration
	// wantChanged or wantError, or all of the data.
	wantChanged  string
	wantError    string
	wantAttempts int64
}

// readAll reads each object to its end.
func readAll(t *testing.T, cases map[string]remoteCase) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, remoteData)
			part := s.part()
			s.trouble = test.trouble
			if test.change != nil {
				test.change(s, &part)
			}
			got, err := readRemote(t.Context(), s, part, cmp.Or(test.silence, patience))
			var changed changedError
			switch {
			case test.wantChanged != "":
				if !errors.As(err, &changed) || !strings.Contains(err.Error(), test.wantChanged) {
					t.Errorf("error %v, want a change: %s", err, test.wantChanged)
				}
			case test.wantError != "":
				if err == nil || errors.As(err, &changed) || !strings.Contains(err.Error(), test.wantError) {
					t.Errorf("error %v, want %s", err, test.wantError)
				}
			case err != nil || got != remoteData[part.Begin:]:
				t.Errorf("read %d bytes, %v, want all", len(got), err)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v tells the signature", err)
			}
			if test.wantAttempts > 0 && s.asked.Load() != test.wantAttempts {
				t.Errorf("%d requests, want %d", s.asked.Load(), test.wantAttempts)
			}
		})
	}
}

// TestRemoteSourceTriesAgain has stores that answer, and stores with troubles that may pass.
func TestRemoteSourceTriesAgain(t *testing.T) {
	readAll(t, map[string]remoteCase{
		"all is well":            {wantAttempts: 1},
		"no version is known":    {change: func(_ *store, part *proxyproto.FeedPart) { part.Version = "" }, wantAttempts: 1},
		"answers that break off": {trouble: half},
		"busy twice": {
			trouble: func(w http.ResponseWriter, r *http.Request, attempt int64) bool {
				return attempt < 3 && answer(http.StatusServiceUnavailable, "slow down")(w, r, attempt)
			},
			wantAttempts: 3,
		},
		"always busy": {
			trouble: answer(http.StatusServiceUnavailable, "slow down"), wantAttempts: 3,
			wantError: "at byte 0: gave up after 3 attempts: the store answered 503 Service Unavailable: slow down",
		},
		"it hangs": {trouble: hang, silence: shortSilence, wantAttempts: 3, wantError: "the store did not answer in time: no data for 200ms"},
		"it hangs in the middle": {
			trouble: func(w http.ResponseWriter, r *http.Request, attempt int64) bool {
				w.Header().Set("Content-Range", "bytes 0-199999/200000")
				w.Header().Set("Content-Length", "200000")
				w.WriteHeader(http.StatusPartialContent)
				_, _ = io.WriteString(w, "xxx")
				w.(http.Flusher).Flush()
				return hang(w, r, attempt)
			},
			silence:   time.Second,
			wantError: "at byte 3: ",
		},
		"nobody is there": {change: func(s *store, _ *proxyproto.FeedPart) { s.Close() }, wantError: "gave up after 3 attempts"},
	})
}

// TestRemoteSourceThatChanged has objects that are not what they were when they were listed.
func TestRemoteSourceThatChanged(t *testing.T) {
	readAll(t, map[string]remoteCase{
		"another version":              {trouble: answer(http.StatusPreconditionFailed, ""), wantChanged: `it is no longer version "v1"`},
		"another version all the same": {change: func(s *store, _ *proxyproto.FeedPart) { s.version = `"v2"` }, wantChanged: `it is no longer version "v1"`},
		"it is gone":                   {trouble: answer(http.StatusNotFound, ""), wantChanged: "it no longer exists"},
		"it is shorter":                {change: func(s *store, _ *proxyproto.FeedPart) { s.data = s.data[:100] }, wantChanged: "it has 100 bytes now, but had 200000"},
		"it is shorter than where it is read": {
			change:      func(s *store, part *proxyproto.FeedPart) { s.data, part.Begin = s.data[:100], 150 },
			wantChanged: "it now ends before byte 150",
		},
	})
}

// TestRemoteSourceRefused has stores that give no part of an object, whoever tries again.
func TestRemoteSourceRefused(t *testing.T) {
	readAll(t, map[string]remoteCase{
		"it may not be read": {trouble: answer(http.StatusForbidden, "Request has expired"), wantAttempts: 1, wantError: "403 Forbidden: Request has expired"},
		"a server that knows no ranges": {
			trouble: func(w http.ResponseWriter, _ *http.Request, _ int64) bool {
				_, _ = io.WriteString(w, remoteData)
				return true
			},
			change: func(_ *store, part *proxyproto.FeedPart) { part.Begin = 5 }, wantError: "the server does not support range requests",
		},
		"a server that gives another range": {
			trouble: func(w http.ResponseWriter, _ *http.Request, _ int64) bool {
				w.Header().Set("Content-Range", "bytes 1-2/200000")
				w.WriteHeader(http.StatusPartialContent)
				return true
			},
			wantError: `requested bytes from 0 on, but the server sent Content-Range "bytes 1-2/200000"`,
		},
	})
}

func TestRemoteSourceIsLeft(t *testing.T) {
	s := newStore(t, "data")
	s.trouble = hang
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := readRemote(ctx, s, s.part(), patience); err == nil {
		t.Error("no error of a read that nobody waits for any more")
	}
}

func TestJobsFedFromAStore(t *testing.T) {
	text := lines(100000)
	s := newStore(t, text)
	s.trouble = func(w http.ResponseWriter, r *http.Request, attempt int64) bool {
		return attempt%2 == 1 && answer(http.StatusInternalServerError, "oops")(w, r, attempt)
	}
	first, second := s.part(), s.part()
	first.End, second.Begin = 5000, 5000
	result := runJob(t, "cat", fed(s.URL+"/part?signature=secret", records.Lines, first, second))
	if result.Outcome != proxyproto.OutcomeExited || result.Input.Rows != 100000 || result.Input.Hash != hash(text) || result.Output == nil {
		t.Fatalf("result %+v, input %+v, want all of it", result, result.Input)
	}
	if len(s.puts) != 1 || s.puts[0] != text {
		t.Errorf("%d objects were put, want the output", len(s.puts))
	}
}

// TestInterruptedJobsFedFromAStore: where a record ends is asked of the store.
func TestInterruptedJobsFedFromAStore(t *testing.T) {
	text := lines(100000)
	s := newStore(t, text)
	output := filepath.Join(t.TempDir(), "part")
	// The signal comes during a sleep, which it does not end: a line that was read is written.
	a := startProxy(t, "trap 'over=1' INT; while [ -z \"$over\" ] && read -r line; do echo \"$line\"; (trap '' INT; exec sleep 0.05); done; exit 0", time.Hour, fed(output, records.Lines, s.part())).connect(t)
	awaitSome(t, partial(output))
	a.say(t, `{"interrupt":{"signal":"SIGINT","reason":"preemption","grace_millis":600000}}`)
	result := a.hear(t, "exited").Exited
	got, err := os.ReadFile(output)
	if err != nil || result.Input.Rest == nil || string(got) != text[:result.Input.Rest.Offset] {
		t.Errorf("result %+v, input %+v, wrote %d bytes, %v, want the rest to begin there", result, result.Input, len(got), err)
	}
}

func TestStoresThatTakeNothing(t *testing.T) {
	s := newStore(t, "")
	s.trouble = answer(http.StatusForbidden, "no")
	result := runJob(t, "echo 1; echo kept > kept", fed(s.URL+"/part?signature=secret", records.Lines))
	if result.Outcome != proxyproto.OutcomeOutputFailed || !strings.Contains(result.Error, s.URL+"/part: the store answered 403 Forbidden: no") || strings.Contains(result.Error, "secret") {
		t.Errorf("result %+v, want the refusal", result)
	}
}

// TestOutputOnItsWayToAStore is not with what is kept of a job, should its proxy be killed.
func TestOutputOnItsWayToAStore(t *testing.T) {
	s, kept := newStore(t, ""), t.TempDir()
	p := startProxy(t, "echo 1; exec sleep 60", time.Hour, fed(s.URL+"/part", records.Lines), func(spec *proxyproto.Spec) { spec.OutputFolder = kept })
	a := p.connect(t)
	awaitSome(t, filepath.Join(p.folder, "spool"))
	emptyFolder(t, kept)
	a.say(t, `{"stop":{"reason":"preemption","grace_millis":0}}`)
	a.hear(t, "exited")
	if _, err := os.Stat(filepath.Join(p.folder, "spool")); err == nil {
		t.Error("it is there still")
	}
}

func TestPut(t *testing.T) {
	tests := map[string]struct {
		data      string
		trouble   func(http.ResponseWriter, *http.Request, int64) bool
		silence   time.Duration
		wantError string
	}{
		"a file":        {data: "data"},
		"an empty file": {},
		"busy once": {data: "data", trouble: func(w http.ResponseWriter, r *http.Request, attempt int64) bool {
			return attempt == 1 && answer(http.StatusTooManyRequests, "")(w, r, attempt)
		}},
		"it hangs": {data: "data", trouble: hang, silence: shortSilence, wantError: "gave up after 3 attempts"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, "")
			s.trouble = test.trouble
			path := filepath.Join(t.TempDir(), "file")
			write(t, path, test.data)
			file, err := os.Open(path)
			must(t, err)
			defer file.Close()
			err = s.client(cmp.Or(test.silence, patience)).put(t.Context(), s.URL, file, func() {})
			if test.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantError) {
					t.Errorf("error %v, want %s", err, test.wantError)
				}
				return
			}
			if err != nil || len(s.puts) != 1 || s.puts[0] != test.data {
				t.Errorf("put %q, %v, want the file once", s.puts, err)
			}
		})
	}
}

func TestKeptFilesInAStore(t *testing.T) {
	s := newStore(t, "")
	keep := func(path string) *proxyproto.Result {
		return runJob(t, "echo kept > result; mkdir folder", func(spec *proxyproto.Spec) {
			spec.Outputs = []proxyproto.KeptFile{{Path: path, Destination: s.URL + "/kept?signature=secret"}}
		})
	}
	if result := keep("result"); result.Outcome != proxyproto.OutcomeExited || len(s.puts) != 1 || s.puts[0] != "kept\n" {
		t.Errorf("result %+v, put %q, want the file", result, s.puts)
	}
	if result := keep("folder"); !strings.Contains(result.Error, "a URL can take only one file") || strings.Contains(result.Error, "secret") {
		t.Errorf("result %+v, want the folder refused", result)
	}
}
