package fleet

import (
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/agent"
	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/messages/versions"
	"weir/scheduling"
)

const (
	// patience bounds a node's first connection: it may have to wait for those of all other nodes. Later it waits no longer
	// than agents do: where it asks may be dead.
	patience, patienceLater = 30 * time.Second, 500 * time.Millisecond
	// process tells the processes of an agent apart: this one is the only one.
	process = 1
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

// session keeps the node registered, as an agent does.
func (n *node) session() {
	// The first one leads, as far as is known.
	if !n.join(n.fleet.cfg.Replicas[:1]) {
		return
	}
	s := agent.NewSession(agent.DefaultTiming(), agent.NewRoster(n.fleet.cfg.Replicas, nil), agent.NewFence(scheduling.Token{}), rand.Float64)
	s.Hint(n.fleet.cfg.Replicas[0].ID)
	within := patience
	for n.fleet.ctx.Err() == nil {
		ask, wake := s.Next(time.Now())
		if ask == nil {
			if n.wait(time.Until(wake)) {
				s.Urge()
			}
			continue
		}
		answer, err := n.ask(ask.To, n.question(ask), max(ask.Timeout, within))
		outcome := s.Answer(time.Now(), ask.Number, answer, err)
		if outcome.Lease > 0 {
			n.known.Heard(answer)
		}
		if outcome.Registered && within > 0 {
			within = 0
			n.fleet.registered.add()
			n.fleet.sessions.Go(n.joinAll)
		}
	}
}

// question returns the message with a question of the session.
func (n *node) question(ask *agent.Ask) proto.Message {
	jobs := n.held()
	if ask.Register {
		n.known.Register(jobs)
		return &actorpb.RegisterAgent{
			Node: n.name, Incarnation: n.life, Session: process, Version: n.fleet.cfg.Version, Can: versions.Current, Resources: statepb.NewResources(n.fleet.cfg.Resources),
			Tags: n.fleet.cfg.Tags, Jobs: jobs,
		}
	}
	beat := &actorpb.Heartbeat{Node: n.name, Incarnation: n.life, Session: process, Term: ask.Term, Sequence: ask.Sequence}
	n.known.Tell(beat, jobs)
	return beat
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

// wait waits for d, or until jobs have begun or ended, and reports whether they have.
func (n *node) wait(d time.Duration) (urgent bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-n.urgent:
		return true
	case <-timer.C:
	case <-n.fleet.ctx.Done():
	}
	return false
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
