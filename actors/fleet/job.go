package fleet

import (
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/agent"
	"weir/messages/actorpb"
	"weir/messages/statepb"
)

// askedAtOnce is how many jobs of a node of a fleet wait for an answer at a time. A machine that starts processes has hardly
// more than four; the nodes of a small fleet may have jobs that take no time.
func askedAtOnce(nodes int) int { return max(4, 2000/nodes) }

// measureEach is how often a job is measured: seldom, like the jobs of agents whose use hardly changes.
const measureEach = 30 * time.Second

// job is a job of the node, guarded by the node's mutex. It does for a job what an agent does, but for the work, and takes
// no goroutine: a fleet may have hundreds of thousands.
type job struct {
	node  *node
	start *actorpb.StartJob
	// began is when it began, and measured when it was last measured, as said in heartbeats.
	began, measured time.Time
	said            *actorpb.HeldJob
	// uses is how much it uses of what it has, from 0 to 1.
	uses    float64
	phase   string
	courier *agent.Courier
	// question is for the job's controller, wherever that is by now, until it is answered; nil if there is none.
	question proto.Message
	// result is how the job has ended; nil while it runs.
	result *statepb.FinishedJob
}

// begin returns a job that begins now. It asks for its spec if that says how long it runs.
func (n *node) begin(start *actorpb.StartJob) *job {
	now := time.Now()
	j := &job{node: n, start: start, began: now, uses: rand.Float64(), phase: actorpb.PhaseRunning}
	j.courier = agent.NewCourier(agent.Replica{ID: start.GetController().GetId(), Address: start.GetController().GetAddress()}, agent.DefaultTiming(), rand.Float64)
	if n.fleet.cfg.Lasts != nil {
		j.put(&actorpb.JobSpecRequest{
			Node: n.name, OperationId: start.GetOperationId(), JobId: start.GetJobId(), GrantIndex: start.GetToken().GetIndex(),
		})
	}
	n.fleet.started.add()
	return j
}

// held is what heartbeats say of the job. It is measured again after a while, and when its phase has changed.
func (j *job) held() *actorpb.HeldJob {
	now := time.Now()
	if j.said.GetPhase() == j.phase && now.Sub(j.measured) < measureEach {
		return j.said
	}
	has := j.start.GetResources()
	cores := float64(has.GetCpuHundredths()) / 100
	j.measured = now
	j.said = &actorpb.HeldJob{
		JobId: j.start.GetJobId(), OperationId: j.start.GetOperationId(), Phase: j.phase, StartTime: timestamppb.New(j.began),
		Memory: int64(j.uses * float64(has.GetMemory())), CpuMicros: int64(j.uses * cores * float64(now.Sub(j.began).Microseconds())),
	}
	return j.said
}

// end ends the job, unless it has ended before. One that asks for its spec reports it after the answer.
func (j *job) end(result *statepb.FinishedJob) {
	if j.result != nil {
		return
	}
	j.result = result
	j.result.JobId = j.start.GetJobId()
	if j.question == nil {
		j.report()
	}
}

// report has the controller told how the job has ended.
func (j *job) report() {
	j.phase = actorpb.PhaseEnded
	j.courier.Reset()
	j.put(&actorpb.JobEnded{
		Node: j.node.name, Incarnation: j.node.life, OperationId: j.start.GetOperationId(), GrantIndex: j.start.GetToken().GetIndex(), Job: j.result,
	})
	j.node.urge()
}

// put puts a question in the node's queue. Call askNext after the mutex is unlocked.
func (j *job) put(question proto.Message) {
	j.question = question
	j.node.queue = append(j.node.queue, j)
}

// askNext asks the questions whose turn it is.
func (n *node) askNext() {
	for n.fleet.ctx.Err() == nil {
		n.mu.Lock()
		if len(n.queue) == 0 || n.asking == n.fleet.asks {
			n.mu.Unlock()
			return
		}
		j := n.queue[0]
		n.queue, n.asking = n.queue[1:], n.asking+1
		to, find := j.courier.Next(n.fleet.cfg.Replicas)
		question := j.question
		n.mu.Unlock()
		if find {
			question = &actorpb.FindController{OperationId: j.start.GetOperationId(), GrantIndex: j.start.GetToken().GetIndex()}
		}
		n.peers.Ask(to, question, agent.DefaultTiming().AskTimeout, func(reply proto.Message, err error) { j.heard(find, reply, err) })
	}
}

// heard goes on after an answer to the job's question.
func (j *job) heard(find bool, reply proto.Message, err error) {
	n := j.node
	n.mu.Lock()
	n.asking--
	verdict, pause, _ := j.courier.Heard(find, reply, err)
	switch {
	case verdict == agent.Again:
		time.AfterFunc(pause, func() {
			n.mu.Lock()
			j.put(j.question)
			n.mu.Unlock()
			n.askNext()
		})
	case verdict == agent.Nobody || j.phase == actorpb.PhaseEnded:
		delete(n.jobs, j.start.GetJobId())
		n.ended.add(j.start.GetJobId(), time.Now())
		n.urge()
	default:
		j.run()
	}
	n.mu.Unlock()
	n.askNext()
}

// run goes on after the job has its spec, until its time is over.
func (j *job) run() {
	j.question = nil
	if j.result != nil {
		j.report()
		return
	}
	time.AfterFunc(j.node.fleet.cfg.Lasts(), func() { j.complete() })
}

// complete ends the job with success.
func (j *job) complete() {
	j.node.mu.Lock()
	j.end(&statepb.FinishedJob{State: "completed"})
	j.node.mu.Unlock()
	j.node.askNext()
}
