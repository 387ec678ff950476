package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/chaos/fault"
	"weir/chaos/history"
)

// nemesis injects the faults of its schedule into a cluster.
type nemesis struct {
	cfg     Config
	cluster Cluster
	journal *history.Writer
	watcher Watcher
	score   *score

	mu sync.Mutex
	// active are the faults in progress. over is signalled when a fault ends.
	active map[int]*injected
	over   *sync.Cond
	// broken is the first fault that could not be healed.
	broken error
}

// injected is a fault under way, and how to undo it.
type injected struct {
	fault.Fault
	targets []string
	undo    []func(context.Context) error
	once    sync.Once
}

func newNemesis(cfg Config, cluster Cluster, journal *history.Writer, watcher Watcher, score *score) *nemesis {
	n := &nemesis{cfg: cfg, cluster: cluster, journal: journal, watcher: watcher, score: score, active: make(map[int]*injected)}
	n.over = sync.NewCond(&n.mu)
	return n
}

// run injects the schedule and returns when every fault is over. A fault that must not overlap with
// active ones waits for them; all later faults are delayed by the same time.
func (n *nemesis) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, n.wake)
	defer stop()
	var healing sync.WaitGroup
	defer healing.Wait()
	start := time.Now()
	for _, f := range n.cfg.Schedule {
		if err := sleep(ctx, time.Until(start.Add(f.At))); err != nil {
			return err
		}
		if err := n.awaitTurn(ctx, f); err != nil {
			return err
		}
		if late := time.Since(start.Add(f.At)); late > 0 {
			start = start.Add(late)
		}
		i, err := n.inject(ctx, f)
		if err != nil {
			return err
		}
		healing.Go(func() {
			// When ctx is done, healAll heals the fault.
			if sleep(ctx, i.For) == nil {
				n.heal(ctx, i)
			}
		})
	}
	healing.Wait()
	return cmp.Or(n.failure(), ctx.Err())
}

// failure returns why a fault could not be healed. It returns each such error only once.
func (n *nemesis) failure() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	err := n.broken
	n.broken = nil
	return err
}

func (n *nemesis) wake() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over.Broadcast()
}

// awaitTurn waits until f may begin.
func (n *nemesis) awaitTurn(ctx context.Context, f fault.Fault) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		var active []fault.Fault
		for _, i := range n.active {
			active = append(active, i.Fault)
		}
		switch {
		case n.broken != nil:
			err := n.broken
			n.broken = nil
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case n.cfg.Rules.MayBegin(f, active):
			return nil
		}
		n.over.Wait()
	}
}

// inject begins a fault.
func (n *nemesis) inject(ctx context.Context, f fault.Fault) (*injected, error) {
	targets, err := n.aim(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("fault %d: %w", f.Seq, err)
	}
	i := &injected{Fault: f, targets: targets}
	n.mu.Lock()
	n.active[f.Seq] = i
	n.mu.Unlock()
	act := history.Act{What: history.Inject, Fault: f.Seq, Kind: string(f.Kind), Scope: string(f.Scope), Targets: targets}
	n.watcher.Say(fmt.Sprintf("%3d  %-5s %-8s %s for %.2f s", f.Seq, f.Kind, f.Scope, strings.Join(targets, " "), f.For.Seconds()))
	if err := n.strike(ctx, i); err != nil {
		// The target may have exited by itself; the fault is recorded and healed anyway.
		act.Error = err.Error()
		n.watcher.Say(fmt.Sprintf("%3d  without effect: %v", f.Seq, err))
	}
	act.At = history.Now()
	n.score.change(func(p *Progress) {
		p.Faults++
		p.ByKind[f.Kind]++
		p.Active = append(p.Active, i.label())
	})
	return i, n.journal.Write(act)
}

func (i *injected) label() string {
	return fmt.Sprintf("%s %s", i.Kind, strings.Join(i.targets, "+"))
}

// aim selects the targets of a fault.
func (n *nemesis) aim(ctx context.Context, f fault.Fault) ([]string, error) {
	busy := n.busy()
	if f.Scope == fault.Agent {
		return pick(f, n.cfg.Agents, busy)
	}
	if f.Scope == fault.Replicas {
		return slices.Clone(n.cfg.Replicas), nil
	}
	leader, err := n.leaderNow(ctx)
	if err != nil {
		return nil, err
	}
	if f.Kind == fault.Late && !busy[leader] {
		agent, err := pick(f, n.cfg.Agents, busy)
		return append([]string{leader}, agent...), err
	}
	if f.Scope == fault.Leader && !busy[leader] {
		return []string{leader}, nil
	}
	busy[leader] = true
	follower, err := pick(f, n.cfg.Replicas, busy)
	if err != nil || f.Scope != fault.Link {
		return follower, err
	}
	return []string{leader, follower[0]}, nil
}

// busy returns the members that an active fault hits.
func (n *nemesis) busy() map[string]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	busy := make(map[string]bool)
	for _, i := range n.active {
		for _, name := range i.targets {
			busy[name] = true
		}
	}
	return busy
}

func pick(f fault.Fault, from []string, busy map[string]bool) ([]string, error) {
	free := slices.DeleteFunc(slices.Clone(from), func(name string) bool { return busy[name] })
	if len(free) == 0 {
		return nil, fmt.Errorf("%s %s: no target left", f.Kind, f.Scope)
	}
	return []string{free[int(f.Pick)%len(free)]}, nil
}

// strike carries out a fault. It records how to undo each step before it takes the step.
func (n *nemesis) strike(ctx context.Context, i *injected) error {
	type act = func(ctx context.Context, name string) error
	of := n.cluster
	steps := map[fault.Kind]struct{ do, undo act }{
		fault.Kill: {of.Kill, of.Start}, fault.Pause: {of.Pause, of.Resume}, fault.Hang: {of.Hang, of.Unhang},
		fault.Swap: {of.Swap, of.Start},
	}
	switch i.Kind {
	case fault.Late:
		return n.holdBack(ctx, i)
	case fault.Cut:
		for _, pair := range n.pairs(i) {
			i.undo = append(i.undo, func(context.Context) error { return of.Mend(pair[0], pair[1]) })
			if err := of.Cut(pair[0], pair[1]); err != nil {
				return err
			}
		}
		return nil
	}
	step := steps[i.Kind]
	for _, name := range i.targets {
		i.undo = append(i.undo, func(ctx context.Context) error { return step.undo(ctx, name) })
		if err := step.do(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// holdBack cuts a leader off from an agent, and pauses it after enough time to send something.
// When another replica leads, the old leader's packets are still on their way.
func (n *nemesis) holdBack(ctx context.Context, i *injected) error {
	if len(i.targets) < 2 {
		// The leader is under another fault: there is nothing to hold back.
		return fmt.Errorf("late %s: not the leader", strings.Join(i.targets, " "))
	}
	leader, agent := i.targets[0], i.targets[1]
	i.undo = append(i.undo, func(context.Context) error { return n.cluster.Mend(leader, agent) })
	if err := n.cluster.Cut(leader, agent); err != nil {
		return err
	}
	if err := sleep(ctx, i.For/headStart); err != nil {
		return err
	}
	i.undo = append(i.undo, func(ctx context.Context) error { return n.cluster.Resume(ctx, leader) })
	return n.cluster.Pause(ctx, leader)
}

// headStart says how long the leader of a Late fault can send before it is paused: the length of
// the fault divided by headStart.
const headStart = 4

// pairs returns the connections that a cut drops: between two members, or between one and all
// others.
func (n *nemesis) pairs(i *injected) [][2]string {
	if len(i.targets) == 2 {
		return [][2]string{{i.targets[0], i.targets[1]}}
	}
	var pairs [][2]string
	for _, other := range slices.Concat(n.cfg.Replicas, n.cfg.Agents) {
		if other != i.targets[0] {
			pairs = append(pairs, [2]string{i.targets[0], other})
		}
	}
	return pairs
}

// heal undoes a fault, once, and gives the cluster time to recover. It does so even when ctx is
// done.
func (n *nemesis) heal(ctx context.Context, i *injected) {
	i.once.Do(func() {
		err := together(i.undo, func(undo func(context.Context) error) error { return undo(context.WithoutCancel(ctx)) })
		act := history.Act{What: history.Heal, Fault: i.Seq, Targets: i.targets, At: history.Now()}
		if err != nil {
			act.Error = err.Error()
			err = fmt.Errorf("heal fault %d (%s): %w", i.Seq, i.label(), err)
		}
		err = errors.Join(err, n.journal.Write(act))
		n.settle(ctx, i)
		n.score.change(func(p *Progress) {
			p.Active = slices.DeleteFunc(p.Active, func(label string) bool { return label == i.label() })
		})
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.active, i.Seq)
		n.broken = cmp.Or(n.broken, err)
		n.over.Broadcast()
	})
}

const (
	// settling bounds the wait for a replica to recover from a fault.
	settling = 15 * time.Second
	// lookPeriod is how often an awaited state is checked.
	lookPeriod = 100 * time.Millisecond
)

// settle waits until the replicas that a fault hit have recovered.
func (n *nemesis) settle(ctx context.Context, i *injected) {
	hit := slices.DeleteFunc(slices.Clone(i.targets), func(name string) bool { return !slices.Contains(n.cfg.Replicas, name) })
	n.settled(ctx, hit, settling)
}

// settled waits until all of these replicas follow or lead. It returns the name of a replica that
// does neither in time; empty if there is none.
func (n *nemesis) settled(ctx context.Context, replicas []string, within time.Duration) (unsettled string) {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for _, name := range replicas {
		for !n.cluster.Settled(limited, name) {
			if sleep(limited, lookPeriod) != nil {
				return name
			}
		}
	}
	return ""
}

// healAll undoes every fault that is under way.
func (n *nemesis) healAll(ctx context.Context) error {
	n.mu.Lock()
	left := slices.Collect(maps.Values(n.active))
	n.mu.Unlock()
	for _, i := range left {
		n.heal(ctx, i)
	}
	return n.failure()
}
