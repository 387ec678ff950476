package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/api/client"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// sharedAsk is a call of a person.
func sharedAsk(name, procedure, body string) client.Forwarded {
	return client.Forwarded{Procedure: procedure, Body: []byte(body), Header: http.Header{"Content-Type": {"application/json"}, apipb.HeaderOnBehalfOf: {name}}}
}

// TestAnswersAreShared (W2): what is the same for all is asked once a second, all else by each person.
func TestAnswersAreShared(t *testing.T) {
	const pools, operations, edit = apipbconnect.PoolServiceListProcedure, apipbconnect.OperationServiceListProcedure, apipbconnect.PoolServiceEditProcedure
	var asked atomic.Int64
	fails := false
	now := time.Now()
	s := newSharing(&fakeCluster{answers: func(_ context.Context, f client.Forwarded) (*http.Response, error) {
		asked.Add(1)
		if fails {
			return nil, errors.New("down")
		}
		return answered("application/json", f.Header.Get(apipb.HeaderOnBehalfOf)+" "+string(f.Body)), nil
	}})
	s.now = func() time.Time { return now }
	asks := func(name, procedure, body, want string, wantAsked int64) {
		t.Helper()
		asked.Store(0)
		answer, err := s.Forward(t.Context(), sharedAsk(name, procedure, body))
		got := ""
		if err == nil {
			data, _ := io.ReadAll(answer.Body)
			got = string(data)
		}
		if got != want || asked.Load() != wantAsked {
			t.Errorf("%s is answered %q (%v) after %d questions, want %q after %d", name, got, err, asked.Load(), want, wantAsked)
		}
	}
	asks("ann", pools, "{}", "ann {}", 1)
	asks("bob", pools, "{}", "ann {}", 0)
	asks("bob", pools, `{"tree":"x"}`, `bob {"tree":"x"}`, 1)
	asks("bob", operations, "{}", "bob {}", 1)
	for i, address := range []string{"h1:1", "h2:1", "h2:1"} {
		// Replicas have answers of their own.
		asked.Store(0)
		named := sharedAsk("bob", apipbconnect.ClusterServiceStatusProcedure, "{}")
		named.Address = address
		if _, err := s.Forward(t.Context(), named); err != nil || asked.Load() != int64(min(1, 2-i)) {
			t.Errorf("replica %s is asked %d times: %v", address, asked.Load(), err)
		}
	}
	asks("ann", operations, "{}", "ann {}", 1)
	now = now.Add(shareFor)
	asks("bob", pools, "{}", "bob {}", 1)
	change := sharedAsk("ann", edit, "{}")
	change.Changes = true
	if _, err := s.Forward(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	asks("ann", pools, "{}", "ann {}", 1)
	now = now.Add(shareFor)
	fails = true
	asks("ann", pools, "{}", "", 2)
	fails = false
	asks("bob", pools, "{}", "bob {}", 1)
}

// TestQuestionsAreShared (W2): who asks while another's question is under way waits for its answer, also if the
// other leaves.
func TestQuestionsAreShared(t *testing.T) {
	var asked atomic.Int64
	arrived, answers := make(chan struct{}), make(chan struct{})
	s := newSharing(&fakeCluster{answers: func(context.Context, client.Forwarded) (*http.Response, error) {
		asked.Add(1)
		close(arrived)
		<-answers
		return answered("application/json", "{}"), nil
	}})
	leaves, leave := context.WithCancel(t.Context())
	call := sharedAsk("ann", apipbconnect.PoolServiceListProcedure, "{}")
	left := make(chan error)
	go func() {
		_, err := s.Forward(leaves, call)
		left <- err
	}()
	<-arrived
	var others sync.WaitGroup
	for range 20 {
		others.Go(func() {
			if _, err := s.Forward(t.Context(), call); err != nil {
				t.Error(err)
			}
		})
	}
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who leaves: %v", err)
	}
	close(answers)
	others.Wait()
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
}
