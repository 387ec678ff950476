package readiness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"weir/messages/actorpb"
	"weir/messages/statepb"
)

// listener keeps what a watcher tells and notes.
type listener struct {
	mu          sync.Mutex
	told, noted []string
}

func (l *listener) tell(_ context.Context, word *actorpb.InstanceWord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, fmt.Sprint(word.GetNumber(), " ", word.GetWord()))
}

func (l *listener) note(_ context.Context, word string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noted = append(l.noted, word)
	return nil
}

// take returns what was told since the last call.
func (l *listener) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := l.told
	l.told = nil
	return told
}

func readiness(r *statepb.Readiness) *statepb.Readiness {
	r.Period, r.Timeout, r.Failures = durationpb.New(time.Second), durationpb.New(time.Second), 2
	return r
}

// TestWatcher follows an instance that warms up, fails and recovers, in the time of its own.
func TestWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l listener
		warming := errors.New("warming up")
		var outcome atomic.Pointer[error]
		outcome.Store(&warming)
		w := Watch(Config{
			Task: readiness(&statepb.Readiness{Exec: []string{"check"}}), Note: l.note, Tell: l.tell,
			Place: Place{Exec: func(context.Context, []string, time.Duration) error { return *outcome.Load() }},
		})
		defer w.Close()
		for _, step := range []struct {
			story   string
			outcome error
			after   time.Duration
			want    string
		}{
			{"it is found not to be ready when it has failed twice", warming, 150 * time.Millisecond, "1 not_ready"},
			{"one that is not ready is asked often, and told at once", nil, 150 * time.Millisecond, "2 ready"},
			{"what has not changed is told again after a while, under its number", nil, 20 * time.Second, "2 ready"},
			{"one that was ready fails", errors.New("overloaded"), 3 * time.Second, "3 not_ready"},
		} {
			outcome.Store(&step.outcome)
			time.Sleep(step.after)
			synctest.Wait()
			// What was told before may come again meanwhile.
			if got := l.take(); len(got) == 0 || got[len(got)-1] != step.want {
				t.Errorf("%s: told %q, want %q in the end", step.story, got, step.want)
			}
		}
	})
}

// TestFloodOfWords has an instance change its mind 10,000 times: each word is answered, and
// some are told, the last one among them.
func TestFloodOfWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l listener
		w := Watch(Config{Note: l.note, Tell: l.tell})
		defer w.Close()
		words := []string{actorpb.WordReady, actorpb.WordNotReady}
		var saying sync.WaitGroup
		for i := range 10_000 {
			saying.Go(func() {
				time.Sleep(time.Duration(i) * 6 * time.Millisecond)
				if err := w.Say(words[i%2]); err != nil {
					t.Error(err)
				}
			})
		}
		saying.Wait()
		synctest.Wait()
		time.Sleep(time.Second)
		told := l.take()
		if len(told) < 100 || len(told) > 1300 || told[len(told)-1] != fmt.Sprint(len(told), " not_ready") {
			t.Errorf("told %d words in a minute, the last %q; want some 20 a second, and the last one said", len(told), told[max(0, len(told)-1):])
		}
		if len(l.noted) > 1300 || l.noted[len(l.noted)-1] != actorpb.WordNotReady {
			t.Errorf("noted %d words", len(l.noted))
		}
	})
}

// TestWordOfAnEarlierProcess: what an instance has said holds when the agent is started again,
// and is told in its new session.
func TestWordOfAnEarlierProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l listener
		w := Watch(Config{Task: &statepb.Readiness{Socket: true}, Said: actorpb.WordNotReady, Note: l.note, Tell: l.tell})
		synctest.Wait()
		if told := l.take(); !slices.Equal(told, []string{"1 not_ready"}) || len(l.noted) != 0 {
			t.Errorf("told %q, noted %q", told, l.noted)
		}
		w.Close()
		if err := w.Say(actorpb.WordReady); err == nil {
			t.Error("a word was taken after the end")
		}
		quiet := Watch(Config{Note: l.note, Tell: l.tell})
		time.Sleep(time.Hour)
		quiet.Close()
		if told := l.take(); len(told) != 0 {
			t.Errorf("told %q of an instance that has said nothing", told)
		}
	})
}

// TestProbes asks real listeners.
func TestProbes(t *testing.T) {
	status, asked := http.StatusOK, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		w.WriteHeader(status)
		_, _ = w.Write([]byte("warming up"))
	}))
	defer server.Close()
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := int32(closed.Addr().(*net.TCPAddr).Port)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	at := Place{Host: host, Ports: []int32{nobody, int32(number)}}
	for name, test := range map[string]struct {
		task   *statepb.Readiness
		status int
		want   bool
	}{
		"it accepts connections":       {&statepb.Readiness{Tcp: true, Port: 1}, 200, true},
		"nobody listens":               {&statepb.Readiness{Tcp: true}, 200, false},
		"nobody answers":               {&statepb.Readiness{HttpPath: "/"}, 200, false},
		"it answers that it is well":   {&statepb.Readiness{HttpPath: "/ready?deep=1", Port: 1}, 200, true},
		"it sends elsewhere":           {&statepb.Readiness{HttpPath: "/", Port: 1}, 302, true},
		"it answers that it is not":    {&statepb.Readiness{HttpPath: "/", Port: 1}, 503, false},
		"a port that it does not have": {&statepb.Readiness{Tcp: true, Port: 2}, 200, false},
	} {
		t.Run(name, func(t *testing.T) {
			status = test.status
			err := probe(t.Context(), readiness(test.task), at)
			if (err == nil) != test.want {
				t.Errorf("probe: %v, want ready %t", err, test.want)
			}
			if test.want && test.task.GetHttpPath() != "" && asked != test.task.GetHttpPath() {
				t.Errorf("asked for %q", asked)
			}
		})
	}
}
