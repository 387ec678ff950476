package storm

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/examples/clique/load"
	"weir/examples/clique/playground"
	"weir/messages/actorpb"
	"weir/messages/apipb"
)

// TestPlan: whatever the seed and however short the storm, each kind of event comes, one node
// dies, and the same seed makes the same events.
func TestPlan(t *testing.T) {
	for _, duration := range []time.Duration{0, 20 * time.Second, 10 * time.Minute} {
		for seed := range uint64(50) {
			var found [kinds]int
			again := lanes(seed, 4, duration)
			for i, l := range lanes(seed, 4, duration) {
				now := time.Duration(0)
				for count := 0; ; count++ {
					next, ok := l.next(count, now, duration)
					if same, too := again[i].next(count, now, duration); same != next || ok != too {
						t.Fatalf("seed %d makes %+v and then %+v", seed, next, same)
					}
					if !ok {
						break
					}
					if next.kind == death && now < l.deathDue {
						t.Errorf("seed %d: a node dies at %v, before %v", seed, now, l.deathDue)
					}
					if next.node < 0 || next.node >= 4 || next.pause < 0 || next.hold < 0 {
						t.Fatalf("seed %d makes %+v", seed, next)
					}
					found[next.kind]++
					now += next.pause + next.hold + time.Second
				}
				if now < duration {
					t.Errorf("seed %d: lane %d ends at %v of %v", seed, i, now, duration)
				}
			}
			if found[drain] == 0 || found[rival] == 0 || found[upgrade] == 0 || found[death] != 1 {
				t.Errorf("seed %d in %v: %v events", seed, duration, found)
			}
		}
	}
}

func TestTrace(t *testing.T) {
	run := new(scene)
	seen := []*apipb.Instance{
		{Node: "n1", State: actorpb.InstanceLive, Ready: true, Ports: []int32{1}}, {Node: "n2", State: actorpb.InstanceLive},
		{Node: "n2", State: actorpb.InstanceDraining, Reason: "preemption"}, {Node: "n3", State: actorpb.InstanceGone},
	}
	run.see(seen)
	if none(seen, "n1", load.Ready) || !none(seen, "n2", load.Ready) || none(seen, "n2", present) || !none(seen, "n3", present) || load.CountIf(seen, load.Ready) != 1 || preempted(seen[1]) || !preempted(seen[2]) {
		t.Errorf("seen wrongly: %v", seen)
	}
	run.see(seen[:1])
	moments := run.trace.Since(time.Now())
	if len(moments) != 2 || moments[0].Is != (state{1, 1}) || moments[0].At != 0 || moments[1].At < 0 || moments[1].Is != moments[0].Is {
		t.Errorf("got %+v", moments)
	}
}

// noon is when the storms below begin.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// good is a result that is as promised: of five requests that failed, two were on the dead node
// when it died, and three came to it later.
func good() *result {
	r := &result{
		spared: true, began: noon, ended: at(200), doom: doom{node: "n2", from: at(100), known: at(102), to: at(140)},
		moments: []playground.Moment[state]{{Is: state{8, 8}}, {At: 100 * time.Second, Is: state{6, 8}}, {At: 140 * time.Second, Is: state{8, 9}}},
		tally:   load.Tally{Closed: load.Count{Sent: 20_000, Answered: 19_997, Failed: 3}, Open: load.Count{Sent: 5000, Answered: 4998, Failed: 2}},
	}
	for k := range kinds {
		r.events = append(r.events, happening{event: event{kind: k}, from: 10 * time.Second, to: 20 * time.Second})
	}
	for _, began := range []int{98, 99, 100, 101, 101} {
		r.tally.Cut = append(r.tally.Cut, load.Cut{Began: at(began).Add(time.Millisecond), Ended: at(101).Add(2 * time.Millisecond), Node: "n2", What: "connection refused"})
	}
	return r
}

func TestBroken(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*result)
		want   string
	}{
		"as promised":                     {func(*result) {}, ""},
		"one was on another node":         {func(r *result) { r.tally.Cut[0].Node = "n1" }, "1 requests failed on nodes other than the one that died"},
		"one failed before it died":       {func(r *result) { r.tally.Cut[0].Ended = at(99) }, "1 requests failed"},
		"one was sent when it was back":   {func(r *result) { r.tally.Cut[4].Began, r.tally.Cut[4].Ended = at(141), at(142) }, "1 requests failed"},
		"too few":                         {func(r *result) { r.tally.Closed = load.Count{} }, "(minimum 20000)"},
		"one was never counted":           {func(r *result) { r.tally.Open.Answered-- }, "were answered and 5 failed"},
		"nobody has died":                 {func(r *result) { r.events = r.events[:death] }, "there was no event of the kind death"},
		"the lease alone told of a death": {func(r *result) { r.doom.known = at(129) }, "more than half of its lease"},
	} {
		t.Run(name, func(t *testing.T) {
			r := good()
			tc.change(r)
			faults := strings.Join(DefaultConfig().broken(r), "\n")
			if (faults == "") != (tc.want == "") || !strings.Contains(faults, tc.want) {
				t.Errorf("got %q, want %q", faults, tc.want)
			}
		})
	}
}

// job is one that ran from a second on until another; told: it was interrupted.
func job(state, node string, from, to int, told bool) *apipb.Job {
	j := &apipb.Job{State: state, Node: node, StartTime: timestamppb.New(at(from)), FinishTime: timestamppb.New(at(to))}
	if told {
		j.Interruption = new(apipb.Interruption)
	}
	return j
}

func TestWhatIsShown(t *testing.T) {
	spared, plain := good(), good()
	plain.spared = false
	plain.tally.Cut[1].Node, plain.tally.Cut[2].Node = "n1", "n1"
	if got, want := summary(spared, plain), "handed over failed 0 of 25000 requests, and 5 on the dead node; not handed over failed 2 of 25000 requests, and 3 on the dead node"; got != want {
		t.Errorf("the last line is %q, want %q", got, want)
	}
	if got := requestsTable(spared, plain); !strings.Contains(got, "│ handed over     │    25000 │    24995 │      0 │                    2 │                               3 │                2s │") {
		t.Errorf("got\n%s", got)
	}
	spared.count([]*apipb.Job{
		job("completed", "n1", 0, 50, true), job("aborted", "n1", 0, 60, true), job("aborted", "n2", 0, 120, false), job("completed", "n2", 150, 160, true),
		job("aborted", "n1", 0, 70, false), job("completed", "n1", 0, 201, true), {State: "running", Interruption: new(apipb.Interruption)},
	})
	if got := eventsTable(spared); !strings.Contains(got, "│ handed over │      1 │           1 │        1 │      1 │                   2 │               1 │    1 │           6 │") {
		t.Errorf("got\n%s", got)
	}
	outcome := plain.outcome(8)
	if len(outcome.Cut) != 2 || outcome.Cut[0].What != "connection refused" {
		t.Errorf("failed %+v", outcome.Cut)
	}
	var svg bytes.Buffer
	if err := spared.outcome(8).Chart.SVG(&svg); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"handed over: 0 of 25000 requests failed, and 5 on the dead node", "a node is drained", "an agent is upgraded", "a node is dead", "requests fail"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
}

// TestSpecs: without what spares the service it has neither readiness nor successors.
func TestSpecs(t *testing.T) {
	c := DefaultConfig()
	c.Self = "clique"
	s := &stage{Config: c, Stage: &playground.Stage{Places: 16, CPU: 1}}
	task := func(spared bool) map[string]any {
		return s.serviceSpec(spared)["tasks"].(map[string]any)["serve"].(map[string]any)
	}
	if with := task(true); with["readiness"] == nil || with["max_surge"] != 1 || with["min_available"] != 3 || with["spread"] != true {
		t.Errorf("a service that is spared is %v", with)
	}
	if without := task(false); without["readiness"] != nil || without["max_surge"] != 0 || without["min_available"] != nil || without["spread"] != false {
		t.Errorf("one that is not is %v", without)
	}
	if same, other := s.rivalSpec(true), s.rivalSpec(false); same["pool"] != pool || same["weight"] != rivalWeight || other["pool"] != others || other["weight"] != nil {
		t.Errorf("rivals are %v and %v", same, other)
	}
}

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"default":                  {func(*Config) {}, ""},
		"no program":               {func(c *Config) { c.Weir = "" }, "is missing"},
		"too few nodes":            {func(c *Config) { c.Agents = 3 }, "must be at least 4"},
		"a negative time":          {func(c *Config) { c.Dead = -1 }, "must not be negative"},
		"a timeout that cuts":      {func(c *Config) { c.Timeout = 18 * time.Second }, "half of the timeout 18s must be more than"},
		"a load that sends nought": {func(c *Config) { c.Load.Workers, c.Load.Rate = 0, 0 }, "something must be sent"},
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			c.Weir, c.Self, c.Out = "weir", "clique", new(bytes.Buffer)
			tc.change(&c)
			err := c.Validate()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
