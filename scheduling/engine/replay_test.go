package engine_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/resource"
)

// event is one of a recorded stream, as the log and the heartbeats of nodes bring them. It
// returns what the engine makes of it.
type event func(e *engine.Engine) []byte

// stream is what was recorded: what an engine is told of before it begins, part by part,
// in any order within a part, and what happens then.
type stream struct {
	parts  [3][]event
	events []event
}

func (s *stream) play(t *testing.T, chance *rand.Rand) string {
	e := newEngine(t)
	var out strings.Builder
	for _, part := range s.parts {
		order := chance.Perm(len(part))
		for _, i := range order {
			part[i](e)
		}
	}
	for _, event := range s.events {
		out.Write(event(e))
		out.WriteByte('\n')
	}
	return out.String()
}

// TestReplay plays a recorded stream of events to two engines, which make the same plans,
// byte by byte, though one was told in another order of nodes, operations and allocations,
// and so has filled its maps in another order.
func TestReplay(t *testing.T) {
	s := record(t)
	first := s.play(t, rand.New(rand.NewPCG(1, 1)))
	for seed := range uint64(3) {
		second := s.play(t, rand.New(rand.NewPCG(2, seed)))
		if first == second {
			continue
		}
		a, b := strings.Split(first, "\n"), strings.Split(second, "\n")
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				t.Fatalf("event %d of %d gives\n%s\nand\n%s", i, len(a), a[i], b[i])
			}
		}
	}
	for _, want := range []string{`"Starts":[{"Ticket"`, `"Kind":1`, `"Kind":2`, `"Kind":3`} {
		if !strings.Contains(first, want) {
			t.Errorf("no plan has %s", want)
		}
	}
}

// record plays a cluster by chance and keeps what it was told.
func record(t *testing.T) *stream {
	s, chance := &stream{}, rand.New(rand.NewPCG(5, 8))
	d := newDrive(t, nil, nil)
	tree := func(e *engine.Engine) {
		w := &world{Engine: e, t: t, now: begin}
		w.tree(options{
			"fair_share_starvation_timeout": "3s", "preemptive_scheduling_backoff": "2s", "enable_aggressive_starvation": true,
			"fair_share_aggressive_starvation_timeout": "8s", "allocation_graceful_preemption_timeout": "5s",
		}, map[scheduling.PoolName]pool{"a": {}, "b": {options: options{"weight": 2.0}}, "c": {options: options{"mode": "fifo"}}, "d": {parent: "a"}})
	}
	tree(d.Engine)
	tell := func(part int, of func(e *engine.Engine) error) {
		must(t, of(d.Engine))
		s.parts[part] = append(s.parts[part], func(e *engine.Engine) []byte { must(t, of(e)); return nil })
	}
	s.parts[0] = append(s.parts[0], func(e *engine.Engine) []byte { tree(e); return nil })
	var nodes []scheduling.NodeID
	for i := range 12 {
		id, limits := scheduling.NodeID(fmt.Sprint("n", i)), resource.Amounts{UserSlots: 20, CPU: resource.Hundredths(100 * (4 + chance.IntN(8))), Memory: int64(20 + chance.IntN(60))}
		nodes = append(nodes, id)
		tell(1, func(e *engine.Engine) error { return e.SetNode(id, limits, true) })
	}
	for i := range 9 {
		id, in, mode := scheduling.OperationID(fmt.Sprint("o", i)), scheduling.PoolName("abcd"[i%4:i%4+1]), options{}
		if i == 0 {
			mode = graceful
		}
		op := d.record(id, in, mode)
		op.Started = begin.Add(time.Duration(i) * time.Second)
		d.needs[id] = resource.Amounts{UserSlots: 1, CPU: resource.Hundredths(100 * (1 + chance.IntN(4))), Memory: int64(chance.IntN(12))}
		tell(1, func(e *engine.Engine) error { return e.AddOperation(op) })
	}
	for i := range 40 {
		id := scheduling.OperationID(fmt.Sprint("o", i%3))
		a := engine.Allocation{Job: scheduling.JobID(fmt.Sprint("found-", i)), Operation: id, Task: "t", Node: nodes[i%len(nodes)], Resources: d.needs[id], Started: begin}
		if chance.IntN(2) == 0 {
			a.Started = begin.Add(time.Duration(-i) * time.Second)
		}
		d.running[a.Job] = a
		tell(2, func(e *engine.Engine) error { return e.AddAllocation(a) })
	}
	for i := range 9 {
		id := scheduling.OperationID(fmt.Sprint("o", i))
		d.pending[id] = int64(chance.IntN(40))
		n, needs := d.pending[id], d.needs[id]
		tell(2, func(e *engine.Engine) error { return e.SetDemand(id, "t", 0, n, needs) })
	}
	s.live(t, d, nodes, chance)
	return s
}

// live records a minute in which jobs start, are preempted, and end.
func (s *stream) live(t *testing.T, d *drive, nodes []scheduling.NodeID, chance *rand.Rand) {
	tell := func(of func(e *engine.Engine) error) {
		must(t, of(d.Engine))
		s.events = append(s.events, func(e *engine.Engine) []byte { must(t, of(e)); return nil })
	}
	end := func(job scheduling.JobID) {
		a := d.running[job]
		delete(d.running, job)
		d.pending[a.Operation]++
		n, needs := d.pending[a.Operation], d.needs[a.Operation]
		tell(func(e *engine.Engine) error { return e.RemoveAllocation(job) })
		tell(func(e *engine.Engine) error { return e.SetDemand(a.Operation, "t", 0, n, needs) })
	}
	var going []scheduling.JobID
	for second := range 60 {
		now := begin.Add(time.Duration(second) * time.Second)
		tell(func(e *engine.Engine) error { _, err := e.Tick(now); return err })
		var plan engine.Plan
		look := func(e *engine.Engine) []byte {
			plan = e.Heartbeat(now, nodes)
			text, err := json.Marshal(plan)
			must(t, err)
			return text
		}
		look(d.Engine)
		s.events = append(s.events, look)
		for _, start := range plan.Starts {
			d.jobs++
			job := scheduling.JobID(fmt.Sprint("j", d.jobs))
			d.pending[start.Operation]--
			d.running[job] = engine.Allocation{Job: job, Operation: start.Operation}
			tell(func(e *engine.Engine) error { return e.Commit(start.Ticket, job, now) })
		}
		for _, p := range plan.Preempts {
			if chance.IntN(5) == 0 {
				tell(func(e *engine.Engine) error { e.Stay(p.Job); return nil })
				continue
			}
			going = append(going, p.Job)
			tell(func(e *engine.Engine) error {
				return e.Leave(p.Job, engine.LeaveOrder{Ordered: now, Deadline: now.Add(p.Timeout), Kind: p.Kind, For: p.For})
			})
		}
		for len(going) > 0 && chance.IntN(3) > 0 {
			end(going[0])
			going = going[1:]
		}
	}
}
