package fleet

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/agent"
	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/messages/versions"
)

const (
	// patience bounds a node's first connection: it may have to wait for those of all other nodes. Later it waits no longer
	// than agents do: where it asks may be dead.
	patience, patienceLater = 30 * time.Second, 500 * time.Millisecond
	// pause is the pause before a retry.
	pause = 50 * time.Millisecond
)

// node is a node of a fleet.
type node struct {
	fleet *Fleet
	name  string
	life  uint64
	peers agent.Replicas
	// hurry has questions wait for patienceLater, instead of patience, for a connection.
	hurry, stop func()
	// urgent makes the next heartbeat early, because jobs have begun or ended.
	urgent chan struct{}
	// known is what the leader knows of the jobs.
	known agent.Known

	mu   sync.Mutex
	term uint64
	jobs map[string]*job
	// ended are the jobs that have ended lately; they do not run again.
	ended ended
	// queue are the jobs with a question for their controllers, oldest first, and asking is how many of them wait for an
	// answer.
	queue  []*job
	asking int
}

// session registers the node and sends heartbeats, and starts over when they fail.
func (n *node) session() {
	// The first one leads, as far as is known.
	if !n.join(n.fleet.cfg.Replicas[:1]) {
		return
	}
	within, replicas := patience, slices.Clone(n.fleet.cfg.Replicas)
	for session := uint64(1); n.wait(nil, 0); {
		for i, replica := range replicas {
			jobs := n.held()
			n.known.Register(jobs)
			answer, _ := n.ask(replica, &actorpb.RegisterAgent{
				Node: n.name, Incarnation: n.life, Session: session, Version: n.fleet.cfg.Version, Can: versions.Current, Resources: statepb.NewResources(n.fleet.cfg.Resources),
				Tags: n.fleet.cfg.Tags, Jobs: jobs,
			}, within)
			if registered, ok := answer.(*actorpb.AgentRegistered); ok {
				if session == 1 {
					n.fleet.registered.add()
					n.fleet.sessions.Go(n.joinAll)
				}
				within = max(agent.DefaultTiming().RegisterTimeout, n.beat(replica, session, registered))
				session++
				// It may be dead.
				replicas = append(slices.Delete(replicas, i, i+1), replica)
				break
			}
		}
		if !n.wait(nil, pause) {
			return
		}
	}
}

// joinAll connects the node to all replicas, once all nodes are registered. Each of them may become the controller of a
// job.
func (n *node) joinAll() {
	if n.fleet.registered.await(n.fleet.ctx, len(n.fleet.cfg.Names)) == nil && n.join(n.fleet.cfg.Replicas) {
		n.hurry()
		n.fleet.joined.add()
	}
}

// join connects the node to replicas, when it is its turn: if all nodes went there together, their handshakes would
// take longer than their leases.
func (n *node) join(replicas []agent.Replica) bool {
	select {
	case n.fleet.joining <- struct{}{}:
		defer func() { <-n.fleet.joining }()
	case <-n.fleet.ctx.Done():
		return false
	}
	for _, replica := range replicas {
		// Any question will do.
		_, _ = n.ask(replica, &actorpb.FindController{}, patience)
	}
	return n.fleet.ctx.Err() == nil
}

// beat sends heartbeats until one is not acknowledged: in each period, and earlier when jobs have
// begun or ended, as agents do. It returns the last period.
func (n *node) beat(replica agent.Replica, session uint64, registered *actorpb.AgentRegistered) (period time.Duration) {
	timing := agent.DefaultTiming()
	period = time.Duration(registered.GetHeartbeatMillis()) * time.Millisecond
	n.known.Heard(registered)
	for sequence := uint64(1); n.wait(nil, timing.Gap(period)) && n.wait(n.urgent, period-timing.Gap(period)); sequence++ {
		beat := &actorpb.Heartbeat{Node: n.name, Incarnation: n.life, Session: session, Term: registered.GetTerm(), Sequence: sequence}
		n.known.Tell(beat, n.held())
		answer, _ := n.ask(replica, beat, max(timing.HeartbeatTimeout, period))
		ack, ok := answer.(*actorpb.HeartbeatAck)
		if !ok {
			return period
		}
		n.known.Heard(ack)
		period = cmp.Or(time.Duration(ack.GetHeartbeatMillis())*time.Millisecond, period)
	}
	return period
}

// wait waits for d, or until wake fires; false means that the fleet is closed.
func (n *node) wait(wake <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-n.fleet.ctx.Done():
	}
	return n.fleet.ctx.Err() == nil
}

// ask returns a replica's answer, or why there is none.
func (n *node) ask(replica agent.Replica, msg proto.Message, within time.Duration) (answer proto.Message, err error) {
	type heard struct {
		reply proto.Message
		err   error
	}
	answered := make(chan heard, 1)
	n.peers.Ask(replica, msg, within, func(m proto.Message, err error) { answered <- heard{m, err} })
	select {
	case h := <-answered:
		return h.reply, h.err
	case <-n.fleet.ctx.Done():
		return nil, n.fleet.ctx.Err()
	}
}

func (n *node) held() []*actorpb.HeldJob {
	n.mu.Lock()
	defer n.mu.Unlock()
	jobs := make([]*actorpb.HeldJob, 0, len(n.jobs))
	for _, job := range n.jobs {
		jobs = append(jobs, job.held())
	}
	return jobs
}

// urge makes the next heartbeat early.
func (n *node) urge() {
	select {
	case n.urgent <- struct{}{}:
	default:
	}
}

// plan carries out a leader's plan, unless a later leader's plan has already arrived.
func (n *node) plan(m *actorpb.NodePlan) {
	n.mu.Lock()
	if m.GetToken().GetTerm() >= n.term {
		n.term = m.GetToken().GetTerm()
		for _, start := range m.GetStart() {
			id := start.GetJobId()
			if n.jobs[id] == nil && !n.ended.has(id) && start.GetNodeIncarnation() == n.life {
				n.jobs[id] = n.begin(start)
			}
		}
		for _, abort := range m.GetAbort() {
			if job := n.jobs[abort.GetJobId()]; job != nil {
				job.end(&statepb.FinishedJob{State: "aborted", AbortReason: abort.GetReason()})
			}
		}
	}
	n.mu.Unlock()
	n.urge()
	n.askNext()
}
