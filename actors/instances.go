package actors

import (
	"context"
	"sync"
	"time"

	"weir/actors/operation"
	"weir/actors/signal"
	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

const (
	// instancesTogether is how long changes of an operation's instances gather before
	// those who wait for them are told.
	instancesTogether = 5 * time.Millisecond
	// instancesKept is how long what was told of an operation is remembered after the
	// last one has asked: who asks again meanwhile is told what has changed.
	instancesKept = 30 * time.Second
	// maxInstancesKept is how many states of an operation's instances are remembered.
	maxInstancesKept = 8
)

// newsdesk wakes those who wait for news of the jobs of one operation.
type newsdesk struct {
	mu      sync.Mutex
	waiting map[string]*awaited
}

// awaited is an operation of which somebody waits for news; changed is closed when
// there are some.
type awaited struct {
	desk    *newsdesk
	readers int
	// end forgets it, when nobody reads.
	end     *time.Timer
	changed chan struct{}
	// seen is what was found since the last news, for all who ask; nil: nobody has asked.
	seen *actorpb.Instances

	// finding is held by who finds it.
	finding sync.Mutex
	// past is what was found of late, the latest at the end. They share what is the same.
	past []*actorpb.Instances
}

func newNewsdesk() *newsdesk { return &newsdesk{waiting: map[string]*awaited{}} }

// follow begins to wait for an operation, until leave.
func (n *newsdesk) follow(operation string) (of *awaited, leave func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	of = n.waiting[operation]
	if of == nil {
		of = &awaited{desk: n, changed: make(chan struct{})}
		n.waiting[operation] = of
	}
	of.readers++
	if of.end != nil {
		of.end.Stop()
	}
	return of, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if of.readers--; of.readers == 0 {
			of.end = time.AfterFunc(instancesKept, func() { n.forget(operation, of) })
		}
	}
}

// forget drops an operation, unless somebody reads again.
func (n *newsdesk) forget(operation string, of *awaited) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if of.readers == 0 && n.waiting[operation] == of {
		delete(n.waiting, operation)
	}
}

// look returns what find finds, which is shared with all who look before the next
// news, and what is closed with them.
func (of *awaited) look(find func() *actorpb.Instances) (seen *actorpb.Instances, changed <-chan struct{}) {
	of.finding.Lock()
	defer of.finding.Unlock()
	of.desk.mu.Lock()
	seen, changed = of.seen, of.changed
	of.desk.mu.Unlock()
	if seen != nil {
		return seen, changed
	}
	seen = of.keep(find())
	of.desk.mu.Lock()
	defer of.desk.mu.Unlock()
	if of.changed == changed {
		of.seen = seen
	}
	return seen, changed
}

// keep remembers what was found, and returns it: what has not changed is as it was before.
// finding is held.
func (of *awaited) keep(found *actorpb.Instances) *actorpb.Instances {
	if n := len(of.past); n > 0 {
		last := of.past[n-1]
		if last.GetVersion() == found.GetVersion() {
			return last
		}
		put, gone := actorpb.InstanceChanges.Between(last.GetInstances(), found.GetInstances())
		found.Instances = actorpb.InstanceChanges.Apply(last.GetInstances(), put, gone)
		of.past = of.past[max(0, n+1-maxInstancesKept):]
	}
	of.past = append(of.past, found)
	return found
}

// had returns what was found with a version; nil: it was not found, or is forgotten.
func (of *awaited) had(version string) *actorpb.Instances {
	of.finding.Lock()
	defer of.finding.Unlock()
	for _, past := range of.past {
		if past.GetVersion() == version {
			return past
		}
	}
	return nil
}

// stir tells of news. The desk's mu is held.
func (of *awaited) stir() {
	close(of.changed)
	of.changed, of.seen = make(chan struct{}), nil
}

// tell wakes those who wait for an operation.
func (n *newsdesk) tell(operation string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if of := n.waiting[operation]; of != nil {
		of.stir()
	}
}

// tellAll wakes all who wait.
func (n *newsdesk) tellAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, of := range n.waiting {
		of.stir()
	}
}

// take tells the news of a committed event.
func (n *newsdesk) take(event state.Event) {
	switch e := event.(type) {
	case state.AllocationsStarted:
		for _, a := range e.Allocations {
			n.tell(a.GetOperationId())
		}
	case state.StopsOrdered:
		n.tell(string(e.Operation))
	case state.AllocationsEnded:
		n.tell(string(e.Operation))
	case state.OperationChanged:
		n.tell(string(e.ID))
	case state.OperationArchived:
		n.tell(string(e.ID))
	}
}

// goneOf returns the signals of jobs that were told to go and have ended. Who watches
// instances sees that they have gone, also when they went so soon that nobody had time to
// say that they would.
func goneOf(e state.AllocationsEnded) (gone []*actorpb.InterruptionSignal) {
	for _, ended := range e.Ended {
		a, order := ended.Allocation, ended.Finished.GetStop()
		if order == nil {
			continue
		}
		gone = append(gone, &actorpb.InterruptionSignal{
			OperationId: string(e.Operation), JobId: a.GetJobId(), Node: a.GetNode(), Reason: order.Why(), Time: ended.Finished.GetFinishTime(),
			Task: a.GetTask(), Cookie: a.GetCookie(), Ports: a.GetPorts(), StartTime: a.GetStartTime(), Gone: true,
		})
	}
	return gone
}

// Instances returns the instances of an operation, as they are seen here: once they
// differ from those of a version that was returned before, or as they are when ctx is
// done. It asks nobody. What it returns is shared, and not to be changed.
func (r *Replica) Instances(ctx context.Context, operation, version string) *actorpb.Instances {
	return r.news.await(ctx, operation, version, false, func() *actorpb.Instances { return r.instancesOf(operation) })
}

// InstanceChanges returns what Instances does, as changes since version where it is known
// here still what that was.
func (r *Replica) InstanceChanges(ctx context.Context, operation, version string) *actorpb.Instances {
	return r.news.await(ctx, operation, version, true, func() *actorpb.Instances { return r.instancesOf(operation) })
}

// await returns what find finds, once that has another version, or when ctx is done; with
// changes what of it has changed since.
func (n *newsdesk) await(ctx context.Context, operation, version string, changes bool, find func() *actorpb.Instances) *actorpb.Instances {
	of, leave := n.follow(operation)
	defer leave()
	for {
		now, changed := of.look(find)
		if now.GetVersion() != version || now.GetOver() || ctx.Err() != nil {
			if changes {
				return now.ChangedSince(of.had(version))
			}
			return now
		}
		select {
		case <-ctx.Done():
			continue
		case <-changed:
		}
		select {
		case <-ctx.Done():
		case <-time.After(instancesTogether):
		}
	}
}

func (r *Replica) instancesOf(operation string) *actorpb.Instances {
	id := scheduling.OperationID(operation)
	// What was heard is read first: a job that ends meanwhile has gone in either.
	hosts := map[string]string{}
	known := signal.Known{
		Operation: operation, Over: true, Heard: r.signals.OfOperation(operation), Words: r.words.Of(operation), Unheard: r.nodes.Unheard,
		HostOf: func(node string) string { return hosts[node] },
	}
	r.store.View(func(s *state.State) {
		host := func(node string) {
			record, _ := s.Node(scheduling.NodeID(node))
			hosts[node] = record.GetHost()
		}
		for _, h := range known.Heard {
			host(h.GetNode())
		}
		op, ok := s.Operation(id)
		if !ok {
			return
		}
		now, err := lifecycle.ParseState(op.GetState())
		known.Over = err != nil || now.Terminal()
		probed := op.GetSpec().Probed()
		for _, a := range s.AllocationsOfOperation(id) {
			host(a.GetNode())
			// Records of allocations are replaced, not changed.
			known.Placed = append(known.Placed, signal.Placed{Allocation: a, Stop: op.StopOrderFor(a), Readiness: probed[a.GetTask()]})
		}
	})
	return known.Instances()
}

// heldBack returns the jobs of an operation when some have an order to leave that is held; nil:
// none has.
func (r *Replica) heldBack(id string) (instances []operation.Instance) {
	waits := false
	r.store.View(func(s *state.State) {
		for _, a := range s.AllocationsOfOperation(scheduling.OperationID(id)) {
			i := operation.Instance{Job: a.GetJobId(), Task: a.GetTask(), Cookie: a.GetCookie(), Replaced: a.GetReplaced()}
			switch until := a.GetStop().GetHeldUntil(); {
			case until != nil:
				i.Held, waits = until.AsTime(), true
				i.Drained = a.GetStop().GetInterruption() == statepb.InterruptedByDrain
			default:
				i.Told = a.GetStop() != nil
			}
			instances = append(instances, i)
		}
	})
	if !waits {
		return nil
	}
	ready := map[string]bool{}
	for _, in := range r.instancesOf(id).GetInstances() {
		ready[in.GetJobId()] = in.GetReady()
	}
	for i := range instances {
		instances[i].Ready = ready[instances[i].Job]
	}
	return instances
}
