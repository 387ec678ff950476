package actors

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/node"
	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/cluster/wire"
	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/messages/versions"
	"weir/scheduling/statistics"
)

// fakeAgent is an agent whose jobs do nothing until the test lets them end. It
// speaks with replicas as a real one does.
type fakeAgent struct {
	// mute: it sends no heartbeats.
	mute        atomic.Bool
	t           *testing.T
	name        string
	tags        []string
	incarnation uint64
	addresses   map[string]string
	system      *actor.ActorSystem
	remote      *remote.Remote
	ctx         context.Context
	cancel      context.CancelFunc
	work        sync.WaitGroup
	over        sync.Once

	mu   sync.Mutex
	jobs map[string]*actorpb.HeldJob
	// started counts the starts of each cookie, by operation/cookie; aborted are
	// jobs that were told to end, with the reason.
	started map[string]int
	aborted map[string]string
	acks    map[string]string
	// orders are all that were given to jobs; deadlines the earliest of each. A forgetful
	// agent does not tell of them.
	orders    map[string][]toldOrder
	deadlines map[string]time.Time
	forgetful bool
	// term is the highest that was heard, registered how often it was let in.
	term       uint64
	registered int
	// pace is what it was told last.
	pace node.Pace
	// done is closed when jobs may end.
	done chan struct{}
	// used is how much memory the job of a cookie has used when it has completed.
	used func(cookie int32) int64
	// stuck requests for output are not answered.
	stuck bool
}

// toldOrder is an order as the agent heard it.
type toldOrder struct {
	*actorpb.AbortJob
	term uint64
	// deadline is what it comes to.
	deadline time.Time
}

// startAgent starts an agent that knows all replicas, of a node with these tags.
func startAgent(t *testing.T, c *testCluster, name string, tags ...string) *fakeAgent {
	t.Helper()
	a := &fakeAgent{
		t: t, name: name, tags: tags, incarnation: uint64(time.Now().UnixNano())<<8 | lives.Add(1), addresses: map[string]string{},
		jobs: map[string]*actorpb.HeldJob{}, started: map[string]int{}, aborted: map[string]string{}, acks: map[string]string{}, done: make(chan struct{}),
		orders: map[string][]toldOrder{}, deadlines: map[string]time.Time{},
	}
	for _, r := range c.replicas {
		a.addresses[peerOf(r.id)] = r.address
	}
	dialer, err := wire.NewDialer(securityOf(identity.Agent, name))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	a.ctx, a.cancel = context.WithCancel(context.Background())
	a.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
	a.remote, err = remote.Start(a.system, remote.Config{
		Self:        identity.Identity{Cluster: plaintext, Role: identity.Agent, Name: name},
		Incarnation: a.incarnation, Version: "test", Directory: a, Dialer: dialer, Limits: testStreams(), Logger: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.stop)
	inbox := a.remote.NewInbox(nil)
	pid := a.system.Root.Spawn(actor.PropsFromFunc(a.receive, inbox.Mailbox()))
	if err := a.remote.Publish(actorpb.AgentName, pid, inbox, identity.Replica); err != nil {
		t.Fatal(err)
	}
	for peer := range a.addresses {
		if err := a.remote.Connect(peer); err != nil {
			t.Fatal(err)
		}
	}
	a.work.Go(a.session)
	return a
}

// stop ends the agent without a word.
func (a *fakeAgent) stop() {
	a.over.Do(func() {
		a.cancel()
		a.remote.Close()
		a.work.Wait()
		a.system.Shutdown()
	})
}

// Address implements remote.Directory.
func (a *fakeAgent) Address(peer string) (string, bool) {
	address, ok := a.addresses[peer]
	return address, ok
}

func (a *fakeAgent) ask(peer string, msg proto.Message) (proto.Message, error) {
	ctx, cancel := context.WithTimeout(a.ctx, 20*time.Second)
	defer cancel()
	return a.remote.Request(ctx, peer, actorpb.GatewayName, msg)
}

// pause waits for d; false: the agent is over.
func (a *fakeAgent) pause(d time.Duration) bool {
	select {
	case <-a.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// session registers with whoever leads and sends heartbeats, again and again.
func (a *fakeAgent) session() {
	for a.pause(10 * time.Millisecond) {
		for peer := range a.addresses {
			answer, err := a.ask(peer, &actorpb.RegisterAgent{
				Node: a.name, Incarnation: a.incarnation, Version: "test", Can: versions.Current, Jobs: a.held(), Tags: a.tags,
				Resources: &statepb.Resources{UserSlots: 4, CpuHundredths: 400, Memory: 1 << 30},
			})
			registered, ok := answer.(*actorpb.AgentRegistered)
			if err != nil || !ok {
				continue
			}
			a.set(func() { a.registered++; a.term = max(a.term, registered.GetTerm()) })
			a.beat(peer, registered.GetTerm(), time.Duration(registered.GetHeartbeatMillis())*time.Millisecond)
		}
	}
}

func (a *fakeAgent) beat(peer string, term uint64, period time.Duration) {
	for sequence := uint64(1); a.pause(period); sequence++ {
		if a.mute.Load() {
			continue
		}
		answer, err := a.ask(peer, &actorpb.Heartbeat{Node: a.name, Incarnation: a.incarnation, Term: term, Sequence: sequence, Jobs: a.held()})
		ack, ok := answer.(*actorpb.HeartbeatAck)
		if err != nil || !ok {
			return
		}
		period = time.Duration(ack.GetHeartbeatMillis()) * time.Millisecond
		a.set(func() {
			a.pace = node.Pace{Heartbeat: period, Lease: time.Duration(ack.GetLeaseMillis()) * time.Millisecond}
		})
	}
}

func (a *fakeAgent) held() (jobs []*actorpb.HeldJob) {
	a.set(func() {
		for _, job := range a.jobs {
			jobs = append(jobs, proto.CloneOf(job))
		}
	})
	return jobs
}

func (a *fakeAgent) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// finish lets jobs end, those of now and later ones.
func (a *fakeAgent) finish() { close(a.done) }

// running returns the ids of the jobs that the agent has, sorted.
func (a *fakeAgent) running() (ids []string) {
	for _, job := range a.held() {
		if job.GetPhase() == "running" {
			ids = append(ids, job.GetJobId())
		}
	}
	slices.Sort(ids)
	return ids
}

func (a *fakeAgent) receive(ctx actor.Context) {
	in, ok := ctx.Message().(*remote.Inbound)
	if !ok {
		return
	}
	switch m := in.Message.(type) {
	case *actorpb.NodePlan:
		a.plan(m)
	case *actorpb.ReadOutput:
		a.mu.Lock()
		defer a.mu.Unlock()
		if !a.stuck {
			ctx.Respond(&actorpb.OutputPart{Data: []byte(m.GetStream() + " of " + m.GetJobId()), End: true})
		}
	}
}

// plan carries out what a leader says, unless a later one has spoken.
func (a *fakeAgent) plan(m *actorpb.NodePlan) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.GetToken().GetTerm() < a.term {
		return
	}
	a.term = m.GetToken().GetTerm()
	for _, start := range m.GetStart() {
		if a.jobs[start.GetJobId()] != nil || start.GetNodeIncarnation() != a.incarnation {
			continue
		}
		if _, over := a.acks[start.GetJobId()]; over {
			continue
		}
		a.jobs[start.GetJobId()] = &actorpb.HeldJob{JobId: start.GetJobId(), OperationId: start.GetOperationId(), Phase: "running", Memory: 7}
		a.started[fmt.Sprintf("%s/%d", start.GetOperationId(), start.GetCookie())]++
		a.work.Go(func() { a.run(start) })
	}
	for _, abort := range m.GetAbort() {
		a.order(m.GetToken().GetTerm(), abort)
	}
}

// order has a job end, at its earliest deadline. a.mu is held.
func (a *fakeAgent) order(term uint64, m *actorpb.AbortJob) {
	id, deadline := m.GetJobId(), time.Now().Add(time.Duration(m.GetGraceMillis())*time.Millisecond)
	a.orders[id] = append(a.orders[id], toldOrder{m, term, deadline})
	if _, told := a.aborted[id]; !told {
		a.aborted[id] = m.GetReason()
	}
	if at, told := a.deadlines[id]; !told || deadline.Before(at) {
		a.deadlines[id] = deadline
	}
	if job := a.jobs[id]; job != nil && m.GetGraceMillis() > 0 && !a.forgetful {
		job.Deadline = timestamppb.New(a.deadlines[id])
	}
}

// run leads a job to its end and has it counted.
func (a *fakeAgent) run(m *actorpb.StartJob) {
	grant := m.GetToken().GetIndex()
	spec := a.askController(m, func() proto.Message {
		return &actorpb.JobSpecRequest{Node: a.name, OperationId: m.GetOperationId(), JobId: m.GetJobId(), GrantIndex: grant}
	})
	if s, ok := spec.(*actorpb.JobSpec); ok && (s.GetShell() != "work" || s.GetEnvironment()["WEIR_JOB_ID"] != m.GetJobId()) {
		a.t.Errorf("job %s was given %v to run", m.GetJobId(), s)
	}
	job := &statepb.FinishedJob{JobId: m.GetJobId(), State: "completed"}
	for waiting := true; waiting; {
		select {
		case <-a.ctx.Done():
			return
		case <-a.done:
			waiting = false
		case <-time.After(5 * time.Millisecond):
			a.set(func() {
				if reason, ok := a.aborted[m.GetJobId()]; ok && !time.Now().Before(a.deadlines[m.GetJobId()]) {
					job.State, job.AbortReason, waiting = "aborted", reason, false
				}
			})
		}
	}
	a.set(func() {
		a.jobs[m.GetJobId()].Phase = "ended"
		if a.used != nil {
			job.Statistics = &statepb.JobStatistics{Values: map[string]int64{statistics.UserMaxMemory: a.used(m.GetCookie())}}
		}
	})
	answer := a.askController(m, func() proto.Message {
		return &actorpb.JobEnded{Node: a.name, Incarnation: a.incarnation, OperationId: m.GetOperationId(), GrantIndex: grant, Job: job}
	})
	ack, _ := answer.(*actorpb.JobEndedAck)
	a.set(func() {
		delete(a.jobs, m.GetJobId())
		a.acks[m.GetJobId()] = ack.GetRefusal()
	})
}

// askController asks the operation's controller, wherever it is, until there is an
// answer; nil: nobody wants the job any more.
func (a *fakeAgent) askController(m *actorpb.StartJob, question func() proto.Message) proto.Message {
	at := peerOf(m.GetController().GetId())
	for {
		answer, err := a.ask(at, question())
		if err != nil {
			for peer := range a.addresses {
				find := &actorpb.FindController{OperationId: m.GetOperationId(), GrantIndex: m.GetToken().GetIndex()}
				if answer, err = a.ask(peer, find); err == nil {
					break
				}
			}
		}
		switch found := answer.(type) {
		case *actorpb.ControllerFound:
			if found.GetController() == nil {
				return nil
			}
			at = peerOf(found.GetController().GetId())
		case *actorpb.JobSpec, *actorpb.JobEndedAck:
			return answer
		}
		if !a.pause(20 * time.Millisecond) {
			return nil
		}
	}
}
