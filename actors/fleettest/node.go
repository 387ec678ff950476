package fleettest

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/agent"
	"weir/messages/actorpb"
	"weir/messages/statepb"
)

const (
	// version is the reported version of the nodes' software.
	version = "simulated"
	// patience bounds every request.
	patience = 30 * time.Second
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
	// over are jobs whose end has been acknowledged.
	over map[string]bool
}

// job is a job of the node.
type job struct {
	start *actorpb.StartJob
	phase string
}

// session registers the node and sends heartbeats, and starts over when they fail.
func (n *node) session() {
	for n.wait(nil, 0) {
		for _, replica := range n.fleet.cfg.Replicas {
			answer := n.ask(replica, &actorpb.RegisterAgent{
				Node: n.name, Incarnation: n.life, Session: 1, Version: version, Resources: statepb.NewResources(n.fleet.cfg.Resources), Jobs: n.held(),
			})
			if registered, ok := answer.(*actorpb.AgentRegistered); ok {
				n.fleet.registered.add()
				n.beat(replica, registered)
				break
			}
		}
		if !n.wait(nil, pause) {
			return
		}
	}
}

// beat sends heartbeats until one is not acknowledged: in each period, and earlier when jobs have
// begun or ended, as agents do.
func (n *node) beat(replica agent.Replica, registered *actorpb.AgentRegistered) {
	period, gap := time.Duration(registered.GetHeartbeatMillis())*time.Millisecond, agent.DefaultTiming().HeartbeatGap
	for sequence := uint64(1); n.wait(nil, gap) && n.wait(n.urgent, period-gap); sequence++ {
		answer := n.ask(replica, &actorpb.Heartbeat{
			Node: n.name, Incarnation: n.life, Session: 1, Term: registered.GetTerm(), Sequence: sequence, Jobs: n.held(),
		})
		if _, ok := answer.(*actorpb.HeartbeatAck); !ok {
			return
		}
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

// ask returns a replica's answer; nil if there is none.
func (n *node) ask(replica agent.Replica, msg proto.Message) proto.Message {
	ctx, cancel := context.WithCancel(n.fleet.ctx)
	defer cancel()
	var answer proto.Message
	n.peers.Ask(replica, msg, patience, func(reply proto.Message, _ error) {
		answer = reply
		cancel()
	})
	<-ctx.Done()
	if n.fleet.ctx.Err() != nil {
		return nil
	}
	return answer
}

func (n *node) held() []*actorpb.HeldJob {
	n.mu.Lock()
	defer n.mu.Unlock()
	jobs := make([]*actorpb.HeldJob, 0, len(n.jobs))
	for id, job := range n.jobs {
		jobs = append(jobs, &actorpb.HeldJob{JobId: id, OperationId: job.start.GetOperationId(), Phase: job.phase})
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
	var begun []*actorpb.StartJob
	ended := map[*actorpb.StartJob]*statepb.FinishedJob{}
	n.change(func() {
		if m.GetToken().GetTerm() < n.term {
			return
		}
		n.term = m.GetToken().GetTerm()
		for _, start := range m.GetStart() {
			id := start.GetJobId()
			if n.jobs[id] == nil && !n.over[id] && start.GetNodeIncarnation() == n.life {
				n.jobs[id] = &job{start, actorpb.PhaseRunning}
				begun = append(begun, start)
			}
		}
		for _, abort := range m.GetAbort() {
			if job := n.jobs[abort.GetJobId()]; job != nil && job.phase == actorpb.PhaseRunning {
				job.phase = actorpb.PhaseEnded
				ended[job.start] = &statepb.FinishedJob{JobId: abort.GetJobId(), State: "aborted", AbortReason: abort.GetReason()}
			}
		}
	})
	for _, start := range begun {
		n.fleet.started.add()
		if n.fleet.cfg.Complete {
			n.complete(start)
		}
	}
	for start, result := range ended {
		n.end(start, result)
	}
}

// complete runs a job that takes no time.
func (n *node) complete(start *actorpb.StartJob) {
	question := &actorpb.JobSpecRequest{
		Node: n.name, OperationId: start.GetOperationId(), JobId: start.GetJobId(), GrantIndex: start.GetToken().GetIndex(),
	}
	n.askController(start, question, func() {
		running := false
		n.change(func() {
			// The job may have been told to leave meanwhile.
			job := n.jobs[start.GetJobId()]
			if running = job != nil && job.phase == actorpb.PhaseRunning; running {
				job.phase = actorpb.PhaseEnded
			}
		})
		if running {
			n.end(start, &statepb.FinishedJob{JobId: start.GetJobId(), State: "completed"})
		}
	})
}

// end reports the end of a job.
func (n *node) end(start *actorpb.StartJob, result *statepb.FinishedJob) {
	report := &actorpb.JobEnded{
		Node: n.name, Incarnation: n.life, OperationId: start.GetOperationId(), GrantIndex: start.GetToken().GetIndex(), Job: result,
	}
	n.askController(start, report, func() {
		n.change(func() {
			delete(n.jobs, start.GetJobId())
			n.over[start.GetJobId()] = true
		})
	})
}

// askController sends a request to the operation's controller until it is answered.
func (n *node) askController(start *actorpb.StartJob, msg proto.Message, then func()) {
	controller := agent.Replica{ID: start.GetController().GetId(), Address: start.GetController().GetAddress()}
	n.peers.Ask(controller, msg, patience, func(answer proto.Message, _ error) {
		switch answer.(type) {
		case *actorpb.JobSpec, *actorpb.JobEndedAck:
			then()
			return
		}
		time.AfterFunc(pause, func() {
			if n.fleet.ctx.Err() == nil {
				n.askController(start, msg, then)
			}
		})
	})
}
