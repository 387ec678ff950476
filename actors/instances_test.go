package actors

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"weir/actors/signal"
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
		})
	}
}

// TestJobsThatWentAtOnceHaveGone: who watches instances sees it of those that were told to
// go, though no controller had time to say so; of others nothing is left.
func TestJobsThatWentAtOnceHaveGone(t *testing.T) {
	ended := state.AllocationsEnded{Operation: "op", Ended: []state.Ended{
		{Allocation: &statepb.Allocation{JobId: "told", Task: "serve", Cookie: 3, Node: "n1", Ports: []int32{8080}}, Finished: &statepb.FinishedJob{Stop: &statepb.StopOrder{Interruption: "preemption"}}},
		{Allocation: &statepb.Allocation{JobId: "by itself", Task: "serve", Cookie: 4, Node: "n1"}, Finished: &statepb.FinishedJob{}},
	}}
	signals := signal.NewSignals(time.Minute, 10, time.Now)
	for _, gone := range goneOf(ended) {
		signals.Add(gone)
	}
	seen := signal.Known{Operation: "op", Heard: signals.OfOperation("op"), HostOf: func(node string) string { return "host of " + node }}.Instances().GetInstances()
	if len(seen) != 1 || seen[0].GetJobId() != "told" || seen[0].GetState() != actorpb.InstanceGone || seen[0].GetCookie() != 3 || seen[0].GetHost() != "host of n1" || seen[0].GetPorts()[0] != 8080 {
		t.Errorf("seen %v, want the job that was told to go, gone", seen)
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

// TestWhatIsSeenIsForgotten some time after the last one has asked.
func TestWhatIsSeenIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desk := newNewsdesk()
		_, first := desk.follow("op")
		_, second := desk.follow("op")
		first()
		<-time.After(2 * instancesKept)
		second()
		<-time.After(instancesKept - time.Second)
		_, third := desk.follow("op")
		<-time.After(2 * instancesKept)
		synctest.Wait()
		if len(desk.waiting) != 1 {
			t.Errorf("%d operations are known while somebody follows one", len(desk.waiting))
		}
		third()
		<-time.After(instancesKept + time.Second)
		synctest.Wait()
		if len(desk.waiting) != 0 {
			t.Errorf("%d operations are followed by nobody", len(desk.waiting))
		}
	})
}

// told is what a desk tells at once of instances, each in a state, to who has a version.
func told(desk *newsdesk, states []string, version string) *actorpb.Instances {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return desk.await(ctx, "op", version, true, func() *actorpb.Instances { return instancesIn(states) })
}

// instancesIn returns instances in a state each; without one it is not listed.
func instancesIn(states []string) *actorpb.Instances {
	out := &actorpb.Instances{OperationId: "op", Version: fmt.Sprint(states)}
	for i, state := range states {
		if state != "" {
			out.Instances = append(out.Instances, &actorpb.Instance{
				JobId: fmt.Sprintf("0197a2c4-7d1e-7000-8000-%012d", i), Task: "serve", Cookie: int32(i), Node: "node-17", Host: "10.0.0.17", Ports: []int32{21000}, State: state,
			})
		}
	}
	return out
}

// TestOneChangeOfAThousandIsTold to who has the others.
func TestOneChangeOfAThousandIsTold(t *testing.T) {
	size := func(count int) (whole, change int) {
		desk := newNewsdesk()
		states := make([]string, count)
		for i := range states {
			states[i] = "live"
		}
		all := told(desk, states, "")
		// The version of this test is as long as the list.
		all.Version = "v1"
		states[count/2] = "draining"
		desk.tell("op")
		one := told(desk, states, "v1")
		one.Version = "v2"
		return proto.Size(all), proto.Size(one)
	}
	tenWhole, tenChange := size(10)
	whole, change := size(1000)
	if whole < 90*tenWhole || change > tenChange+10 {
		t.Errorf("of ten: all %d bytes, a change %d; of a thousand: all %d, a change %d, want as much as of ten", tenWhole, tenChange, whole, change)
	}
}

// TestChangesWithLosses has many ask whenever they like, and lose some answers: whoever has
// heard last knows all as it is.
func TestChangesWithLosses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desk, states := newNewsdesk(), make([]string, 6)
		known := make([]*actorpb.Instances, 3)
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) {
				states[rapid.IntRange(0, len(states)-1).Draw(t, "which")] = rapid.SampledFrom([]string{"", "live", "draining", "gone"}).Draw(t, "state")
				desk.tell("op")
			},
			"ask": func(t *rapid.T) {
				who := rapid.IntRange(0, len(known)-1).Draw(t, "who")
				answer := told(desk, states, known[who].GetVersion())
				if rapid.Bool().Draw(t, "lost") {
					return
				}
				all, ok := answer.After(known[who])
				if want := instancesIn(states); !ok || !proto.Equal(all, want) {
					t.Fatalf("knew %v, heard %v: knows %v, want %v", known[who], answer, all, want)
				}
				known[who] = all
			},
			"another replica": func(*rapid.T) { desk = newNewsdesk() },
		})
	})
}
