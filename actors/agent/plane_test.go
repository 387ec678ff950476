package agent

import (
	"cmp"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/remote"
	"weir/messages/actorpb"
)

// plane is a control plane that answers as the test says.
type plane struct {
	mu sync.Mutex
	// answer gives the answer of a replica; nil: the usual one.
	answer func(replica string, msg proto.Message) (proto.Message, error)
	// term is the leader's; silent: nobody answers.
	term   uint64
	silent bool
	// slow is how long an answer takes; 0: a millisecond.
	slow time.Duration
	// phases are what heartbeats said of each job, without repetitions.
	phases map[string][]string
	// deadlines are what they said last.
	deadlines map[string]time.Time
	// told is how many jobs heartbeats have told of.
	told  int
	ended []*actorpb.JobEnded
	asked []string
	// kept are the replicas that others were given up for, each time.
	kept     []string
	lastBeat time.Time
}

// Ask implements Replicas.
func (p *plane) Ask(to Replica, msg proto.Message, timeout time.Duration, done func(proto.Message, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, to.ID+" "+string(msg.ProtoReflect().Descriptor().Name()))
	if p.silent {
		time.AfterFunc(timeout, func() { done(nil, remote.ErrTimeout) })
		return
	}
	var reply proto.Message
	var err error
	if p.answer != nil {
		reply, err = p.answer(to.ID, msg)
	}
	if reply == nil && err == nil {
		reply = p.usual(msg)
	}
	time.AfterFunc(cmp.Or(p.slow, time.Millisecond), func() { done(reply, err) })
}

// Keep implements Replicas.
func (p *plane) Keep(members []*actorpb.Replica) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ids []string
	for _, m := range members {
		ids = append(ids, m.GetId())
	}
	p.kept = append(p.kept, strings.Join(ids, " "))
}

func (p *plane) usual(msg proto.Message) proto.Message {
	switch m := msg.(type) {
	case *actorpb.RegisterAgent:
		p.hear(m.GetJobs())
		return &actorpb.AgentRegistered{Term: p.term, Leader: "r1", LeaseMillis: 5000, HeartbeatMillis: 1000, TakesChanges: true,
			Replicas: []*actorpb.Replica{{Id: "r1", Address: "r1:1"}, {Id: "r2", Address: "r2:1"}}}
	case *actorpb.Heartbeat:
		p.hear(m.GetJobs())
		p.told += len(m.GetJobs())
		p.lastBeat = time.Now()
		return &actorpb.HeartbeatAck{Sequence: m.GetSequence(), Term: m.GetTerm()}
	case *actorpb.JobSpecRequest:
		return &actorpb.JobSpec{JobId: m.GetJobId(), Argv: []string{"true"}}
	case *actorpb.JobEnded:
		p.ended = append(p.ended, m)
		return &actorpb.JobEndedAck{JobId: m.GetJob().GetJobId()}
	case *actorpb.FindController:
		return &actorpb.ControllerFound{Controller: &actorpb.Replica{Id: "r2", Address: "r2:1"}}
	default:
		return &actorpb.Refused{Code: "bad_request"}
	}
}

func (p *plane) hear(jobs []*actorpb.HeldJob) {
	for _, job := range jobs {
		if p.deadlines == nil {
			p.deadlines = map[string]time.Time{}
		}
		delete(p.deadlines, job.GetJobId())
		if job.GetDeadline() != nil {
			p.deadlines[job.GetJobId()] = job.GetDeadline().AsTime()
		}
		said := p.phases[job.GetJobId()]
		if len(said) == 0 || said[len(said)-1] != job.GetPhase() {
			p.phases[job.GetJobId()] = append(said, job.GetPhase())
		}
	}
}

// deadline is when the job is killed, as the last heartbeat said.
func (p *plane) deadline(job string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deadlines[job]
}

func (p *plane) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}
