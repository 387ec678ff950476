package api

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// Follow implements Store: it finds out which operations have changed by comparing them.
func (r *replicaFake) Follow(ctx context.Context, from uint64, each func(raftstore.Batch)) error {
	seen := map[string]*statepb.Operation{}
	for {
		if err := r.WaitApplied(ctx, from); err != nil {
			return err
		}
		var batch raftstore.Batch
		r.mu.Lock()
		batch.Index = r.index
		for op := range r.state.Operations() {
			if old := seen[op.GetId()]; old == nil || !proto.Equal(old, op) {
				now, err := lifecycle.ParseState(op.GetState())
				if err != nil {
					r.t.Error(err)
				}
				batch.Events = append(batch.Events, state.OperationChanged{ID: scheduling.OperationID(op.GetId()), To: now})
				seen[op.GetId()] = proto.CloneOf(op)
			}
		}
		r.mu.Unlock()
		from = batch.Index + 1
		each(batch)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestChangesWakeWhoWaitsForThem has each kind of event for one of two operations.
func TestChangesWakeWhoWaitsForThem(t *testing.T) {
	allocations := func(operation string) []*statepb.Allocation { return []*statepb.Allocation{{OperationId: operation}} }
	for name, test := range map[string]struct {
		event            state.Event
		wantWoken, ended bool
	}{
		"a step":            {state.OperationChanged{ID: "op", To: lifecycle.Running}, true, false},
		"the end":           {state.OperationChanged{ID: "op", To: lifecycle.Completed}, true, true},
		"its record leaves": {state.OperationArchived{ID: "op"}, true, true},
		"it begins":         {state.OperationAccepted{ID: "op"}, true, false},
		"a controller":      {state.ControllerAssigned{ID: "op"}, true, false},
		"tasks":             {state.TasksDefined{ID: "op"}, true, false},
		"demand":            {state.DemandChanged{ID: "op"}, true, false},
		"jobs begin":        {state.AllocationsStarted{Allocations: allocations("op")}, true, false},
		"jobs are stopped":  {state.StopsOrdered{Operation: "op"}, true, false},
		"jobs end":          {state.AllocationsEnded{Operation: "op"}, true, false},
		"another one's end": {state.OperationChanged{ID: "other", To: lifecycle.Completed}, false, false},
		"another one's job": {state.AllocationsStarted{Allocations: allocations("other")}, false, false},
		"a node":            {state.NodeChanged{ID: "op"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChanges()
			first, second := c.follow("op"), c.follow("op")
			changed, again := first.next(), second.next()
			// Twice: what has ended may go on to leave the state.
			for range 2 {
				c.take(raftstore.Batch{Index: 1, Events: []state.Event{test.event}})
			}
			if closed(changed) != test.wantWoken || closed(again) != test.wantWoken || closed(first.ended) != test.ended {
				t.Errorf("woken %t and %t, ended %t", closed(changed), closed(again), closed(first.ended))
			}
			if closed(first.next()) {
				t.Error("a change counts twice")
			}
			first.leave()
			second.leave()
			if len(c.followed) != 0 {
				t.Errorf("%d operations are followed although nobody waits", len(c.followed))
			}
		})
	}
}

// edit is an edit of the default tree.
func edit(e *commandpb.TreeEdit) *commandpb.EditTree {
	return &commandpb.EditTree{Edits: []*commandpb.TreeEdit{e}}
}

// gapStore has lost entries once, and is closed then.
type gapStore struct {
	*replicaFake
	asked []uint64
	began chan struct{}
}

func (s *gapStore) Follow(_ context.Context, from uint64, _ func(raftstore.Batch)) error {
	s.asked = append(s.asked, from)
	if len(s.asked) == 1 {
		<-s.began
		s.must(edit(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: "meanwhile"}}}))
		return fmt.Errorf("watch: %w", &raftstore.CompactedError{From: from, Oldest: from + 1})
	}
	return raftstore.ErrClosed
}

// TestAGapWakesAll: what was in it may be what somebody waits for.
func TestAGapWakesAll(t *testing.T) {
	store := &gapStore{replicaFake: newReplica(t), began: make(chan struct{})}
	c := newChanges()
	changed := c.follow("op").next()
	go c.read(t.Context(), store, store.Applied()+1)
	close(store.began)
	<-changed
	<-c.over
	if !errors.Is(c.err, raftstore.ErrClosed) {
		t.Errorf("it ended with %v", c.err)
	}
	if len(store.asked) != 2 || store.asked[1] != store.asked[0]+1 {
		t.Errorf("read from %v, want one entry further on after the gap", store.asked)
	}
}

// countedStore counts looks at the state.
type countedStore struct {
	*replicaFake
	views atomic.Int64
}

func (s *countedStore) View(f func(*state.State)) {
	s.views.Add(1)
	s.replicaFake.View(f)
}

// TestOthersDoNotWakeAWait has a thousand log entries about something else go by while
// somebody waits for an operation.
func TestOthersDoNotWakeAWait(t *testing.T) {
	site := newSite(t)
	id := site.run(1, "j1")
	store := &countedStore{replicaFake: site.replicaFake}
	// Nobody looks but for a change.
	limits := DefaultLimits()
	limits.KeepAlive = time.Hour
	s := &server{cfg: Config{Store: store, Limits: limits}, changes: newChanges()}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go s.changes.read(ctx, store, store.Applied()+1)
	shown, ended := make(chan bool, 16), make(chan error, 1)
	go func() {
		ended <- operations{s}.follow(ctx, id, func(string) error { return nil }, func(_ *apipb.Operation, over bool) error { shown <- over; return nil })
	}()
	<-shown
	before := store.views.Load()
	for range 1000 {
		site.must(edit(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: "other"}}}),
			edit(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Remove{Remove: "other"}}))
	}
	if looked := store.views.Load() - before; looked > 2 {
		t.Errorf("it looked at the state %d times for what is no change of the operation", looked)
	}
	site.must(&commandpb.AbortOperation{OperationId: id, User: "ann"})
	site.finish(id, "j1", "aborted")
	site.must(&commandpb.AdvanceOperation{OperationId: id, Term: 1, From: "aborting", To: "aborted"})
	for over := false; !over; {
		select {
		case over = <-shown:
		case <-time.After(patience):
			t.Fatal("the end was not heard of")
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
