package actors

import (
	"sync/atomic"
	"time"

	"weir/actors/node"
	"weir/actors/reconcile"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/messages/versions"
	"weir/raftstore/state"
)

// pacer decides the pace of agents in a term. The leader's actor calls next and settled; any
// goroutine may call the methods of node.Pacer.
//
// A leader waits for a silent node for the lease of the committed pace, and so does its successor.
// So a longer lease is committed before an agent is told it, and a shorter one is told to agents
// first, and committed when the last lease that is longer has ended.
type pacer struct {
	timing node.Timing
	now    atomic.Pointer[paces]
	// since is from when on no agent has been told a longer lease than Tell.
	since time.Time
	// recorded: the state has a pace.
	recorded bool
	// proposed has no outcome yet. It is repeated until it has one, because it may still be committed.
	proposed *node.Pace
}

// paces are what a pacer tells, and the committed pace, or that of this replica if none is committed.
type paces struct{ tell, bound node.Pace }

// begin begins with the committed pace, or with that of this replica if none is committed. It does
// nothing if the pacer has begun before.
func (p *pacer) begin(now time.Time, timing node.Timing, committed *statepb.Pace) {
	if p.now.Load() != nil {
		return
	}
	bound := timing.Base()
	if committed != nil {
		bound = node.PaceOf(committed)
	}
	p.timing, p.since, p.recorded = timing, now, committed != nil
	p.now.Store(&paces{bound, bound})
}

// Tell implements node.Pacer.
func (p *pacer) Tell() node.Pace { return p.now.Load().tell }

// Bound implements node.Pacer.
func (p *pacer) Bound() node.Pace { return p.now.Load().bound }

// next decides what agents are told from now on, in a cluster with so many nodes online. It returns
// the pace to propose, or nil. clock is read after agents are no longer told what they were.
func (p *pacer) next(clock func() time.Time, nodes int) *node.Pace {
	if p.proposed != nil {
		return p.proposed
	}
	now := p.now.Load()
	want := p.timing.Pace(nodes, now.tell)
	if want.Lease > now.bound.Lease || !p.recorded {
		p.proposed = &want
		return p.proposed
	}
	if want != now.tell {
		p.now.Store(&paces{want, now.bound})
		p.since = clock()
	}
	ended := want.Lease == now.bound.Lease || !clock().Before(p.since.Add(p.timing.Wait(now.bound)))
	if want != now.bound && ended {
		p.proposed = &want
	}
	return p.proposed
}

// settled says that the proposed pace is committed.
func (p *pacer) settled(clock func() time.Time) {
	pace := *p.proposed
	p.now.Store(&paces{pace, pace})
	p.proposed, p.recorded, p.since = nil, true, clock()
}

// refused says that the proposed pace was refused, and so will not be committed.
func (p *pacer) refused() { p.proposed = nil }

// paceEvery is how often a leader looks at how many nodes there are.
const paceEvery = time.Second

// pace has the pace of agents follow the size of the cluster.
func (a *leaderActor) pace() {
	nodes, knows := 0, false
	a.replica.store.View(func(s *state.State) {
		knows = versions.Newer(&commandpb.SetPace{}, s.Version()) == ""
		nodes = s.Counts().NodesOnline
	})
	var propose *node.Pace
	if knows {
		propose = a.pacer.next(time.Now, nodes)
	}
	if propose == nil {
		a.life.After(&a.pacing, paceEvery, a.pace)
		return
	}
	a.life.Propose(a.terms, func(results []*commandpb.Result, err error) {
		switch refusal := reconcile.Refusal(results); {
		case err != nil:
			a.log.Debug("proposal not committed", "error", err)
		case refusal != nil:
			a.log.Warn("proposal rejected; retrying", "code", refusal.GetCode(), "reason", refusal.GetMessage())
			a.pacer.refused()
		default:
			a.log.Info("heartbeat period set", "period", propose.Heartbeat, "lease", propose.Lease, "nodes", nodes)
			a.pacer.settled(time.Now)
		}
		a.life.After(&a.pacing, paceEvery, a.pace)
	}, &commandpb.SetPace{Term: a.term, Pace: propose.Record()})
}
