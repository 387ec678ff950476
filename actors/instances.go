package actors

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/operation"
	"weir/actors/signal"
	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

const (
	// instancesTogether is how long changes of an operation's instances are batched before waiting
	// readers are woken.
	instancesTogether = 5 * time.Millisecond
	// instancesKept is how long the last answers for an operation are remembered without readers:
	// a reader that returns within that time gets only the changes.
	instancesKept = 30 * time.Second
	// maxInstancesKept is how many past answers of an operation are remembered, and maxPartsKept how
	// many parts of answers.
	maxInstancesKept = 8
	maxPartsKept     = 64
	// instancesBytes bounds the instances in one answer to an agent: below what a message may have
	// (remote.Limits.MaxMessageBytes). So many are 10,000 or more.
	instancesBytes = 2 << 20
)

// newsdesk wakes readers that wait for changes of the jobs of an operation.
type newsdesk struct {
	mu      sync.Mutex
	waiting map[string]*awaited
}

// awaited is an operation that readers wait for. changed is closed when the operation changes.
type awaited struct {
	desk    *newsdesk
	readers int
	// end removes the operation some time after the last reader has left.
	end     *time.Timer
	changed chan struct{}
	// seen is the answer since the last change, shared by all readers; nil if none has been
	// computed.
	seen *actorpb.Instances

	// finding is locked while an answer is computed.
	finding sync.Mutex
	// past holds recent answers, the latest last. They share unchanged instances.
	past []*actorpb.Instances
	// parts are recent parts of answers that were too large, the latest last.
	parts []instancesPart
}

// instancesPart is a part of the way from one version to another.
type instancesPart struct {
	from, to string
	// told is the answer, and known what a reader has that had the version `from`.
	told, known *actorpb.Instances
}

func newNewsdesk() *newsdesk { return &newsdesk{waiting: map[string]*awaited{}} }

// follow registers a reader of an operation; leave unregisters it.
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

// forget removes an operation, unless it has readers again.
func (n *newsdesk) forget(operation string, of *awaited) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if of.readers == 0 && n.waiting[operation] == of {
		delete(n.waiting, operation)
	}
}

// look returns an answer, and the channel that is closed at the next change. Until that change, all
// calls share one result of `find`.
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

// keep remembers an answer and returns it, sharing the unchanged instances of the one before. The
// caller holds the lock `finding`.
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

// had returns the remembered answer with a version, or nil if there is none.
func (of *awaited) had(version string) *actorpb.Instances {
	of.finding.Lock()
	defer of.finding.Unlock()
	for _, past := range of.past {
		if past.GetVersion() == version {
			return past
		}
	}
	for _, part := range of.parts {
		if part.known.GetVersion() == version {
			return part.known
		}
	}
	return nil
}

// changes returns what has changed since an earlier version, of which nothing need be known. If that
// has more than limit bytes it is the first part, which leads to a version of its own; a reader that
// asks for what has changed since gets the next part at once.
func (of *awaited) changes(now, before *actorpb.Instances, limit int) *actorpb.Instances {
	all := now.ChangedSince(before)
	if proto.Size(all) <= limit || len(all.GetInstances())+len(all.GetForgotten()) == 0 {
		return all
	}
	of.finding.Lock()
	defer of.finding.Unlock()
	from, to := all.GetSince(), now.GetVersion()
	for _, part := range of.parts {
		if part.from == from && part.to == to {
			return part.told
		}
	}
	var had []*actorpb.Instance
	if from != "" {
		had = before.GetInstances()
	}
	told := &actorpb.Instances{OperationId: now.GetOperationId(), Since: from}
	for _, in := range all.GetInstances() {
		if limit -= proto.Size(in); limit < 0 && len(told.GetInstances()) > 0 {
			break
		}
		told.Instances = append(told.Instances, in)
	}
	for _, job := range all.GetForgotten() {
		if limit -= len(job); limit < 0 && len(told.GetInstances())+len(told.GetForgotten()) > 0 {
			break
		}
		told.Forgotten = append(told.Forgotten, job)
	}
	known := &actorpb.Instances{OperationId: now.GetOperationId(), Instances: actorpb.InstanceChanges.Apply(had, told.GetInstances(), told.GetForgotten())}
	known.Version = signal.Version(known)
	told.Version = known.GetVersion()
	of.parts = append(of.parts[max(0, len(of.parts)+1-maxPartsKept):], instancesPart{from, to, told, known})
	return told
}

// stir signals a change. The caller holds the desk's mu.
func (of *awaited) stir() {
	close(of.changed)
	of.changed, of.seen = make(chan struct{}), nil
}

// tell wakes the readers of an operation.
func (n *newsdesk) tell(operation string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if of := n.waiting[operation]; of != nil {
		of.stir()
	}
}

// tellAll wakes all readers.
func (n *newsdesk) tellAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, of := range n.waiting {
		of.stir()
	}
}

// take wakes the readers of the operations that a committed event changes.
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

// goneOf returns signals for jobs that were ordered to leave and have ended. They tell a watcher of
// instances that a job is gone even if the job ended before its leaving was announced.
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

// MayFollow implements gateway.Replica.
func (r *Replica) MayFollow(node, operation string) (may bool) {
	r.store.View(func(s *state.State) {
		op, ok := s.Operation(scheduling.OperationID(operation))
		now, err := lifecycle.ParseState(op.GetState())
		may = !ok || err != nil || now.Terminal() || slices.ContainsFunc(s.AllocationsOfNode(scheduling.NodeID(node)), func(a *statepb.Allocation) bool {
			return a.GetOperationId() == operation
		})
	})
	return may
}

// Instances returns the instances of an operation, as this replica sees them: once they differ
// from those of the given version, or as they are when ctx is done. It sends no requests. The
// result is shared and must not be changed.
func (r *Replica) Instances(ctx context.Context, operation, version string) *actorpb.Instances {
	return r.news.await(ctx, operation, version, false, func() *actorpb.Instances { return r.instancesOf(operation) })
}

// InstanceChanges is like Instances, but returns only the changes since the given version, if this
// replica still remembers that version, and only a part of what is too large for a message.
func (r *Replica) InstanceChanges(ctx context.Context, operation, version string) *actorpb.Instances {
	return r.news.await(ctx, operation, version, true, func() *actorpb.Instances { return r.instancesOf(operation) })
}

// await returns the result of `find` once its version differs from the given one, or when ctx is
// done. If `changes` is set, await returns only the changes since the given version.
func (n *newsdesk) await(ctx context.Context, operation, version string, changes bool, find func() *actorpb.Instances) *actorpb.Instances {
	of, leave := n.follow(operation)
	defer leave()
	for {
		now, changed := of.look(find)
		if now.GetVersion() != version || now.GetOver() || ctx.Err() != nil {
			if changes {
				return of.changes(now, of.had(version), instancesBytes)
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
	// Read the signals before the state: a job with a signal that ends between the two reads is
	// missing from the state, and so counts as gone.
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
			// Records of allocations are replaced, never changed.
			known.Placed = append(known.Placed, signal.Placed{Allocation: a, Stop: op.StopOrderFor(a), Readiness: probed[a.GetTask()]})
		}
	})
	return known.Instances()
}

// heldBack returns the jobs of an operation if some have an order to leave that is held back;
// otherwise nil.
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
