package client_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"weir/api/client"
	"weir/messages/apipb"
)

// tells returns a watch that sends states, and then ends with err.
func tells(err error, states ...string) func(context.Context, *connect.ServerStream[apipb.WatchOperationResponse]) error {
	return func(_ context.Context, stream *connect.ServerStream[apipb.WatchOperationResponse]) error {
		for _, state := range states {
			if err := stream.Send(&apipb.WatchOperationResponse{Operation: &apipb.Operation{Id: "op", State: state}}); err != nil {
				return err
			}
		}
		return err
	}
}

func TestWatchGoesOnElsewhere(t *testing.T) {
	tests := map[string]struct {
		first  func(t *testing.T) string
		adjust func(*client.Config)
	}{
		"the first replica is dead":   {deadAddress, nil},
		"the first replica is frozen": {frozenAddress, hasty},
		"the first replica says nothing": {func(t *testing.T) string {
			return serve(t, &fakeReplica{watch: func(ctx context.Context, _ *connect.ServerStream[apipb.WatchOperationResponse]) error {
				<-ctx.Done()
				return ctx.Err()
			}}).address
		}, hasty},
		"the first replica fails on the way": {func(t *testing.T) string {
			return serve(t, &fakeReplica{watch: tells(unavailable(""), "pending", "running")}).address
		}, nil},
		"the first replica ends the stream": {func(t *testing.T) string {
			return serve(t, &fakeReplica{watch: tells(nil, "pending", "running")}).address
		}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			second := serve(t, &fakeReplica{watch: tells(nil, "running", "completed")})
			var states []string
			for op, err := range open(t, test.adjust, test.first(t), second.address).WatchOperation(t.Context(), "op") {
				if err != nil {
					t.Fatal(err)
				}
				states = append(states, op.GetState())
			}
			// What the second replica repeats is not shown again.
			if states[0] == "pending" {
				states = states[1:]
			}
			if want := []string{"running", "completed"}; !slices.Equal(states, want) {
				t.Fatalf("states = %v; want %v", states, want)
			}
		})
	}
}

func TestQuietWatchIsNotGivenUp(t *testing.T) {
	// A call that is given up after several times what a try may take.
	slow := open(t, func(cfg *client.Config) { cfg.Try, cfg.Deadline = 100*time.Millisecond, 500*time.Millisecond }, frozenAddress(t))
	var watches atomic.Int32
	r := serve(t, &fakeReplica{
		watch: func(ctx context.Context, stream *connect.ServerStream[apipb.WatchOperationResponse]) error {
			watches.Add(1)
			if err := tells(nil, "running")(ctx, stream); err != nil {
				return err
			}
			if _, err := slow.GetOperation(ctx, "op"); !errors.Is(err, client.ErrUnreachable) {
				return err
			}
			return tells(nil, "completed")(ctx, stream)
		},
	})
	c := open(t, func(cfg *client.Config) { cfg.Try, cfg.Deadline = 100*time.Millisecond, 200*time.Millisecond }, r.address)
	last, begun := "", int32(0)
	for op, err := range c.WatchOperation(t.Context(), "op") {
		if err != nil {
			t.Fatal(err)
		}
		if last = op.GetState(); last == "running" {
			// One that does not begin in time is given up.
			begun = watches.Load()
		}
	}
	if last != "completed" || watches.Load() != begun {
		t.Fatalf("ended %q after %d more watches; want completed after the one that had begun", last, watches.Load()-begun)
	}
}

func TestWatchEnds(t *testing.T) {
	t.Run("when it is refused", func(t *testing.T) {
		r := serve(t, &fakeReplica{watch: tells(refuse(connect.CodeNotFound, "unknown_operation", "no"))})
		for _, err := range open(t, nil, r.address).WatchOperation(t.Context(), "op") {
			if client.CodeOf(err) != "unknown_operation" {
				t.Fatalf("error = %v; want unknown_operation", err)
			}
		}
	})
	t.Run("when the reader leaves", func(t *testing.T) {
		r := serve(t, &fakeReplica{watch: tells(unavailable(""), "running")})
		for _, err := range open(t, nil, r.address).WatchOperation(t.Context(), "op") {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
	})
	t.Run("when the caller cancels", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := serve(t, &fakeReplica{watch: func(ctx context.Context, stream *connect.ServerStream[apipb.WatchOperationResponse]) error {
			if err := tells(nil, "running")(ctx, stream); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}})
		var last error
		for _, err := range open(t, nil, r.address).WatchOperation(ctx, "op") {
			cancel()
			last = err
		}
		if !errors.Is(last, context.Canceled) {
			t.Fatalf("error = %v; want context.Canceled", last)
		}
	})
}

func TestWaitOutlastsTheDeadline(t *testing.T) {
	rounds := 0
	began := time.Now()
	const deadline = 100 * time.Millisecond
	r := serve(t, &fakeReplica{wait: func() (*apipb.WaitOperationResponse, error) {
		rounds++
		switch {
		case time.Since(began) < 3*deadline:
			return nil, unavailable("")
		case rounds%2 == 0:
			return &apipb.WaitOperationResponse{Operation: running("op")}, nil
		}
		return &apipb.WaitOperationResponse{Operation: completed("op"), Done: true}, nil
	}})
	c := open(t, func(cfg *client.Config) { cfg.Deadline = deadline }, deadAddress(t), r.address)
	op, err := c.WaitOperation(t.Context(), "op")
	if err != nil || op.GetState() != "completed" {
		t.Fatalf("wait = %v, %v; want completed", op, err)
	}
}

func TestWaitEndsWithTheContext(t *testing.T) {
	ctx := newEnding()
	var rounds atomic.Int32
	r := serve(t, &fakeReplica{wait: func() (*apipb.WaitOperationResponse, error) {
		if rounds.Add(1) == 3 {
			ctx.end()
		}
		return &apipb.WaitOperationResponse{Operation: running("op")}, nil
	}})
	_, err := open(t, nil, r.address).WaitOperation(ctx, "op")
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, client.ErrUnreachable) {
		t.Fatalf("error = %v; want the context's: the replica was there", err)
	}
}

// TestWatchInstances goes on at another replica, shows no answer twice in a row, and ends
// with the operation.
func TestWatchInstances(t *testing.T) {
	shows := func(end error, last bool, states ...string) *fakeReplica {
		return serve(t, &fakeReplica{instances: func(stream *connect.ServerStream[apipb.WatchInstancesResponse]) error {
			for i, state := range states {
				seen := &apipb.WatchInstancesResponse{OperationId: "op", Instances: []*apipb.Instance{{JobId: "j", State: state}}, Over: last && i == len(states)-1}
				if err := stream.Send(seen); err != nil {
					return err
				}
			}
			return end
		}})
	}
	first, second := shows(unavailable(""), false, "live", "live", "draining"), shows(nil, true, "draining", "draining", "gone")
	var states []string
	for seen, err := range open(t, nil, first.address, second.address).WatchInstances(t.Context(), "*alias") {
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, seen.GetInstances()[0].GetState())
	}
	if states[0] == "live" {
		states = states[1:]
	}
	if want := []string{"draining", "gone"}; !slices.Equal(states, want) {
		t.Errorf("seen %q, want %q", states, want)
	}
	for _, err := range open(t, nil, first.address, second.address).WatchInstances(t.Context(), "op") {
		if err != nil {
			t.Error(err)
		}
		break // Who has seen enough may go.
	}
}

// TestWatchInstancesByChanges shows all instances after each change, and asks anew when one
// was missed.
func TestWatchInstancesByChanges(t *testing.T) {
	instance := func(job, state string) *apipb.Instance { return &apipb.Instance{JobId: job, State: state} }
	tells := func(all ...*apipb.WatchInstancesResponse) func(*connect.ServerStream[apipb.WatchInstancesResponse]) error {
		return func(stream *connect.ServerStream[apipb.WatchInstancesResponse]) error {
			for _, told := range all {
				told.OperationId = "op"
				if err := stream.Send(told); err != nil {
					return err
				}
			}
			return nil
		}
	}
	streams := []func(*connect.ServerStream[apipb.WatchInstancesResponse]) error{
		tells(
			&apipb.WatchInstancesResponse{Version: "1", Instances: []*apipb.Instance{instance("a", "live"), instance("b", "live")}},
			&apipb.WatchInstancesResponse{Version: "2", Since: "1", Instances: []*apipb.Instance{instance("b", "draining")}},
			&apipb.WatchInstancesResponse{Version: "2", Since: "2"},
			&apipb.WatchInstancesResponse{Version: "3", Since: "2", Instances: []*apipb.Instance{instance("c", "live")}, Forgotten: []string{"b"}},
			&apipb.WatchInstancesResponse{Version: "9", Since: "8", Instances: []*apipb.Instance{instance("never", "live")}},
		),
		// Nothing was told here that changes could be since.
		tells(&apipb.WatchInstancesResponse{Version: "4", Since: "3", Instances: []*apipb.Instance{instance("never", "live")}}),
		tells(
			&apipb.WatchInstancesResponse{Version: "5", Instances: []*apipb.Instance{instance("a", "live"), instance("c", "gone")}},
			&apipb.WatchInstancesResponse{Version: "6", Since: "5", Over: true},
		),
	}
	opened := 0
	r := serve(t, &fakeReplica{instances: func(stream *connect.ServerStream[apipb.WatchInstancesResponse]) error {
		opened++
		return streams[opened-1](stream)
	}})
	var shown []string
	for seen, err := range open(t, nil, r.address).WatchInstances(t.Context(), "op") {
		if err != nil {
			t.Fatal(err)
		}
		line := ""
		for _, in := range seen.GetInstances() {
			line += in.GetJobId() + " " + in.GetState() + ";"
		}
		if seen.GetOver() {
			line += "over"
		}
		if seen.GetVersion() != "" || seen.GetSince() != "" {
			t.Errorf("%v is shown as changes", seen)
		}
		shown = append(shown, line)
	}
	if want := []string{"a live;b live;", "a live;b draining;", "a live;c live;", "a live;c gone;", "a live;c gone;over"}; !slices.Equal(shown, want) {
		t.Errorf("shown %q, want %q", shown, want)
	}
}
