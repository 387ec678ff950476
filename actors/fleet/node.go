package fleet

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/agent"
	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/messages/versions"
)

const (
	// patience bounds a node's first connection: it may have to wait for those of all other nodes.
	patience = 30 * time.Second
	// again bounds its later attempts to register: where it asks may be dead.
	again = time.Second
	// pause is the pause before a retry.
	pause = 50 * time.Millisecond
)

// node is a node of a fleet.
type node struct {
	fleet *Fleet
	name  string
	life  uint64
	peers *agent.Peers
	stop  func()
	// urgent makes the next heartbeat early, because jobs have begun or ended.
	urgent chan struct{}

	mu   sync.Mutex
	term uint64
	jobs map[string]*job
	// ended are the jobs that have ended lately; they do not run again.
	ended ended
}

// job is a job of the node.
type job struct {
	start *actorpb.StartJob
	began time.Time
	// uses is how much it uses of what it has, from 0 to 1.
	uses float64
	// told has the result of a job that was told to leave.
	told  chan *statepb.FinishedJob
	phase string
}

// session registers the node and sends heartbeats, and starts over when they fail.
func (n *node) session() {
	// The first one leads, as far as is known.
	if !n.join(n.fleet.cfg.Replicas[:1]) {
		return
	}
	within := patience
	for session := uint64(1); n.wait(nil, 0); {
		for _, replica := range n.fleet.cfg.Replicas {
			answer, _ := n.ask(replica, &actorpb.RegisterAgent{
				Node: n.name, Incarnation: n.life, Session: session, Version: n.fleet.cfg.Version, Can: versions.Current, Resources: statepb.NewResources(n.fleet.cfg.Resources), Jobs: n.held(),
			}, within)
			if registered, ok := answer.(*actorpb.AgentRegistered); ok {
				if session == 1 {
					n.fleet.registered.add()
					n.fleet.sessions.Go(n.joinAll)
				}
				n.beat(replica, session, registered)
				session++
				within = again
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
// begun or ended, as agents do.
func (n *node) beat(replica agent.Replica, session uint64, registered *actorpb.AgentRegistered) {
	period, gap := registered.GetHeartbeatMillis(), agent.DefaultTiming().HeartbeatGap
	for sequence := uint64(1); n.wait(nil, gap) && n.wait(n.urgent, time.Duration(period)*time.Millisecond-gap); sequence++ {
		answer, _ := n.ask(replica, &actorpb.Heartbeat{
			Node: n.name, Incarnation: n.life, Session: session, Term: registered.GetTerm(), Sequence: sequence, Jobs: n.held(),
		}, max(agent.DefaultTiming().HeartbeatTimeout, time.Duration(period)*time.Millisecond))
		ack, ok := answer.(*actorpb.HeartbeatAck)
		if !ok {
			return
		}
		period = cmp.Or(ack.GetHeartbeatMillis(), period)
	}
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
	ctx, cancel := context.WithCancel(n.fleet.ctx)
	defer cancel()
	var reply proto.Message
	var failure error
	n.peers.Ask(replica, msg, within, func(m proto.Message, err error) {
		reply, failure = m, err
		cancel()
	})
	<-ctx.Done()
	if n.fleet.ctx.Err() != nil {
		return nil, n.fleet.ctx.Err()
	}
	return reply, failure
}

func (n *node) held() []*actorpb.HeldJob {
	n.mu.Lock()
	defer n.mu.Unlock()
	jobs := make([]*actorpb.HeldJob, 0, len(n.jobs))
	for id, job := range n.jobs {
		has := job.start.GetResources()
		cores, ran := float64(has.GetCpuHundredths())/100, time.Since(job.began)
		jobs = append(jobs, &actorpb.HeldJob{
			JobId: id, OperationId: job.start.GetOperationId(), Phase: job.phase, StartTime: timestamppb.New(job.began),
			Memory: int64(job.uses * float64(has.GetMemory())), CpuMicros: int64(job.uses * cores * float64(ran.Microseconds())),
		})
	}
	return jobs
}

// change changes the job list that heartbeats report.
func (n *node) change(what func()) {
	n.mu.Lock()
	what()
	n.mu.Unlock()
	select {
	case n.urgent <- struct{}{}:
	default:
	}
}

// plan carries out a leader's plan, unless a later leader's plan has already arrived.
func (n *node) plan(m *actorpb.NodePlan) {
	var begun []*job
	n.change(func() {
		if m.GetToken().GetTerm() < n.term {
			return
		}
		n.term = m.GetToken().GetTerm()
		for _, start := range m.GetStart() {
			id := start.GetJobId()
			if n.jobs[id] == nil && !n.ended.has(id) && start.GetNodeIncarnation() == n.life {
				n.jobs[id] = &job{start: start, phase: actorpb.PhaseRunning, began: time.Now(), uses: rand.Float64(), told: make(chan *statepb.FinishedJob, 1)}
				begun = append(begun, n.jobs[id])
			}
		}
		for _, abort := range m.GetAbort() {
			if job := n.jobs[abort.GetJobId()]; job != nil {
				select {
				case job.told <- &statepb.FinishedJob{State: "aborted", AbortReason: abort.GetReason()}:
				default: // It has been told before.
				}
			}
		}
	})
	for _, job := range begun {
		n.fleet.started.add()
		n.fleet.sessions.Go(func() { n.run(job) })
	}
}

// run does for a job what an agent does, but for the work.
func (n *node) run(j *job) {
	defer n.change(func() {
		delete(n.jobs, j.start.GetJobId())
		n.ended.add(j.start.GetJobId(), time.Now())
	})
	controller := agent.Replica{ID: j.start.GetController().GetId(), Address: j.start.GetController().GetAddress()}
	courier := agent.NewCourier(controller, agent.DefaultTiming(), rand.Float64)
	var over <-chan time.Time
	if lasts := n.fleet.cfg.Lasts; lasts != nil {
		wanted := n.carry(courier, j, &actorpb.JobSpecRequest{
			Node: n.name, OperationId: j.start.GetOperationId(), JobId: j.start.GetJobId(), GrantIndex: j.start.GetToken().GetIndex(),
		})
		if !wanted {
			return
		}
		over = time.After(lasts())
	}
	result := &statepb.FinishedJob{State: "completed"}
	select {
	case result = <-j.told:
	case <-over:
	case <-n.fleet.ctx.Done():
		return
	}
	result.JobId = j.start.GetJobId()
	n.change(func() { j.phase = actorpb.PhaseEnded })
	courier.Reset()
	n.carry(courier, j, &actorpb.JobEnded{
		Node: n.name, Incarnation: n.life, OperationId: j.start.GetOperationId(), GrantIndex: j.start.GetToken().GetIndex(), Job: result,
	})
}

// carry takes a question to the job's controller, wherever that is by now, until it is answered. It returns false if
// nobody wants the job any more, or the fleet is closed.
func (n *node) carry(courier *agent.Courier, j *job, question proto.Message) (wanted bool) {
	for {
		to, find := courier.Next(n.fleet.cfg.Replicas)
		msg := question
		if find {
			msg = &actorpb.FindController{OperationId: j.start.GetOperationId(), GrantIndex: j.start.GetToken().GetIndex()}
		}
		reply, err := n.ask(to, msg, agent.DefaultTiming().AskTimeout)
		verdict, pause, _ := courier.Heard(find, reply, err)
		switch {
		case verdict == agent.Answered:
			return true
		case verdict == agent.Nobody, !n.wait(nil, pause):
			return false
		}
	}
}
