package actors

import (
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/cluster"
	"weir/cluster/clock"
	"weir/scheduling"
)

func TestLiveness(t *testing.T) {
	view := func(states map[string]string) *cluster.View {
		v := &cluster.View{}
		for _, id := range []string{"r1", "r2", "r3"} {
			state, known := states[id]
			if known {
				v.Replicas = append(v.Replicas, cluster.Replica{ID: scheduling.ReplicaID(id), Live: state != "dead", Ready: state == "ready"})
			}
		}
		return v
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	l := newLiveness("r1", func(string) bool { return true })
	steps := []struct {
		story       string
		at          time.Duration
		states      map[string]string
		wantChanged bool
		wantGone    map[string]time.Duration
	}{
		{"nobody is ready at first", 0, map[string]string{"r1": "live", "r2": "live", "r3": "live"}, true, map[string]time.Duration{"r1": 0, "r2": 0, "r3": 0}},
		{"all are ready", time.Second, map[string]string{"r1": "ready", "r2": "ready", "r3": "ready"}, true, nil},
		{"nothing changes", 2 * time.Second, map[string]string{"r1": "ready", "r2": "ready", "r3": "ready"}, false, nil},
		{"one dies", 3 * time.Second, map[string]string{"r1": "ready", "r2": "dead", "r3": "ready"}, true, map[string]time.Duration{"r2": 3 * time.Second}},
		{"it is back and catches up", 4 * time.Second, map[string]string{"r1": "ready", "r2": "live", "r3": "ready"}, false, map[string]time.Duration{"r2": 3 * time.Second}},
		{"it is ready again", 5 * time.Second, map[string]string{"r1": "ready", "r2": "ready", "r3": "ready"}, true, nil},
		{"it is removed, and nobody saw it die", 6 * time.Second, map[string]string{"r1": "ready", "r3": "ready"}, true, map[string]time.Duration{"r2": 6 * time.Second}},
		{"nothing changes again", 7 * time.Second, map[string]string{"r1": "ready", "r3": "ready"}, false, map[string]time.Duration{"r2": 6 * time.Second}},
		{"it joins again", 8 * time.Second, map[string]string{"r1": "ready", "r2": "ready", "r3": "ready"}, true, nil},
	}
	for _, step := range steps {
		if got := l.observe(noon.Add(step.at), view(step.states)); got != step.wantChanged {
			t.Errorf("%s: changed %t, want %t", step.story, got, step.wantChanged)
		}
		ready := 0
		for _, id := range []string{"r1", "r2", "r3"} {
			want := time.Time{}
			if since, gone := step.wantGone[id]; gone {
				want = noon.Add(since)
			}
			if got := l.GoneSince(id); !got.Equal(want) {
				t.Errorf("%s: %s gone since %v, want %v", step.story, id, got, want)
			}
			if step.states[id] == "ready" {
				ready++
			}
		}
		chosen, ok := l.Choose("some operation")
		if ok != (ready > 0) || ok && step.states[chosen] != "ready" {
			t.Errorf("%s: chose %q, %t", step.story, chosen, ok)
		}
	}
	if got := l.GoneSince("r9"); !got.Equal(noon) {
		t.Errorf("one of which nobody has heard is gone since %v, want since the first view", got)
	}
	if got := newLiveness("r1", nil).GoneSince("r1"); !got.IsZero() {
		t.Errorf("before the first view r1 is gone since %v", got)
	}
}

// TestChooseWhoCanBeReached shows that a replica without a stream gets no operation,
// while there is another.
func TestChooseWhoCanBeReached(t *testing.T) {
	ready := []scheduling.ReplicaID{"r1", "r2", "r3"}
	for name, test := range map[string]struct {
		reached []scheduling.ReplicaID
		want    []scheduling.ReplicaID
	}{
		"all can be reached":    {ready, ready},
		"one was just killed":   {[]scheduling.ReplicaID{"r1", "r3"}, []scheduling.ReplicaID{"r1", "r3"}},
		"nobody can be for now": {nil, ready},
		"one other can be":      {[]scheduling.ReplicaID{"r2"}, []scheduling.ReplicaID{"r1", "r2"}},
		"self alone, at first":  {[]scheduling.ReplicaID{"r1"}, ready},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLiveness("r1", func(id string) bool { return slices.Contains(test.reached, scheduling.ReplicaID(id)) })
			view := &cluster.View{}
			for _, id := range ready {
				view.Replicas = append(view.Replicas, cluster.Replica{ID: id, Live: true, Ready: true})
			}
			l.observe(time.Now(), view)
			chosen := map[scheduling.ReplicaID]bool{}
			for i := range 100 {
				replica, ok := l.Choose(fmt.Sprint("operation ", i))
				if !ok {
					t.Fatal("nobody was chosen")
				}
				chosen[scheduling.ReplicaID(replica)] = true
			}
			if got := slices.Sorted(maps.Keys(chosen)); !slices.Equal(got, test.want) {
				t.Errorf("chose %v, want %v", got, test.want)
			}
		})
	}
}

// TestWhoBeginsToLeadHearsOfReplicas that come or go just then.
func TestWhoBeginsToLeadHearsOfReplicas(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
	told := make(chan any, 1)
	pid := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if m, ok := ctx.Message().(replicasChanged); ok {
			told <- m
		}
	}))
	defer system.Root.Poison(pid)
	r := &Replica{cfg: Config{Clock: clock.Alone()}, system: system, liveness: newLiveness("r1", func(string) bool { return true })}
	// The view is taken in when there is a leader already.
	r.liveness.mu.Lock()
	begun := make(chan struct{})
	go func() {
		close(begun)
		r.observe(&cluster.View{Replicas: []cluster.Replica{{ID: "r1", Live: true, Ready: true}}})
	}()
	<-begun
	for range 1000 {
		runtime.Gosched()
	}
	r.leader.Store(pid)
	r.liveness.mu.Unlock()
	next(t, told)
}
