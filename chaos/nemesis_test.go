package chaos

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/chaos/fault"
	"weir/chaos/history"
)

// paper is a cluster that notes what is done to it: "kill r1" until "start r1".
type paper struct {
	mu     sync.Mutex
	leader string
	did    []string
	// broken are what lasts; failing is an act that fails.
	broken  map[string]int
	failing string
	// starting is how long a start takes.
	starting time.Duration
}

func (p *paper) act(what, breaks string, by int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.did = append(p.did, what)
	p.broken[breaks] += by
	if what == p.failing {
		return errors.New("it does not run")
	}
	return nil
}

func (p *paper) Kill(_ context.Context, name string) error { return p.act("kill "+name, name, 1) }
func (p *paper) Start(ctx context.Context, name string) error {
	if err := sleep(ctx, p.starting); err != nil {
		return err
	}
	return p.act("start "+name, name, -1)
}
func (p *paper) Pause(_ context.Context, name string) error  { return p.act("pause "+name, name, 1) }
func (p *paper) Resume(_ context.Context, name string) error { return p.act("resume "+name, name, -1) }
func (p *paper) Hang(_ context.Context, name string) error   { return p.act("hang "+name, name, 1) }
func (p *paper) Unhang(_ context.Context, name string) error { return p.act("unhang "+name, name, -1) }
func (p *paper) Swap(_ context.Context, name string) error   { return p.act("swap "+name, name, 1) }
func (p *paper) Upgrade(_ context.Context, name string) error {
	return p.act("upgrade "+name, name, 0)
}
func (p *paper) Cut(a, b string) error  { return p.act("cut "+a+"-"+b, a+"-"+b, 1) }
func (p *paper) Mend(a, b string) error { return p.act("mend "+a+"-"+b, a+"-"+b, -1) }
func (p *paper) Leader(context.Context) (string, uint64, error) {
	return p.leader, 7, nil
}
func (p *paper) Settled(context.Context, string) bool { return true }

// lasting is what has not been undone.
func (p *paper) lasting() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for what, count := range p.broken {
		if count != 0 {
			out = append(out, fmt.Sprint(what, " ", count))
		}
	}
	return out
}

// quiet is a Watcher that looks away.
type quiet struct{}

func (quiet) Say(string)    {}
func (quiet) Show(Progress) {}

// press runs a schedule against a cluster until it is over, or for some time.
func press(t *testing.T, cluster *paper, schedule []fault.Fault, longest time.Duration) ([]history.Act, error) {
	t.Helper()
	dir := t.TempDir()
	journal, err := history.Create(filepath.Join(dir, history.NemesisFile))
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Schedule, cfg.Replicas, cfg.Agents = schedule, []string{"r1", "r2", "r3"}, []string{"n1", "n2", "n3"}
	cfg.Rules = fault.Config{Replicas: 3, Agents: 3}
	n := newNemesis(cfg, cluster, journal, quiet{}, newScore(len(schedule)))
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	pressed := n.run(ctx)
	if err := errors.Join(n.healAll(t.Context()), journal.Close()); err != nil {
		t.Errorf("heal: %v", err)
	}
	run, err := history.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return run.Acts, pressed
}

func TestNemesis(t *testing.T) {
	for name, test := range map[string]struct {
		kind  fault.Kind
		scope fault.Scope
		pick  uint32
		want  string
	}{
		"a leader is killed":        {fault.Kill, fault.Leader, 5, "kill r2, start r2"},
		"a follower is paused":      {fault.Pause, fault.Follower, 1, "pause r3, resume r3"},
		"an agent's disk hangs":     {fault.Hang, fault.Agent, 4, "hang n2, unhang n2"},
		"a leader and one follower": {fault.Cut, fault.Link, 0, "cut r2-r1, mend r2-r1"},
		"an agent is alone": {
			fault.Cut, fault.Agent, 0, "cut n1-r1, cut n1-r2, cut n1-r3, cut n1-n2, cut n1-n3, mend n1-n2, mend n1-n3, mend n1-r1, mend n1-r2, mend n1-r3",
		},
		"all replicas at once":      {fault.Kill, fault.Replicas, 0, "kill r1, kill r2, kill r3, start r1, start r2, start r3"},
		"a leader's words are late": {fault.Late, fault.Leader, 2, "cut r2-n3, pause r2, mend r2-n3, resume r2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := &paper{leader: "r2", broken: make(map[string]int)}
				acts, err := press(t, cluster, []fault.Fault{{Seq: 1, Kind: test.kind, Scope: test.scope, Pick: test.pick, For: time.Second}}, time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				// What is undone is undone at once, in any order.
				half := slices.IndexFunc(cluster.did, func(act string) bool {
					return slices.Contains([]string{"start", "resume", "unhang", "mend"}, strings.Fields(act)[0])
				})
				slices.Sort(cluster.did[half:])
				if got := strings.Join(cluster.did, ", "); got != test.want {
					t.Errorf("did %s; want %s", got, test.want)
				}
				if len(acts) != 2 || acts[0].What != history.Inject || acts[1].What != history.Heal || acts[0].Error != "" {
					t.Errorf("wrote down %+v", acts)
				}
			})
		})
	}
}

// Whatever breaks a run off, and when: what has been done is undone.
func TestNemesisHeals(t *testing.T) {
	schedule := []fault.Fault{
		{Seq: 1, Kind: fault.Cut, Scope: fault.Agent, For: time.Minute},
		{Seq: 2, Kind: fault.Late, Scope: fault.Leader, Pick: 1, At: time.Second, For: 4 * time.Second},
		{Seq: 3, Kind: fault.Kill, Scope: fault.Replicas, At: 20 * time.Second, For: time.Second},
	}
	for name, longest := range map[string]time.Duration{
		"in the first": time.Second / 2, "while a leader may still speak": 1500 * time.Millisecond, "while it is paused": 3 * time.Second, "while one waits for its turn": 30 * time.Second,
		"while one is healed": 62 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := &paper{leader: "r2", broken: make(map[string]int), starting: 5 * time.Second}
				if _, err := press(t, cluster, schedule, longest); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("run: %v", err)
				}
				if left := cluster.lasting(); len(left) > 0 || len(cluster.did) == 0 {
					t.Errorf("%v last after %v", left, cluster.did)
				}
			})
		})
	}
}

// A fault that hits nothing is written down as such, and undone all the same.
func TestNemesisWithoutEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := &paper{leader: "r2", broken: make(map[string]int), failing: "kill n1"}
		acts, err := press(t, cluster, []fault.Fault{{Seq: 1, Kind: fault.Kill, Scope: fault.Agent, For: time.Second}}, time.Hour)
		if err != nil || len(acts) != 2 || !strings.Contains(acts[0].Error, "it does not run") {
			t.Errorf("%v, %+v", err, acts)
		}
		if left := cluster.lasting(); len(left) > 0 {
			t.Errorf("%v last", left)
		}
	})
}
