package actors

import (
	"sync"
	"testing"

	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
)

// TestNewsAreOfTheirOperation tells of events, and looks who is woken.
func TestNewsAreOfTheirOperation(t *testing.T) {
	of := []*statepb.Allocation{{OperationId: "op"}}
	for name, test := range map[string]struct {
		event state.Event
		want  bool
	}{
		"a job of it starts":             {state.AllocationsStarted{Allocations: of}, true},
		"a job of it has to go":          {state.StopsOrdered{Operation: "op", Allocations: of}, true},
		"a job of it has ended":          {state.AllocationsEnded{Operation: "op"}, true},
		"it has changed":                 {state.OperationChanged{ID: "op"}, true},
		"it is forgotten":                {state.OperationArchived{ID: "op"}, true},
		"a job of another one has ended": {state.AllocationsEnded{Operation: "other"}, false},
		"nobody can be reached by that":  {state.DemandChanged{ID: "op"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			desk := newNewsdesk()
			awaited, leave := desk.follow("op")
			_, changed := awaited.look(func() *actorpb.Instances { return &actorpb.Instances{} })
			desk.take(test.event)
			select {
			case <-changed:
				if !test.want {
					t.Error("it is told as news")
				}
			default:
				if test.want {
					t.Error("it is not told")
				}
			}
			leave()
			if len(desk.waiting) != 0 {
				t.Errorf("%d operations are followed by nobody", len(desk.waiting))
			}
		})
	}
}

// TestWhatIsSeenIsShared has many look at once: it is found once, and again after news.
// What was found while news came is not kept.
func TestWhatIsSeenIsShared(t *testing.T) {
	desk := newNewsdesk()
	awaited, leave := desk.follow("op")
	defer leave()
	found := 0
	find := func() *actorpb.Instances {
		found++
		return &actorpb.Instances{}
	}
	var looking sync.WaitGroup
	for range 10 {
		looking.Go(func() { awaited.look(find) })
	}
	looking.Wait()
	if found != 1 {
		t.Errorf("found %d times, want once", found)
	}
	desk.tellAll()
	_, changed := awaited.look(func() *actorpb.Instances {
		desk.tell("op")
		return find()
	})
	select {
	case <-changed:
	default:
		t.Error("news came meanwhile, and nobody is told")
	}
	if awaited.look(find); found != 3 {
		t.Errorf("found %d times, want again after news", found)
	}
}
