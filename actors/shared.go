package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
)

const (
	// flightTime bounds one request that callers share; those who still wait share the next.
	flightTime = time.Second
	// flightGap is how long callers wait for a request in flight before the next one is made: it may be to a
	// replica that leads no more.
	flightGap = 100 * time.Millisecond
)

// shared makes requests for many callers at once: a caller gets the answer to a request that was made after
// it asked, and all who ask meanwhile get the same. So however many callers there are, the leader has few
// requests of a replica, and no caller waits behind those of another. Requests end with ctx.
type shared[T any] struct {
	ctx context.Context
	mu  sync.Mutex
	// next has the request that follows the one in flight, by what is asked; nil while nobody waits for it.
	next map[string]*flight[T]
}

// flight is a request, and its answer once done is closed.
type flight[T any] struct {
	done   chan struct{}
	answer T
	err    error
}

// get returns the answer of a request that begins after the call. It waits until ctx is done.
func (s *shared[T]) get(ctx context.Context, key string, request func(ctx context.Context) (T, error)) (answer T, err error) {
	for {
		f := s.join(key, request)
		select {
		case <-f.done:
		case <-ctx.Done():
			if err == nil {
				err = ErrNoLeader
			}
			return answer, fmt.Errorf("%w (%w)", err, ctx.Err())
		}
		if ctx.Err() != nil || !errors.Is(f.err, context.DeadlineExceeded) {
			return f.answer, f.err
		}
		err = f.err
	}
}

// join returns the request that is made next.
func (s *shared[T]) join(key string, request func(ctx context.Context) (T, error)) *flight[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, flying := s.next[key]
	if f != nil {
		return f
	}
	f = &flight[T]{done: make(chan struct{})}
	if flying {
		s.next[key] = f
		return f
	}
	if s.next == nil {
		s.next = map[string]*flight[T]{}
	}
	s.next[key] = nil
	go s.fly(key, f, request)
	return f
}

// fly makes requests for as long as callers wait for the next.
func (s *shared[T]) fly(key string, f *flight[T], request func(ctx context.Context) (T, error)) {
	for f != nil {
		go s.ask(f, request)
		gap := time.NewTimer(flightGap)
		select {
		case <-f.done:
		case <-gap.C:
		}
		gap.Stop()
		s.mu.Lock()
		if f = s.next[key]; f == nil {
			delete(s.next, key)
		} else {
			s.next[key] = nil
		}
		s.mu.Unlock()
	}
}

func (s *shared[T]) ask(f *flight[T], request func(ctx context.Context) (T, error)) {
	defer close(f.done)
	ctx, cancel := context.WithTimeout(s.ctx, flightTime)
	defer cancel()
	f.answer, f.err = request(ctx)
}

// ReadBarrier returns when this replica's state includes every write that was acknowledged before
// the call.
func (r *Replica) ReadBarrier(ctx context.Context) error {
	index, err := r.barriers.get(ctx, "", func(ctx context.Context) (uint64, error) {
		read, err := askLeader[*actorpb.ReadIndex](ctx, r, &actorpb.ReadIndexRequest{})
		return read.GetIndex(), err
	})
	if err != nil {
		return err
	}
	return r.store.WaitApplied(ctx, index)
}

// SchedulerView returns the view of the leader's engines. It is shared, and must not be changed.
func (r *Replica) SchedulerView(ctx context.Context, m *actorpb.SchedulerViewRequest) (*actorpb.SchedulerView, error) {
	if m.GetExplain() || len(m.GetReports()) > 0 { // The scheduler shares those itself; no other call wants these.
		return viewFor(ctx, r, m)
	}
	key, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	return r.views.get(ctx, string(key), func(ctx context.Context) (*actorpb.SchedulerView, error) { return viewFor(ctx, r, m) })
}
