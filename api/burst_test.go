package api

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
)

// More submissions at once than are let in: those that are turned away have a hint,
// come again, and each of them is there in the end, once.
func TestBurstIsTurnedAwayAndComesAgain(t *testing.T) {
	const submissions = 200
	s := newSite(t, func(l *Limits) { l.Calls, l.RetryAfter = 4, 5*time.Millisecond })
	room, err := structpb.NewStruct(map[string]any{"max_operation_count": submissions})
	if err != nil {
		t.Fatal(err)
	}
	s.must(&commandpb.EditTree{Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: "burst", Options: room}}}}})
	c := newClient(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	refused := func() int { return s.ended.of(apipbconnect.OperationServiceStartProcedure, "resource_exhausted") }
	// Those that were let in stay until others have been turned away.
	before := func() {
		for refused() == 0 && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond):
			}
		}
	}
	s.before.Store(&before)
	description := specOf(t, "{pool: burst, tasks: {t: {job_count: 1, command: [run]}}}")
	var all sync.WaitGroup
	ids := make(chan string, submissions)
	for i := range submissions {
		all.Go(func() {
			answer, err := c.StartOperation(ctx, &apipb.StartRequest{Spec: description, MutationId: fmt.Sprintf("m-%d", i)})
			if err != nil {
				t.Errorf("submission %d: %v", i, err)
			}
			ids <- answer.GetOperationId()
		})
	}
	all.Wait()
	close(ids)
	acknowledged := map[string]bool{}
	for id := range ids {
		acknowledged[id] = true
	}
	there := 0
	s.View(func(st *state.State) {
		for op := range st.Operations() {
			if there++; !acknowledged[op.GetId()] {
				t.Errorf("operation %s is there and nobody was told", op.GetId())
			}
		}
	})
	if len(acknowledged) != submissions || there != submissions || refused() == 0 {
		t.Errorf("%d acknowledged, %d there, want %d of both; %d turned away, want some", len(acknowledged), there, submissions, refused())
	}
}
