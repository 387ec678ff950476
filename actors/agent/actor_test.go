package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"weir/actors/agent/journal"
	"weir/actors/agent/runner"
	"weir/actors/agent/runner/output"
	"weir/actors/agent/runner/proxyproto"
	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/messages/actorpb"
	"weir/messages/journalpb"
	"weir/scheduling"
	"weir/scheduling/resource"
)

// plane is a control plane that answers as the test says.
type plane struct {
	mu sync.Mutex
	// answer gives the answer of a replica; nil: the usual one.
	answer func(replica string, msg proto.Message) (proto.Message, error)
	// term is the leader's; silent: nobody answers.
	term   uint64
	silent bool
	// phases are what heartbeats said of each job, without repetitions.
	phases   map[string][]string
	ended    []*actorpb.JobEnded
	asked    []string
	lastBeat time.Time
}

// Ask implements Replicas. Answers take a millisecond.
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
	time.AfterFunc(time.Millisecond, func() { done(reply, err) })
}

func (p *plane) usual(msg proto.Message) proto.Message {
	switch m := msg.(type) {
	case *actorpb.RegisterAgent:
		p.hear(m.GetJobs())
		return &actorpb.AgentRegistered{Term: p.term, Leader: "r1", LeaseMillis: 5000, HeartbeatMillis: 1000,
			Replicas: []*actorpb.Replica{{Id: "r1", Address: "r1:1"}, {Id: "r2", Address: "r2:1"}}}
	case *actorpb.Heartbeat:
		p.hear(m.GetJobs())
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
		said := p.phases[job.GetJobId()]
		if len(said) == 0 || said[len(said)-1] != job.GetPhase() {
			p.phases[job.GetJobId()] = append(said, job.GetPhase())
		}
	}
}

func (p *plane) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// machine has processes that do as the test says.
type machine struct {
	mu       sync.Mutex
	runs     map[string]*fakeRun
	started  map[string]int
	failure  error
	renewals []time.Duration
	// discarded are jobs that the agent did not know.
	discarded []string
}

type fakeRun struct {
	machine  *machine
	id       string
	events   chan runner.Event
	stops    []string
	ends     bool // When it is told to stop.
	broken   int  // So many times it cannot be told anything, or released.
	over     bool
	last     runner.Exited
	released bool
}

// Start implements Processes.
func (m *machine) Start(_ context.Context, spec runner.JobSpec) (Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.started[spec.ID]++
	if m.failure != nil {
		return nil, m.failure
	}
	r := &fakeRun{machine: m, id: spec.ID, events: make(chan runner.Event, 16), ends: true}
	m.runs[spec.ID] = r
	r.events <- runner.Started{JobID: spec.ID, Pid: 42, Time: time.Now()}
	return r, nil
}

// Leftovers implements Processes.
func (m *machine) Leftovers() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.runs))
}

// Adopt implements Processes.
func (m *machine) Adopt(job string) Run {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.runs[job]; r != nil {
		return r
	}
	return nil
}

// Discard implements Processes.
func (m *machine) Discard(job string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runs[job].end("stopped", "discarded", -1)
	delete(m.runs, job)
	m.discarded = append(m.discarded, job)
	return nil
}

// RenewAll implements Processes.
func (m *machine) RenewAll(lease time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renewals = append(m.renewals, lease)
}

// ReadOutput implements Processes.
func (m *machine) ReadOutput(job, stream string, offset, limit int64) (runner.OutputPart, error) {
	switch {
	case job == "gone":
		return runner.OutputPart{}, runner.ErrOutputGone
	case stream != "stderr":
		return runner.OutputPart{}, errors.New("no such stream")
	case offset < 0:
		return runner.OutputPart{Part: output.Part{Data: []byte("bo"), Next: 2, Total: 4}}, nil
	}
	return runner.OutputPart{Part: output.Part{Data: []byte("om"), Next: 4, Total: 4}, End: limit > 0}, nil
}

// Events implements Run.
func (r *fakeRun) Events() <-chan runner.Event { return r.events }

// Stop implements Run.
func (r *fakeRun) Stop(reason string, grace time.Duration) error {
	r.machine.mu.Lock()
	defer r.machine.mu.Unlock()
	if r.broken > 0 {
		r.broken--
		return runner.ErrUnreachable
	}
	r.stops = append(r.stops, fmt.Sprint(reason, " ", grace))
	if r.ends {
		r.end("stopped", reason, -1)
	}
	return nil
}

// Release implements Run.
func (r *fakeRun) Release() error {
	r.machine.mu.Lock()
	defer r.machine.mu.Unlock()
	if r.broken > 0 {
		r.broken--
		return errors.New("cannot be removed")
	}
	r.released = true
	return nil
}

// leave does what the end of an agent's process does to a job that goes on: nobody
// hears of it until it is adopted.
func (m *machine) leave() {
	m.set(func() {
		for id, r := range m.runs {
			if r.released {
				delete(m.runs, id)
				continue
			}
			next := &fakeRun{machine: m, id: id, events: make(chan runner.Event, 16), ends: true}
			if r.over {
				next.over = true
				next.events <- r.last
				close(next.events)
			} else {
				next.events <- runner.Started{JobID: id, Pid: 42, Time: time.Now()}
				r.over = true
				close(r.events)
			}
			m.runs[id] = next
		}
	})
}

func (r *fakeRun) end(outcome, reason string, code int) {
	if !r.over {
		r.over = true
		e := exited(proxyproto.Outcome(outcome), reason, code)
		e.Result.StartTime, e.Result.EndTime = time.Now(), time.Now()
		r.last = e
		r.events <- e
		close(r.events)
	}
}

func (m *machine) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// logs counts records by level and keeps their text.
type logs struct {
	slog.Handler
	mu   sync.Mutex
	text []string
}

func (l *logs) Enabled(context.Context, slog.Level) bool { return true }

func (l *logs) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	l.text = append(l.text, line)
	return nil
}

func (l *logs) count(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.text {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// world is an agent in a bubble, where time passes only in advance.
type world struct {
	t       *testing.T
	system  *actor.ActorSystem
	agent   *Agent
	plane   *plane
	machine *machine
	logs    *logs
	cfg     Config
}

func quietSystem() *actor.ActorSystem {
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
}

func inWorld(t *testing.T, test func(w *world)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, system: quietSystem(),
			plane:   &plane{term: 3, phases: map[string][]string{}},
			machine: &machine{runs: map[string]*fakeRun{}, started: map[string]int{}},
			logs:    &logs{},
		}
		w.cfg = DefaultConfig()
		w.cfg.Node, w.cfg.Incarnation, w.cfg.StateDir, w.cfg.Seeds = "n1", 9, dir, replicas("r1")
		w.cfg.Resources = resource.Amounts{UserSlots: 1, CPU: 100, Memory: 1 << 30}
		w.cfg.Logger = slog.New(w.logs)
		birth, _, err := journal.Open(journal.Config{Path: w.journalFile(), Node: "n1", Life: 9})
		if err == nil {
			err = birth.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		w.start()
		defer func() {
			// Whatever is left of the jobs ends, so that the bubble can.
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = w.agent.Close(ctx)
			w.machine.set(func() {
				for _, r := range w.machine.runs {
					r.end("stopped", "", -1)
				}
			})
			// protoactor counts dead letters for a second.
			w.advance(time.Minute)
		}()
		w.advance(10 * time.Millisecond)
		test(w)
	})
}

func (w *world) journalFile() string { return folder{path: w.cfg.StateDir}.journalFile() }

// start starts the agent, again after it has ended.
func (w *world) start() {
	w.t.Helper()
	var err error
	if w.agent, err = Start(w.system, w.cfg, w.machine, w.plane); err != nil {
		w.t.Fatal(err)
	}
}

// kill ends the agent's process, but not its jobs.
func (w *world) kill() {
	w.t.Helper()
	if err := w.agent.Leave(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	w.machine.leave()
	w.advance(10 * time.Millisecond)
}

// journal reads what the journal knows. The agent must have ended.
func (w *world) journal() *journal.State {
	w.t.Helper()
	j, found, err := journal.Open(journal.Config{Path: w.journalFile(), Node: "n1"})
	if err == nil {
		err = j.Close()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return found.State
}

// advance lets time pass and everything happen that then does.
func (w *world) advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (w *world) send(msg proto.Message) {
	from := identity.Identity{Role: identity.Replica, Name: "r1"}
	w.system.Root.Send(w.agent.PID(), &remote.Inbound{From: from, Message: msg})
	w.advance(100 * time.Millisecond)
}

func (w *world) run(job string) *fakeRun {
	w.t.Helper()
	w.machine.mu.Lock()
	defer w.machine.mu.Unlock()
	r := w.machine.runs[job]
	if r == nil {
		w.t.Fatalf("job %s does not run", job)
	}
	return r
}

// stops returns how the job was told to end.
func (w *world) stops(job string) []string {
	w.t.Helper()
	r := w.run(job)
	w.machine.mu.Lock()
	defer w.machine.mu.Unlock()
	return slices.Clone(r.stops)
}

func (w *world) released(job string) bool {
	w.t.Helper()
	r := w.run(job)
	w.machine.mu.Lock()
	defer w.machine.mu.Unlock()
	return r.released
}

// starts returns how often the job was started.
func (w *world) starts(job string) int {
	w.machine.mu.Lock()
	defer w.machine.mu.Unlock()
	return w.machine.started[job]
}

// phases returns what heartbeats said of a job.
func (w *world) phases(job string) string {
	w.plane.mu.Lock()
	defer w.plane.mu.Unlock()
	return strings.Join(w.plane.phases[job], " ")
}

// result returns the n-th result that was counted.
func (w *world) result(n int) *actorpb.JobEnded {
	w.t.Helper()
	w.plane.mu.Lock()
	defer w.plane.mu.Unlock()
	if n >= len(w.plane.ended) {
		w.t.Fatalf("%d results, want %d at least", len(w.plane.ended), n+1)
	}
	return w.plane.ended[n]
}

func (w *world) exit(job string, code int) {
	w.t.Helper()
	r := w.run(job)
	w.machine.set(func() { r.end("exited", "", code) })
	w.advance(100 * time.Millisecond)
}

// results returns job:state:reason for each result that was counted.
func (w *world) results() string {
	w.plane.mu.Lock()
	defer w.plane.mu.Unlock()
	var all []string
	for _, e := range w.plane.ended {
		all = append(all, strings.TrimSuffix(e.GetJob().GetJobId()+":"+e.GetJob().GetState()+":"+e.GetJob().GetAbortReason(), ":"))
	}
	return strings.Join(all, " ")
}

func (w *world) want(results string) {
	w.t.Helper()
	if got := w.results(); got != results {
		w.t.Errorf("results %q, want %q", got, results)
	}
}

func (w *world) asks(name string) (n int) {
	w.plane.mu.Lock()
	defer w.plane.mu.Unlock()
	for _, asked := range w.plane.asked {
		if strings.HasSuffix(asked, name) {
			n++
		}
	}
	return n
}

func TestAgentRunsAJob(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		w.advance(1500 * time.Millisecond)
		w.exit("j", 0)
		w.want("j:completed")
		w.advance(1500 * time.Millisecond)
		if got := w.phases("j"); got != "waiting running ended" && got != "running ended" {
			t.Errorf("heartbeats said %q", got)
		}
		e := w.result(0)
		if e.GetNode() != "n1" || e.GetIncarnation() != 9 || e.GetGrantIndex() != 7 || e.GetOperationId() != "op" || len(e.GetStderrTail()) != 0 {
			t.Errorf("result %v", e)
		}
		if !w.released("j") {
			t.Error("the workspace was not released")
		}
		w.send(plan(3, 7, granted("j", 9)))
		w.want("j:completed j:aborted:disappeared_from_node")
		if w.starts("j") != 1 {
			t.Errorf("started %d times, want once", w.starts("j"))
		}
	})
}

func TestAgentTellsNewsAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		before := w.asks("Heartbeat")
		w.exit("j", 0)
		if got := w.asks("Heartbeat"); got <= before {
			t.Error("the end of a job waits for the next period")
		}
		w.advance(10 * time.Second)
		if got := w.asks("Heartbeat"); got > before+13 {
			t.Errorf("%d heartbeats in 10 s, want one a period", got-before)
		}
	})
}

func TestAgentFailedJobBringsStderr(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		w.exit("j", 7)
		w.want("j:failed")
		e := w.result(0)
		if e.GetJob().GetError().GetMessage() != "exited with code 7" || string(e.GetStderrTail()) != "boom" {
			t.Errorf("result %v", e)
		}
	})
}

func TestAgentLeaseRunsOut(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		w.advance(3 * time.Second)
		var last time.Time
		w.plane.set(func() { w.plane.silent, last = true, w.plane.lastBeat })
		w.advance(time.Until(last.Add(5*time.Second - time.Millisecond)))
		if stops := w.stops("j"); len(stops) != 0 {
			t.Fatalf("stopped %v before the lease ran out", stops)
		}
		w.advance(2 * time.Millisecond)
		if stops := w.stops("j"); !slices.Equal(stops, []string{"node_offline 0s"}) {
			t.Fatalf("stops %v, want the job killed when the lease ran out", stops)
		}
		w.machine.set(func() {
			if len(w.machine.renewals) < 3 {
				t.Errorf("job proxies were given a lease %d times", len(w.machine.renewals))
			}
			for _, left := range w.machine.renewals {
				if left <= 0 || left > 5*time.Second {
					t.Errorf("job proxies were given a lease of %v", left)
				}
			}
		})
		w.send(plan(3, 8, granted("k", 9)))
		if w.starts("k") != 0 {
			t.Error("a job was started without a lease")
		}
		w.plane.set(func() { w.plane.silent = false })
		w.advance(30 * time.Second)
		w.want("j:aborted:node_offline")
		if w.starts("k") != 0 {
			t.Error("an order that came without a lease was followed later")
		}
		w.send(plan(3, 8, granted("k", 9)))
		if w.starts("k") != 1 {
			t.Error("a node that has come back does not take jobs")
		}
		if n := w.logs.count("the lease ran out"); n != 1 {
			t.Errorf("the end of the lease was logged %d times", n)
		}
	})
}

func TestAgentKeepsJobsAcrossLeaders(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		w.plane.set(func() {
			w.plane.term = 4
			w.plane.answer = func(replica string, _ proto.Message) (proto.Message, error) {
				if replica == "r1" {
					return nil, remote.ErrPeerGone
				}
				return nil, nil
			}
		})
		w.advance(20 * time.Second)
		if stops := w.stops("j"); len(stops) != 0 {
			t.Fatalf("the job did not live through a change of leader: %v", stops)
		}
		w.exit("j", 0)
		w.advance(3 * time.Second)
		w.want("j:completed")
		w.send(plan(3, 99, granted("old", 9)))
		if w.starts("old") != 0 || w.logs.count("plan refused") != 1 || w.logs.count("token 3.99") != 1 {
			t.Errorf("a leader of the past was followed: %v", w.logs.text)
		}
	})
}

// brokenJournal takes nothing any more once its disk is full.
type brokenJournal struct {
	records
	full atomic.Bool
}

func (j *brokenJournal) Append(done func(error), records ...*journalpb.Record) {
	if j.full.Load() {
		go done(fmt.Errorf("write journal: %w", journal.ErrFull))
		return
	}
	j.records.Append(done, records...)
}

// TestAgentEndsWhenItsJournalDoes fills the disk: nothing is done any more that the
// journal does not know, and the job goes on for the next process.
func TestAgentEndsWhenItsJournalDoes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kill()
		log, found, err := journal.Open(journal.Config{Path: w.journalFile(), Node: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		broken := &brokenJournal{records: log}
		w.agent, err = start(w.system, &agentActor{
			cfg: w.cfg, processes: w.machine, replicas: w.plane, folder: folder{w.cfg.StateDir},
			roster: NewRoster(w.cfg.Seeds, nil), journal: broken,
		}, found.State)
		if err != nil {
			t.Fatal(err)
		}
		w.advance(10 * time.Millisecond)
		w.send(plan(3, 7, granted("j", 9)))
		broken.full.Store(true)
		asked := w.asks("JobSpecRequest")
		w.send(plan(3, 8, granted("k", 9)))
		<-w.agent.Done()
		if err := w.agent.Err(); !errors.Is(err, journal.ErrFull) || w.logs.count("the disk is full") != 1 {
			t.Errorf("ended with %v, logs %v; want the full disk named once", err, w.logs.text)
		}
		if w.starts("k") != 0 || w.asks("JobSpecRequest") != asked {
			t.Error("an order was followed that the journal does not know")
		}
		if stops := w.stops("j"); len(stops) != 0 {
			t.Errorf("stops %v, want the job to go on", stops)
		}
		w.machine.leave()
		w.start()
		w.advance(2 * time.Second)
		w.exit("j", 0)
		w.want("j:completed")
	})
}

// TestAgentAdoptsItsJobs kills the agent with jobs in each phase and starts it again.
func TestAgentAdoptsItsJobs(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				switch m := msg.(type) {
				case *actorpb.JobSpecRequest:
					if m.GetJobId() == "waits" {
						return &actorpb.Refused{Code: "unavailable"}, nil
					}
				case *actorpb.JobEnded:
					if m.GetJob().GetJobId() == "told" {
						return &actorpb.Refused{Code: "unavailable"}, nil
					}
				}
				return nil, nil
			}
		})
		w.send(plan(3, 7, granted("runs", 9), granted("waits", 9), granted("told", 9), granted("over", 9), granted("meanwhile", 9)))
		w.exit("over", 0)
		w.exit("told", 7)
		w.want("over:completed")
		w.kill()
		// While there is no agent, one job ends, and one appears that nobody granted.
		w.machine.set(func() {
			w.machine.runs["meanwhile"].end("exited", "", 0)
			w.machine.runs["stray"] = &fakeRun{machine: w.machine, id: "stray", events: make(chan runner.Event, 16)}
			clear(w.machine.started)
			w.machine.renewals = nil
		})
		w.plane.set(func() {
			w.plane.answer = nil
			clear(w.plane.phases)
		})
		w.start()
		w.advance(time.Second)
		w.want("over:completed told:failed meanwhile:completed")
		if e := w.result(1); e.GetJob().GetExitCode() != 7 || string(e.GetStderrTail()) != "boom" || e.GetIncarnation() != 9 {
			t.Errorf("result %v, want what the killed process knew", e)
		}
		if got := w.phases("runs"); got != "running" {
			t.Errorf("heartbeats said %q of a job that runs", got)
		}
		w.machine.set(func() {
			if !slices.Equal(w.machine.discarded, []string{"stray"}) {
				t.Errorf("discarded %v, want the job that the journal does not know", w.machine.discarded)
			}
			if len(w.machine.started) != 0 || len(w.machine.renewals) == 0 {
				t.Errorf("started %v, %d renewals; want no job started, and the lease renewed", w.machine.started, len(w.machine.renewals))
			}
		})
		// What never started is started when the leader still wants it; what was had
		// is not, though its grant is replayed.
		if w.phases("waits") != "" {
			t.Error("a job that never started is held")
		}
		w.send(plan(3, 7, granted("runs", 9), granted("waits", 9), granted("over", 9)))
		if w.starts("waits") != 1 || w.starts("runs") != 0 || w.starts("over") != 0 {
			t.Errorf("starts %v", w.machine.started)
		}
		w.send(plan(2, 99, granted("old", 9)))
		w.exit("runs", 0)
		w.exit("waits", 0)
		w.advance(3 * time.Second)
		w.kill()
		s := w.journal()
		if len(s.Jobs) != 0 || s.Token != (scheduling.Token{Term: 3, Index: 7}) || len(s.Had) != 5 || s.Life != 9 {
			t.Errorf("journal: jobs %v, token %v, had %v", s.Jobs, s.Token, s.Had)
		}
		var rejected []string
		for _, r := range s.Rejections {
			rejected = append(rejected, fmt.Sprint(r.GetRejected().GetJobId(), " ", r.GetRejected().GetToken().GetTerm(), " ", r.GetRejected().GetSeen().GetTerm()))
		}
		if !slices.Equal(rejected, []string{"over 3 3", " 2 3"}) {
			t.Errorf("rejected %q, want the replayed grant and the order of a former leader", rejected)
		}
	})
}

// TestAgentSaysWhichProcessItIs in each question to a leader.
func TestAgentSaysWhichProcessItIs(t *testing.T) {
	inWorld(t, func(w *world) {
		type who struct{ life, session uint64 }
		var said []who
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				var now who
				switch m := msg.(type) {
				case *actorpb.RegisterAgent:
					now = who{m.GetIncarnation(), m.GetSession()}
				case *actorpb.Heartbeat:
					now = who{m.GetIncarnation(), m.GetSession()}
				}
				if len(said) == 0 || said[len(said)-1] != now {
					said = append(said, now)
				}
				return nil, nil
			}
		})
		for range 2 {
			w.advance(3 * time.Second)
			w.kill()
			w.start()
		}
		w.advance(3 * time.Second)
		w.plane.set(func() {
			if len(said) != 3 || said[0].life != 9 || said[1].life != 9 || said[2].life != 9 ||
				said[0].session >= said[1].session || said[1].session >= said[2].session {
				t.Errorf("said %v, want one life and a greater session for each process", said)
			}
		})
	})
}

// TestAgentComesBackAfterTheLease finds that its job's proxy has ended the job.
func TestAgentComesBackAfterTheLease(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		w.kill()
		w.advance(10 * time.Second)
		w.machine.set(func() { w.machine.runs["j"].end("lease_expired", "", -1) })
		w.start()
		w.advance(2 * time.Second)
		w.want("j:aborted:node_offline")
		if w.starts("j") != 1 {
			t.Errorf("started %d times", w.starts("j"))
		}
	})
}

// TestAgentLostItsJobs comes back with its journal and nothing else.
func TestAgentLostItsJobs(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		w.kill()
		w.machine.set(func() { clear(w.machine.runs) })
		w.start()
		w.advance(2 * time.Second)
		w.want("j:aborted:disappeared_from_node")
	})
}

// TestEachEndIsInTheJournalOnce reads the records of a job's life over two processes.
func TestEachEndIsInTheJournalOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		w.kill()
		if job := w.journal().Jobs["j"]; job == nil || job.Starting.GetSpec().GetJobId() != "j" || job.Started.GetPid() != 42 || job.Exited != nil {
			t.Errorf("journal of a running job: %+v", job)
		}
		w.start()
		w.advance(time.Second)
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				if _, ok := msg.(*actorpb.JobEnded); ok {
					return nil, remote.ErrTimeout
				}
				return nil, nil
			}
		})
		w.exit("j", 7)
		w.kill()
		before := w.journal().Jobs["j"]
		if before.Exited.GetJob().GetExitCode() != 7 || string(before.Exited.GetStderrTail()) != "boom" {
			t.Errorf("journal of an ended job: %+v", before)
		}
		w.plane.set(func() { w.plane.answer = nil })
		w.start()
		w.advance(time.Second)
		w.want("j:failed")
		if !proto.Equal(w.result(0).GetJob(), before.Exited.GetJob()) {
			t.Errorf("told %v, want what is in the journal", w.result(0).GetJob())
		}
	})
}

func TestAgentAborts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				if m, ok := msg.(*actorpb.JobSpecRequest); ok && m.GetJobId() == "waits" {
					return &actorpb.Refused{Code: "unavailable"}, nil
				}
				return nil, nil
			}
		})
		w.send(plan(3, 7, granted("a", 9), granted("waits", 9), granted("c", 9)))
		w.machine.set(func() { w.machine.runs["a"].broken = 1 })
		w.send(plan(3, 8, abort("a", "preemption", 2*time.Second), abort("waits", "user_request", 0), abort("unknown", "preemption", 0)))
		w.want("waits:aborted:user_request")
		w.advance(2 * time.Second)
		w.want("waits:aborted:user_request a:aborted:preemption")
		if stops := w.stops("a"); len(stops) != 1 || !strings.HasPrefix(stops[0], "preemption ") || stops[0] == "preemption 2s" {
			t.Errorf("stops %v, want one with what is left of the grace", stops)
		}
		if m := w.result(1).GetJob().GetError().GetMessage(); m != "go" {
			t.Errorf("message %q, want the order's", m)
		}
		// Started and ended in one plan: the end is told, and nothing runs.
		w.send(plan(3, 9, granted("d", 9), abort("d", "operation_aborted", 0)))
		w.want("waits:aborted:user_request a:aborted:preemption d:aborted:operation_aborted")
		if w.starts("d") > 1 {
			t.Error("d was started")
		}
	})
}

func TestAgentRepeatsResults(t *testing.T) {
	inWorld(t, func(w *world) {
		tries := 0
		w.plane.set(func() {
			w.plane.answer = func(replica string, msg proto.Message) (proto.Message, error) {
				if _, ok := msg.(*actorpb.JobEnded); !ok {
					return nil, nil
				}
				tries++
				switch {
				case tries == 1:
					return nil, remote.ErrTimeout
				case tries == 2:
					return &actorpb.Refused{Code: "overloaded", RetryMillis: 300}, nil
				case tries == 3:
					return &actorpb.Refused{Code: "not_found"}, nil
				case replica != "r2":
					return &actorpb.ControllerFound{Controller: &actorpb.Replica{Id: "r2", Address: "r2:1"}}, nil
				}
				return nil, nil
			}
		})
		w.send(plan(3, 7, granted("j", 9)))
		r := w.run("j")
		w.exit("j", 0)
		w.machine.set(func() { r.broken = 1 })
		w.advance(10 * time.Second)
		w.want("j:completed")
		if w.released("j") {
			t.Error("released although it could not be")
		}
		w.advance(20 * time.Second)
		if !w.released("j") {
			t.Error("leftovers were not tried again")
		}
	})
}

func TestAgentDropsWhatNobodyWants(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				switch m := msg.(type) {
				case *actorpb.JobEnded:
					return &actorpb.ControllerFound{}, nil
				case *actorpb.JobSpecRequest:
					if m.GetJobId() == "unwanted" {
						return &actorpb.ControllerFound{}, nil
					}
				}
				return nil, nil
			}
		})
		w.send(plan(3, 7, granted("j", 9), granted("unwanted", 9)))
		w.exit("j", 0)
		if !w.released("j") || w.starts("unwanted") != 0 {
			t.Errorf("released %v, unwanted started %d times", w.released("j"), w.starts("unwanted"))
		}
		w.advance(2 * time.Second)
		w.plane.set(func() { clear(w.plane.phases) })
		w.advance(2 * time.Second)
		if w.phases("j")+w.phases("unwanted") != "" {
			t.Error("jobs that nobody wants are still held")
		}
	})
}

func TestAgentJobThatCannotStart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.machine.set(func() { w.machine.failure = errors.New("argv: is empty") })
		w.send(plan(3, 7, granted("j", 9)))
		w.want("j:failed")
		w.machine.set(func() { w.machine.failure = fmt.Errorf("mkdir: %w", unix.ENOSPC) })
		w.send(plan(3, 7, granted("full", 9)))
		w.want("j:failed")
		w.advance(time.Second)
		w.want("j:failed full:aborted:job_proxy_failed")
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				switch msg.(type) {
				case *actorpb.JobSpecRequest, *actorpb.FindController:
					return nil, remote.ErrTimeout
				}
				return nil, nil
			}
		})
		w.send(plan(3, 8, granted("k", 9)))
		w.advance(59 * time.Second)
		if got := w.phases("k"); got != "waiting" {
			t.Errorf("heartbeats said %q before the patience was over", got)
		}
		w.advance(time.Second)
		w.plane.set(func() { w.plane.answer = nil })
		w.advance(3 * time.Second)
		w.want("j:failed full:aborted:job_proxy_failed k:aborted:get_spec_failed")
	})
}

func TestAgentGoesOnWhenAJobsActorPanics(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9), granted("k", 9)))
		r := w.run("j")
		w.machine.set(func() { r.events <- runner.Exited{JobID: "j"} })
		w.advance(time.Second)
		w.exit("j", 0)
		w.exit("k", 0)
		w.want("j:completed k:completed")
		// A panic while the result is on its way: it is told again.
		told := 0
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				if _, ok := msg.(*actorpb.JobEnded); ok {
					if told++; told == 1 {
						return &actorpb.Refused{Code: "overloaded", RetryMillis: 1000}, nil
					}
				}
				return nil, nil
			}
		})
		w.send(plan(3, 8, granted("l", 9)))
		r = w.run("l")
		w.machine.set(func() {
			r.over = true
			r.events <- exited("exited", "", 0)
		})
		w.advance(100 * time.Millisecond)
		w.machine.set(func() {
			r.events <- runner.Exited{JobID: "l"}
			close(r.events)
		})
		w.advance(10 * time.Second)
		w.want("j:completed k:completed l:completed")
	})
}

func TestAgentCloses(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		closed := make(chan error)
		go func() { closed <- w.agent.Close(context.Background()) }()
		synctest.Wait()
		w.send(plan(3, 8, granted("k", 9)))
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if stops := w.stops("j"); !slices.Equal(stops, []string{"node_offline 1s"}) || !w.released("j") {
			t.Errorf("stops %v, released %v", stops, w.released("j"))
		}
		w.want("j:aborted:node_offline")
		if w.starts("k") != 0 {
			t.Error("a closing agent starts jobs")
		}
		<-w.agent.Done()
	})
}

func TestAgentClosesWithoutACluster(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		w.plane.set(func() { w.plane.silent = true })
		before := time.Now()
		if err := w.agent.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if took := time.Since(before); took != 5*time.Second {
			t.Errorf("took %v, want CloseTimeout", took)
		}
	})
}

func TestAgentBreaksAsAWhole(t *testing.T) {
	inWorld(t, func(w *world) {
		w.system.Root.Send(w.agent.PID(), (*remote.Inbound)(nil))
		<-w.agent.Done()
		if w.logs.count("the agent broke") != 1 {
			t.Errorf("logs %v", w.logs.text)
		}
	})
}

func TestAgentReadsOutput(t *testing.T) {
	inWorld(t, func(w *world) {
		replica := identity.Identity{Role: identity.Replica, Name: "r1"}
		read := func(from identity.Identity, msg proto.Message) proto.Message {
			answer, err := w.system.Root.RequestFuture(w.agent.PID(), &remote.Inbound{From: from, Message: msg}, time.Minute).Result()
			if err != nil {
				t.Fatal(err)
			}
			return answer.(proto.Message)
		}
		tests := map[string]struct {
			from identity.Identity
			msg  proto.Message
			want string
		}{
			"the end of a stream":      {replica, &actorpb.ReadOutput{Node: "n1", JobId: "j", Stream: "stderr", Offset: 2}, "om 4 4 true"},
			"output that is not kept":  {replica, &actorpb.ReadOutput{Node: "n1", JobId: "gone", Stream: "stderr"}, "not_found"},
			"a stream that is not one": {replica, &actorpb.ReadOutput{Node: "n1", JobId: "j", Stream: "stdin"}, "bad_request"},
			"another node":             {replica, &actorpb.ReadOutput{Node: "n2", JobId: "j", Stream: "stderr"}, "not_found"},
			"another message":          {replica, &actorpb.Propose{}, "bad_request"},
			"another agent":            {identity.Identity{Role: identity.Agent, Name: "n2"}, &actorpb.ReadOutput{Node: "n1", JobId: "j", Stream: "stderr"}, "wrong_identity"},
		}
		for name, test := range tests {
			got := ""
			switch m := read(test.from, test.msg).(type) {
			case *actorpb.OutputPart:
				got = fmt.Sprintf("%s %d %d %v", m.GetData(), m.GetNextOffset(), m.GetTotal(), m.GetEnd())
			case *actorpb.Refused:
				got = m.GetCode()
			}
			if got != test.want {
				t.Errorf("%s: got %q, want %q", name, got, test.want)
			}
		}
		w.advance(time.Millisecond)
	})
}

func TestAgentIsLoudAboutItsName(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plane.set(func() {
			w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
				switch msg.(type) {
				case *actorpb.Heartbeat:
					return &actorpb.Refused{Code: "not_registered"}, nil
				case *actorpb.RegisterAgent:
					return &actorpb.Refused{Code: "name_in_use", Reason: "another agent with this name was heard"}, nil
				}
				return nil, nil
			}
		})
		w.advance(5 * time.Second)
		if w.logs.count("ERROR the cluster refuses this agent") < 2 || w.logs.count("another agent with this name") < 2 {
			t.Errorf("logs %v", w.logs.text)
		}
		w.plane.set(func() { w.plane.answer = nil })
		w.advance(5 * time.Second)
		if w.logs.count("INFO registered") != 2 {
			t.Error("the agent did not register when it could")
		}
	})
}

func TestAgentRemembersReplicas(t *testing.T) {
	inWorld(t, func(w *world) {
		got, err := folder{path: w.cfg.StateDir}.readReplicas()
		if err != nil || !slices.Equal(got, replicas("r1", "r2")) {
			t.Errorf("remembered %v, %v; want r1 and r2", got, err)
		}
	})
}

func TestStartRefuses(t *testing.T) {
	good := func() Config {
		c := DefaultConfig()
		c.Node, c.Incarnation, c.StateDir, c.Seeds = "n1", 9, t.TempDir(), replicas("r1")
		c.Resources = resource.Amounts{UserSlots: 1, CPU: 100, Memory: 1}
		c.Logger = slog.New(slog.DiscardHandler)
		return c
	}
	tests := map[string]struct {
		change func(c *Config)
		want   string
	}{
		"no name":              {func(c *Config) { c.Node = "" }, "node: is empty"},
		"no incarnation":       {func(c *Config) { c.Incarnation = 0 }, "incarnation: is 0"},
		"negative resources":   {func(c *Config) { c.Resources.Memory = -1 }, "resources: "},
		"no slots":             {func(c *Config) { c.Resources.UserSlots = 0 }, "user_slots is 0"},
		"no memory":            {func(c *Config) { c.Resources.Memory = 0 }, "must be more than 0"},
		"no folder":            {func(c *Config) { c.StateDir = "" }, "state folder: is empty"},
		"a file for a folder":  {func(c *Config) { c.StateDir = "/dev/null/x" }, "open state folder"},
		"no replica":           {func(c *Config) { c.Seeds = nil }, "no replica is known"},
		"a seed without port":  {func(c *Config) { c.Seeds = []Replica{{"r1", "host"}} }, "must be host:port"},
		"negative output":      {func(c *Config) { c.MaxOutput = -1 }, "output limit -1"},
		"no processes":         {func(c *Config) { c.MaxPids = 0 }, "processes a job 0"},
		"no logger":            {func(c *Config) { c.Logger = nil }, "logger: is nil"},
		"a wait of nothing":    {func(c *Config) { c.Timing.SlowRetry = 0 }, "SlowRetry is 0s"},
		"waits in disorder":    {func(c *Config) { c.Timing.SeekMax = time.Millisecond }, "SeekMax is below SeekMin"},
		"reports in disorder":  {func(c *Config) { c.Timing.ReportMax = time.Millisecond }, "ReportMax is below"},
		"more grace than time": {func(c *Config) { c.Timing.CloseGrace = time.Hour }, "CloseGrace is 1h"},
		"a damaged journal": {func(c *Config) {
			if err := os.WriteFile(folder{c.StateDir}.journalFile(), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "/journal: is damaged at offset 0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := good()
			test.change(&c)
			_, err := Start(quietSystem(), c, nil, nil)
			if err == nil || !strings.HasPrefix(err.Error(), "start agent: ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error that says %q", err, test.want)
			}
		})
	}
}
