package rolling

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"weir/cmd/poll"
	"weir/cmd/weir/internal/devcluster"
)

// Upgrade replaces the programs of every process of the cluster in a folder.
type Upgrade struct {
	// Dir is the folder of the cluster; With are the programs to replace its own by.
	Dir  string
	With devcluster.Programs
	// Stop and Ready bound how long a process may take to stop, and to be up and to follow again.
	Stop, Ready time.Duration
	// Say shows a line.
	Say func(string)

	reach *devcluster.Reach
	meter *Meter
	worst time.Duration
}

// probePool is the pool whose weight is changed meanwhile.
const probePool = "weir-dev-upgrade"

// Run replaces the programs of agents, then those of followers; then leadership is handed over, and
// the replica that led comes last. Whenever it stops, each process has either build, which may go on
// as it is.
func (u *Upgrade) Run(ctx context.Context) (err error) {
	alone, err := devcluster.TryLock(devcluster.SettingsFile(u.Dir))
	switch {
	case err != nil:
		return err
	case alone == nil:
		return fmt.Errorf("upgrade the cluster in %s: another weir dev upgrade is at work", u.Dir)
	}
	defer alone.Close()
	record, err := devcluster.Load(u.Dir)
	if err != nil {
		return err
	}
	if u.reach, err = devcluster.OpenReach(u.Dir); err != nil {
		return err
	}
	defer u.reach.Close()
	leader, err := u.reach.Leader(ctx)
	if err == nil {
		err = u.possible(ctx)
	}
	if err != nil {
		return err
	}
	if u.meter, err = NewMeter(ctx, u.reach.Client, probePool); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.meter.Close(context.WithoutCancel(ctx))) }()
	before := record.Runs(leader)
	for _, name := range order(record.Members, leader) {
		if err := u.replace(ctx, name, name == leader); err != nil {
			return err
		}
	}
	u.Say(fmt.Sprintf("all processes run %s; %d writes were acknowledged, none failed; the longest pause of writes was %s", u.With.Weir, u.meter.Count(), seconds(u.worst)))
	if before.Weir != u.With.Weir {
		u.Say("to go back: weir dev upgrade --from " + filepath.Dir(before.Weir))
	}
	return nil
}

// possible returns an error if the programs are too old for the cluster.
func (u *Upgrade) possible(ctx context.Context) error {
	st, err := u.reach.Status(ctx)
	if err != nil {
		return err
	}
	newest, err := u.With.Newest(ctx)
	if err == nil && newest < st.GetClusterVersion() {
		err = fmt.Errorf("%s is too old: it works with cluster version %d, but the cluster has version %d, and there is no way back: nothing was replaced", u.With.Weir, newest, st.GetClusterVersion())
	}
	return err
}

// order returns the names of the members in the order in which they are replaced.
func order(members []devcluster.Member, leader string) []string {
	rank := func(m devcluster.Member) int {
		switch {
		case m.Kind == devcluster.Agent:
			return 0
		case m.Name != leader:
			return 1
		}
		return 2
	}
	sorted := slices.Clone(members)
	slices.SortStableFunc(sorted, func(a, b devcluster.Member) int { return rank(a) - rank(b) })
	names := make([]string, len(sorted))
	for i, m := range sorted {
		names[i] = m.Name
	}
	return names
}

// replace replaces the programs of a member and waits until it does its work again.
func (u *Upgrade) replace(ctx context.Context, name string, leads bool) error {
	if leads {
		if err := u.handOver(ctx, name); err != nil {
			return err
		}
	}
	return u.step(ctx, name+" replaced", func(ctx context.Context) error {
		// A client whose call is cut off tries another replica: an agent, or a follower, need not be told.
		process, err := devcluster.Replace(ctx, u.Dir, name, u.With, u.Stop, u.Ready)
		if err != nil {
			return err
		}
		return u.settled(ctx, name, process)
	})
}

// handOver has another replica lead, unless there is none.
func (u *Upgrade) handOver(ctx context.Context, from string) error {
	replicas, err := u.reach.Replicas()
	if err != nil || len(replicas) == 1 {
		return err
	}
	return u.step(ctx, "leadership of "+from+" handed over", func(ctx context.Context) error {
		_, err := u.reach.Transfer(ctx, "")
		return err
	})
}

// step does a part of the work, and says how long it took and for how long writes paused.
func (u *Upgrade) step(ctx context.Context, what string, do func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, u.Stop+u.Ready)
	defer cancel()
	began := time.Now()
	if err := do(limited); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	took := time.Since(began)
	pause, err := u.meter.Pause(limited, began)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	u.worst = max(u.worst, pause)
	u.Say(fmt.Sprintf("%s in %s; writes paused for %s at most", what, seconds(took), seconds(pause)))
	return nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// settlePeriod is how often a replica or a node is looked at that is to be back.
const settlePeriod = 50 * time.Millisecond

// settled waits until a replica follows and has all that was committed before, or an agent is
// registered.
func (u *Upgrade) settled(ctx context.Context, name string, process devcluster.Process) error {
	began := time.Now()
	replicas, err := u.reach.Replicas()
	if err != nil {
		return err
	}
	missing := errors.New("nothing is known of it")
	err = poll.Every(ctx, settlePeriod, func() (bool, error) {
		if !process.Alive() {
			return false, fmt.Errorf("process %d has ended: weir dev start %s restarts it; its log says why", process.Pid, name)
		}
		if _, replica := replicas[name]; replica {
			// The answer has all that was committed before the question.
			missing = u.reach.ReadAt(ctx, name)
		} else {
			missing = u.registered(ctx, name, began)
		}
		return missing == nil, nil
	})
	if err != nil && missing != nil {
		return fmt.Errorf("%w: %w", err, missing)
	}
	return err
}

// registered returns why a node is not back yet: what it says counts if it came after its process was
// started.
func (u *Upgrade) registered(ctx context.Context, name string, since time.Time) error {
	node, err := u.reach.GetNode(ctx, name)
	switch {
	case err != nil:
		return err
	case !node.GetNode().GetLastHeartbeat().AsTime().After(since):
		return fmt.Errorf("no heartbeat of node %s yet", name)
	}
	return nil
}
