package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/cluster/gossip"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/eventpb"
	"weir/raftstore"
	"weir/raftstore/command"
	"weir/raftstore/events"
	"weir/raftstore/state"
)

// replicaFake is a replica whose log is the order of calls: it has a real state.
type replicaFake struct {
	t testing.TB

	mu      sync.Mutex
	state   *state.State
	index   uint64
	changed chan struct{}
	teller  *events.Teller
	events  *events.Log

	// longest is how long the longest View took, in nanoseconds.
	longest atomic.Int64

	// quorum is whether reads and writes are answered.
	quorum atomic.Bool
	// breaks, when set, is what proposals end with.
	breaks atomic.Pointer[error]
	// before and after, when set, happen before and after a proposal is carried out.
	before, after atomic.Pointer[func()]
	// hold, when set, is waited for by reads.
	hold atomic.Pointer[chan struct{}]
	// held counts the reads that wait.
	held atomic.Int64
	// meanwhile, when set, happens in each request to the leader and to the signals.
	meanwhile atomic.Pointer[func(request string)]

	leadership atomic.Pointer[raftstore.Leadership]
	transfers  atomic.Int64
	// mute is whether the leader's actors are silent.
	mute atomic.Bool

	view    atomic.Pointer[actorpb.SchedulerView]
	reports atomic.Pointer[[]string]
	// asked too often, the scheduler refuses to answer.
	asked atomic.Bool
	live  atomic.Pointer[actorpb.JobLive]
	// jobsAsked are the jobs that the leader was asked for last.
	jobsAsked atomic.Pointer[[]string]
	// history, when set, is what the leader has recorded of pools.
	history atomic.Pointer[func(*actorpb.PoolHistoryRequest) *actorpb.PoolHistory]
	output  func(*actorpb.ReadOutput) (*actorpb.OutputPart, error)
	// file, when set, is what nodes say of files.
	file func(*actorpb.ReadFile) (*actorpb.FilePart, error)
	// exec, when set, is what nodes say of commands in jobs.
	exec func(*actorpb.Exec) (*actorpb.ExecPart, error)
	// object, when set, is what object stores say.
	object func(operation, path string, offset, limit int64) (data []byte, size int64, err error)
	// refusedAgents are those that the leader has refused.
	refusedAgents []*actorpb.RefusedAgent
	// agents are what agents have told the leader that they can.
	agents []*actorpb.AgentProgram
	// gossip, when called, tells who lives.
	gossip func([]gossip.Member)
	// backup is the state as it is backed up.
	backup []byte
	// instances are those of any operation; nil: it has none.
	instances *actorpb.Instances
}

// replicaIDs are those of the cluster of a test; the first one answers.
var replicaIDs = []string{"r1", "r2", "r3"}

// shelf has what ended operations leave, all of them.
type shelf struct{}

// Put implements state.Shelf.
func (shelf) Put(record []byte) state.Shelved { return state.Held(record) }

func newReplica(t testing.TB) *replicaFake {
	r := &replicaFake{t: t, state: state.New(), changed: make(chan struct{})}
	state.UseShelf(r.state, shelf{}, 0)
	r.teller = events.NewTeller(r.state)
	cfg := events.Default()
	cfg.Dir, cfg.MaxBytes, cfg.Logger = t.TempDir(), 64<<10, slog.New(slog.DiscardHandler)
	var err error
	if r.events, err = events.Open(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.events.Close(); err != nil {
			t.Error(err)
		}
	})
	r.quorum.Store(true)
	r.lead("r1")
	r.must(&commandpb.BeginTerm{Term: 1, Replica: "r1", ClusterId: "c1", Limits: state.WithGrants(nil)})
	return r
}

// lead makes a replica the leader; none when id is empty.
func (r *replicaFake) lead(id string) {
	next := &raftstore.Leadership{Leader: id == "r1", Term: 1, LeaderID: id}
	if id != "" {
		next.LeaderAddress = id + ".example:7701"
	}
	r.leadership.Store(next)
}

// begin is when the log of a test begins: a full hour of yesterday, for the server has the
// clock of the machine.
var begin = time.Now().UTC().Add(-24 * time.Hour).Truncate(time.Hour)

// apply applies a command of the system.
func (r *replicaFake) apply(msg proto.Message) *commandpb.Result { return r.applyBy(nil, msg) }

func (r *replicaFake) applyBy(by *commandpb.Subject, msg proto.Message) *commandpb.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.index++
	m := msg.ProtoReflect()
	if field := m.Descriptor().Fields().ByName("time"); field != nil && !m.Has(field) {
		m.Set(field, protoreflect.ValueOfMessage(timestamppb.New(begin.Add(time.Duration(r.index)*time.Second)).ProtoReflect()))
	}
	result, caused := state.ApplyBy(r.state, r.index, by, msg)
	var told []*eventpb.Event
	if result.GetRefusal() == nil {
		told = r.teller.Tell(nil, r.index, msg, caused, r.state)
	}
	r.events.Append(r.index, told)
	close(r.changed)
	r.changed = make(chan struct{})
	return result
}

// must applies commands that are carried out.
func (r *replicaFake) must(messages ...proto.Message) {
	r.t.Helper()
	for _, msg := range messages {
		if refusal := r.apply(msg).GetRefusal(); refusal != nil {
			r.t.Fatalf("%T: refused: %s: %s", msg, refusal.GetCode(), refusal.GetMessage())
		}
	}
}

func (r *replicaFake) View(f func(*state.State)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := time.Now()
	f(r.state)
	r.longest.Store(max(r.longest.Load(), int64(time.Since(from))))
}

func (r *replicaFake) Applied() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.index
}

func (r *replicaFake) WaitApplied(ctx context.Context, index uint64) error {
	for {
		r.mu.Lock()
		now, changed := r.index, r.changed
		r.mu.Unlock()
		if now >= index {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for index %d: %w", index, ctx.Err())
		}
	}
}

func (r *replicaFake) Members() ([]raftstore.Member, error) {
	var members []raftstore.Member
	for _, id := range replicaIDs {
		members = append(members, raftstore.Member{ID: id, Suffrage: raftstore.Voter})
	}
	return members, nil
}

func (r *replicaFake) Leadership() (raftstore.Leadership, <-chan struct{}) {
	return *r.leadership.Load(), make(chan struct{})
}

func (r *replicaFake) Transfer(_ context.Context, to string) error {
	r.transfers.Add(1)
	if to == "r3" {
		return errors.New("r3 does not catch up")
	}
	r.lead("r2")
	return nil
}

func (r *replicaFake) ProposeBy(ctx context.Context, by *commandpb.Subject, msg proto.Message) (*commandpb.Result, error) {
	if err := r.ReadBarrier(ctx); err != nil {
		return nil, err
	}
	if err := r.breaks.Load(); err != nil {
		return nil, fmt.Errorf("propose: %w", *err)
	}
	if before := r.before.Load(); before != nil {
		(*before)()
	}
	command.Stamp(msg, time.Now())
	result := r.applyBy(by, msg)
	if after := r.after.Load(); after != nil {
		(*after)()
	}
	return result, nil
}

// waits says that a call waits for the leader or the signals.
func (r *replicaFake) waits(request string) {
	if meanwhile := r.meanwhile.Load(); meanwhile != nil {
		(*meanwhile)(request)
	}
}

func (r *replicaFake) ReadBarrier(ctx context.Context) error {
	r.waits("ReadBarrier")
	if hold := r.hold.Load(); hold != nil {
		r.held.Add(1)
		<-*hold
	}
	if r.quorum.Load() {
		return nil
	}
	<-ctx.Done()
	return fmt.Errorf("replica r1: no leader is known (%w)", ctx.Err())
}

func (r *replicaFake) SchedulerView(ctx context.Context, m *actorpb.SchedulerViewRequest) (*actorpb.SchedulerView, error) {
	r.waits("SchedulerView")
	if r.mute.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if r.asked.Load() {
		return nil, fmt.Errorf("%w: too many ask", raftstore.ErrOverloaded)
	}
	if len(m.GetReports()) > 0 {
		r.reports.Store(&m.Reports)
	}
	if m.GetAgents() {
		return &actorpb.SchedulerView{Agents: r.agents}, nil
	}
	if m.GetRefused() {
		return &actorpb.SchedulerView{Refused: r.refusedAgents}, nil
	}
	if view := r.view.Load(); view != nil {
		// As over the network, the answer belongs to whoever asked.
		return proto.CloneOf(view), nil
	}
	return nil, errors.New("no leader is known")
}

func (r *replicaFake) PoolHistory(_ context.Context, m *actorpb.PoolHistoryRequest) (*actorpb.PoolHistory, error) {
	r.waits("PoolHistory")
	if history := r.history.Load(); history != nil {
		return (*history)(m), nil
	}
	return nil, errors.New("no leader is known")
}

func (r *replicaFake) JobLive(_ context.Context, jobs []string) (*actorpb.JobLive, error) {
	r.waits("JobLive")
	r.jobsAsked.Store(&jobs)
	if live := r.live.Load(); live != nil {
		return live, nil
	}
	return nil, errors.New("no leader is known")
}

func (r *replicaFake) ReadOutput(_ context.Context, m *actorpb.ReadOutput) (*actorpb.OutputPart, error) {
	r.waits("ReadOutput")
	return r.output(m)
}

func (r *replicaFake) ReadFile(_ context.Context, m *actorpb.ReadFile) (*actorpb.FilePart, error) {
	r.waits("ReadFile")
	if r.file == nil {
		return &actorpb.FilePart{}, nil
	}
	return r.file(m)
}

func (r *replicaFake) ReadObject(_ context.Context, operation, path string, offset, limit int64) (data []byte, size int64, err error) {
	r.waits("ReadObject")
	if r.object == nil {
		return nil, 0, nil
	}
	return r.object(operation, path, offset, limit)
}

func (r *replicaFake) Exec(_ context.Context, m *actorpb.Exec) (*actorpb.ExecPart, error) {
	r.waits("Exec")
	if r.exec == nil {
		return &actorpb.ExecPart{End: &actorpb.ExecEnd{}}, nil
	}
	return r.exec(m)
}

// Instances implements Signals: those that the test has set, once they are of another
// version.
func (r *replicaFake) Instances(ctx context.Context, operation, version string) *actorpb.Instances {
	r.waits("Instances")
	for {
		r.mu.Lock()
		seen, changed := r.instances, r.changed
		r.mu.Unlock()
		if seen == nil {
			seen = &actorpb.Instances{OperationId: operation, Version: "none"}
		}
		if seen.GetVersion() != version || seen.GetOver() {
			return seen
		}
		select {
		case <-ctx.Done():
			return seen
		case <-changed:
		}
	}
}

// see sets what the replica sees of an operation's instances.
func (r *replicaFake) see(seen *actorpb.Instances) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.instances = seen
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *replicaFake) Stopping(job string) string {
	if job == "leaving" {
		return "preemption"
	}
	return ""
}

// Subscribe implements cluster.Membership: r3 is not alive, r2 is of another
// version.
func (r *replicaFake) Subscribe(f func([]gossip.Member)) (cancel func()) {
	r.gossip = f
	f([]gossip.Member{
		{ID: "r1", Address: "r1.example:7701", APIAddress: "r1.example:7701", Version: "v2"},
		{ID: "r2", Address: "r2.example:7701", APIAddress: "r2.example:7701", Version: "v1"},
	})
	return func() {}
}
