package simulate

import (
	"slices"
	"time"

	"weir/actors/node"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// losesLeaders reports whether leaders are lost.
func (f *File) losesLeaders() bool {
	return slices.ContainsFunc(f.Failures, func(failure *Failure) bool { return *failure.Leader })
}

// keep checkpoints the state from which the next leader continues.
func (r *run) keep() error {
	r.keptAt = r.now
	if msg := r.tree.Checkpoint(r.term, r.Kept(scheduling.DefaultTree)); msg != nil {
		return r.do(msg)
	}
	return nil
}

// fail applies a failure.
func (w *world) fail(f *Failure) error {
	if *f.Leader {
		w.tree, w.leaderless = nil, w.now+f.Gap.Duration
		return nil
	}
	return w.lose(f)
}

// succeed elects the next leader.
func (r *run) succeed() error {
	if err := r.beginTerm(); err != nil {
		return err
	}
	r.due = r.now
	r.meter.calmed(r.now)
	return r.elect()
}

// lose silences random nodes. Their jobs are gone at once; the leader learns of the loss when
// the nodes' leases expire.
func (w *world) lose(f *Failure) error {
	var alive []string
	for _, id := range w.online {
		if !w.dead[id] {
			alive = append(alive, id)
		}
	}
	w.chance.Shuffle(len(alive), func(i, j int) { alive[i], alive[j] = alive[j], alive[i] })
	lost := alive[:min(int(*f.Nodes), len(alive))]
	for _, id := range lost {
		w.dead[id] = true
	}
	timing := node.DefaultTiming()
	lease := timing.Wait(timing.Pace(len(w.online), timing.Base()))
	w.queue.add(w.now+lease, func() error { return w.silence(lost) })
	if back := f.BackAfter.Duration; back > 0 {
		w.queue.add(max(w.now+back, w.now+lease+time.Second), func() error { return w.comeback(lost) })
	}
	return nil
}

// silence handles the expired leases of lost nodes: they go offline and their jobs are aborted.
func (w *world) silence(nodes []string) error {
	w.meter.calmed(w.now)
	for _, id := range nodes {
		record := w.NodeRecord(id)
		if err := w.tree.Withdraw(id, record.GetResources().Amounts()); err != nil {
			return err
		}
		if err := w.do(&commandpb.SetNodeOffline{Term: w.term, Node: id, Incarnation: record.GetIncarnation(), Reason: "lost"}); err != nil {
			return err
		}
		w.meter.appears(w.now, resource.Amounts{}.Sub(record.GetResources().Amounts()))
		msg := &commandpb.AbortAllocations{Term: w.term, Node: id, Reason: lifecycle.AbortNodeOffline.String()}
		for _, a := range w.state.AllocationsOfNode(scheduling.NodeID(id)) {
			msg.JobIds = append(msg.JobIds, a.GetJobId())
		}
		if len(msg.JobIds) == 0 {
			continue
		}
		if err := w.do(msg); err != nil {
			return err
		}
	}
	return w.finishing()
}

// finishing advances operations that only waited for their last jobs.
func (w *world) finishing() error {
	var waiting []string
	for op := range w.state.InProgress() {
		state, err := lifecycle.ParseState(op.GetState())
		if err != nil {
			return err
		}
		if state.Finishing() {
			waiting = append(waiting, op.GetId())
		}
	}
	for _, id := range waiting {
		if err := w.advance(id); err != nil {
			return err
		}
	}
	return nil
}

// comeback registers nodes in a new incarnation.
func (w *world) comeback(nodes []string) error {
	for _, id := range nodes {
		delete(w.dead, id)
		record := w.NodeRecord(id)
		back := &statepb.Node{Id: id, Incarnation: record.GetIncarnation() + 1, Resources: record.GetResources(), Tags: record.GetTags()}
		if err := w.do(&commandpb.RegisterNode{Term: w.term, Node: back}); err != nil {
			return err
		}
		w.meter.appears(w.now, back.GetResources().Amounts())
		if err := w.tree.Offer(id, back.GetResources().Amounts()); err != nil {
			return err
		}
	}
	return nil
}
