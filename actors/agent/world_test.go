package agent

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/actors/agent/journal"
	"weir/actors/agent/runner"
	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/messages/actorpb"
	"weir/scheduling/resource"
)

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
	// left is how much memory its machine has left, of 10 GiB.
	left atomic.Int64
}

func quietSystem() *actor.ActorSystem {
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
}

// testConfig is node n1's, which begins with replica r1.
func testConfig(dir string, log slog.Handler) Config {
	c := DefaultConfig()
	if os.Geteuid() == 0 {
		// What most tests are about is the same for all users.
		c.JobUser, c.AllowRootJobs = "root", true
	}
	c.Node, c.Incarnation, c.StateDir, c.Seeds = "n1", 9, dir, replicas("r1")
	c.Resources = resource.Amounts{UserSlots: 1, CPU: 100, Memory: 1 << 30}
	c.MinFree = 0
	c.Logger = slog.New(log)
	return c
}

// bubbleClock is the clock of leases of an agent in a bubble, whose time the boot does not know.
func bubbleClock() leaseClock {
	return leaseClock{bubbleTime, func(fire func()) leaseTimer { return bubbleTimer{time.AfterFunc(time.Hour, fire)} }}
}

func bubbleTime() time.Duration { return time.Duration(time.Now().UnixNano()) }

type bubbleTimer struct{ timer *time.Timer }

// Reset implements leaseTimer.
func (t bubbleTimer) Reset(d time.Duration) { t.timer.Reset(d) }

// Close implements leaseTimer.
func (t bubbleTimer) Close() error { t.timer.Stop(); return nil }

func inWorld(t *testing.T, test func(w *world)) { inWorldOn(t, t.TempDir(), test) }

// inWorldOn has the agent keep its state in dir.
func inWorldOn(t *testing.T, dir string, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, system: quietSystem(),
			plane:   &plane{term: 3, phases: map[string][]string{}},
			machine: &machine{runs: map[string]*fakeRun{}, started: map[string]int{}, specs: map[string]runner.JobSpec{}, workspaces: t.TempDir()},
			logs:    &logs{},
		}
		w.cfg = testConfig(dir, w.logs)
		w.cfg.leases = bubbleClock()
		w.left.Store(8 << 30)
		w.cfg.machine = func() (Machine, error) { return Machine{Total: 10 << 30, Available: w.left.Load()}, nil }
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

// result returns the first result of the job that was counted.
func (w *world) result(job string) *actorpb.JobEnded {
	w.t.Helper()
	w.plane.mu.Lock()
	defer w.plane.mu.Unlock()
	n := slices.IndexFunc(w.plane.ended, func(e *actorpb.JobEnded) bool { return e.GetJob().GetJobId() == job })
	if n < 0 {
		w.t.Fatalf("no result of job %s was counted", job)
	}
	return w.plane.ended[n]
}

func (w *world) exit(job string, code int) {
	w.t.Helper()
	r := w.run(job)
	w.machine.set(func() { r.end("exited", "", code) })
	w.advance(100 * time.Millisecond)
}

// results returns job:state:reason for each result that was counted, job by job:
// the jobs of a node tell of their ends side by side.
func (w *world) results() string {
	w.plane.mu.Lock()
	defer w.plane.mu.Unlock()
	var all []string
	for _, e := range w.plane.ended {
		all = append(all, strings.TrimSuffix(e.GetJob().GetJobId()+":"+e.GetJob().GetState()+":"+e.GetJob().GetAbortReason(), ":"))
	}
	return jobByJob(all)
}

func (w *world) want(results string) {
	w.t.Helper()
	if got, want := w.results(), jobByJob(strings.Fields(results)); got != want {
		w.t.Errorf("results %q, want %q", got, want)
	}
}

// jobByJob orders results by job, those of one job as they came.
func jobByJob(results []string) string {
	slices.SortStableFunc(results, func(a, b string) int {
		jobOfA, _, _ := strings.Cut(a, ":")
		jobOfB, _, _ := strings.Cut(b, ":")
		return strings.Compare(jobOfA, jobOfB)
	})
	return strings.Join(results, " ")
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

// spec returns what the job was started as.
func (w *world) spec(job string) runner.JobSpec {
	w.machine.mu.Lock()
	defer w.machine.mu.Unlock()
	return w.machine.specs[job]
}

// specced has controllers answer with a spec, for each job.
func (w *world) specced(change func(*actorpb.JobSpec)) {
	w.plane.set(func() {
		w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
			if m, ok := msg.(*actorpb.JobSpecRequest); ok {
				spec := &actorpb.JobSpec{JobId: m.GetJobId(), Argv: []string{"true"}}
				change(spec)
				return spec, nil
			}
			return nil, nil
		}
	})
}
