package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"weir/api/client"
	"weir/messages/apipb/apipbconnect"
)

// sharedMethods are those whose answers are the same for everybody: shares, guarantees and nodes need no right
// (docs/tenancy.md). The API's own test holds that.
var sharedMethods = map[string]bool{
	apipbconnect.PoolServiceListProcedure:    true,
	apipbconnect.PoolServiceGetProcedure:     true,
	apipbconnect.PoolServiceHistoryProcedure: true,
	apipbconnect.TreeServiceListProcedure:    true,
	apipbconnect.TreeServiceGetProcedure:     true,
	apipbconnect.NodeServiceListProcedure:    true,
}

const (
	// shareFor is how old a shared answer may be. The page asks every two seconds.
	shareFor = time.Second
	// maxShared bounds an answer that is shared, and maxSharedAll all of them.
	maxShared, maxSharedAll = 16 << 20, 64 << 20
	// sharedPatience bounds a question for several people: longer than a change of leaders.
	sharedPatience = 15 * time.Second
)

// sharing asks once what many people ask within a second. Who asks first names the person by whom a replica
// is asked.
type sharing struct {
	cluster Cluster
	now     func() time.Time

	mu    sync.Mutex
	asked map[[sha256.Size]byte]*question
	bytes int
}

// question is one that was asked, with its answer.
type question struct {
	done chan struct{}
	// answered is when the answer came; zero: it has not.
	answered time.Time
	status   int
	header   http.Header
	body     []byte
	err      error
}

func newSharing(cluster Cluster) *sharing {
	return &sharing{cluster: cluster, now: time.Now, asked: map[[sha256.Size]byte]*question{}}
}

// Forward answers as the cluster does, from an answer that is less than a second old if there is one.
func (s *sharing) Forward(ctx context.Context, f client.Forwarded) (*http.Response, error) {
	if !sharedMethods[f.Procedure] || f.Address != "" {
		if f.Changes {
			// Whoever changes something sees it at once.
			defer s.forget()
		}
		return s.cluster.Forward(ctx, f)
	}
	key := sha256.Sum256(slices.Concat([]byte(f.Procedure+"\n"+f.Header.Get("Content-Type")+"\n"+f.Header.Get("Connect-Protocol-Version")+"\n"), f.Body))
	s.mu.Lock()
	s.expire()
	q := s.asked[key]
	if q == nil {
		q = &question{done: make(chan struct{})}
		s.asked[key] = q
		// It outlives the one who asks first: others wait for it too.
		go s.ask(context.WithoutCancel(ctx), key, q, f)
	}
	s.mu.Unlock()
	select {
	case <-q.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if q.err != nil || q.status != http.StatusOK {
		// What went wrong may be about the one who asked first.
		return s.cluster.Forward(ctx, f)
	}
	return &http.Response{StatusCode: q.status, Header: q.header.Clone(), Body: io.NopCloser(bytes.NewReader(q.body))}, nil
}

// ask asks the cluster. Errors and refusals are not kept.
func (s *sharing) ask(ctx context.Context, key [sha256.Size]byte, q *question, f client.Forwarded) {
	ctx, cancel := context.WithTimeout(ctx, sharedPatience)
	defer cancel()
	q.status, q.header, q.body, q.err = read(s.cluster.Forward(ctx, f))
	s.mu.Lock()
	q.answered = s.now()
	if s.asked[key] == q {
		s.bytes += len(q.body)
		if q.err != nil || q.status != http.StatusOK || s.bytes > maxSharedAll {
			s.drop(key, q)
		}
	}
	s.mu.Unlock()
	close(q.done)
}

// forget forgets all answers, also those that are under way.
func (s *sharing) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.bytes = map[[sha256.Size]byte]*question{}, 0
}

// Shared returns the methods whose answers are shared.
func Shared() []string { return slices.Sorted(maps.Keys(sharedMethods)) }

var errLargeAnswer = errors.New("the answer is too large to be shared")

func read(answer *http.Response, err error) (int, http.Header, []byte, error) {
	if err != nil {
		return 0, nil, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxShared+1))
	if err == nil && len(body) > maxShared {
		err = errLargeAnswer
	}
	return answer.StatusCode, answer.Header, body, err
}

// expire forgets answers that are too old. The caller holds the lock.
func (s *sharing) expire() {
	now := s.now()
	for key, q := range s.asked {
		if !q.answered.IsZero() && now.Sub(q.answered) >= shareFor {
			s.drop(key, q)
		}
	}
}

// drop forgets an answer. The caller holds the lock.
func (s *sharing) drop(key [sha256.Size]byte, q *question) {
	if s.asked[key] == q {
		delete(s.asked, key)
		s.bytes -= len(q.body)
	}
}
