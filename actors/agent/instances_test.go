package agent

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/remote"
	"weir/messages/actorpb"
)

// TestInstancesAreAskedOfOneReplica until it fails.
func TestInstancesAreAskedOfOneReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cp := &plane{}
		down := ""
		cp.answer = func(replica string, _ proto.Message) (proto.Message, error) {
			switch replica {
			case down:
				return nil, remote.ErrNotConnected
			case "r2":
				return &actorpb.Refused{Code: "unavailable", Reason: "lags behind"}, nil
			}
			return &actorpb.Instances{Version: replica}, nil
		}
		known := new(atomic.Pointer[[]Replica])
		all := replicas("r1", "r2", "r3")
		known.Store(&all)
		source := newInstances(cp, known, DefaultTiming())
		ask := func() string {
			told, err := source.Ask(t.Context(), &actorpb.InstancesRequest{OperationId: "op", WaitMillis: 10})
			if err != nil {
				return err.Error()
			}
			return told.GetVersion()
		}
		// It may begin with the one that refuses.
		for ask() != "r3" {
			down = "r1"
		}
		for range 3 {
			if got := ask(); got != "r3" {
				t.Errorf("answered by %s, want the same replica", got)
			}
		}
		down = "r3"
		if got := ask(); !strings.Contains(got, "ask r3") || !strings.Contains(got, remote.ErrNotConnected.Error()) {
			t.Errorf("got %s, want it named", got)
		}
		if first, second := source.Pause(), source.Pause(); first <= 0 || second <= first/2 || second > DefaultTiming().ReportMax {
			t.Errorf("pauses %v, %v", first, second)
		}
		if got := ask(); got != "r1" {
			t.Errorf("answered by %s, want another replica", got)
		}
		cp.silent = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := source.Ask(ctx, &actorpb.InstancesRequest{WaitMillis: 20_000}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("asked for longer than wanted: %v", err)
		}
		<-time.After(time.Minute)
	})
}
