package chaosrun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"weir/chaos/history"
	"weir/cmd/poll"
	"weir/cmd/weir/internal/devcluster"
)

// runCluster lets a run act on a cluster of this machine. It implements
// chaos.Cluster.
type runCluster struct {
	reach    *devcluster.Reach
	network  *devcluster.Network
	evidence *evidence
	disks    hungDisks
	// builds are the programs that Swap alternates between, the newer ones first.
	builds [2]devcluster.Programs

	// down holds the members that the run has killed and not started again yet.
	down sync.Map
}

// Kill implements chaos.Cluster.
func (c *runCluster) Kill(_ context.Context, name string) error {
	c.down.Store(name, true)
	return devcluster.Kill(c.reach.Dir, name)
}

// swapPatience bounds how long a replica may take to hand over leadership and end: longer than most take.
const swapPatience = 5 * time.Second

// Swap implements chaos.Cluster.
func (c *runCluster) Swap(ctx context.Context, name string) error {
	record, err := devcluster.Load(c.reach.Dir)
	if err != nil {
		return err
	}
	other := c.builds[0]
	if record.Runs(name).Weir == other.Weir {
		other = c.builds[1]
	}
	return c.reassign(ctx, name, other)
}

// Upgrade implements chaos.Cluster.
func (c *runCluster) Upgrade(ctx context.Context, name string) error {
	m, err := devcluster.LoadMember(c.reach.Dir, name)
	if err != nil {
		return err
	}
	var more []string
	if m.Kind == devcluster.Replica {
		more = often
	}
	if err := c.reassign(ctx, name, c.builds[0], more...); err != nil {
		return err
	}
	return c.Start(ctx, name)
}

// reassign ends a member's process in order, and has Start start it with other programs, and more arguments than
// before.
func (c *runCluster) reassign(ctx context.Context, name string, with devcluster.Programs, more ...string) error {
	c.down.Store(name, true)
	if err := devcluster.End(ctx, c.reach.Dir, name, swapPatience); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if err := devcluster.Assign(c.reach.Dir, name, with, more...); err != nil {
		return err
	}
	if latest, err := c.process(name); err != nil || !latest.Alive() {
		return err
	}
	return devcluster.Kill(c.reach.Dir, name)
}

// Start implements chaos.Cluster.
func (c *runCluster) Start(ctx context.Context, name string) error {
	if latest, err := c.process(name); err != nil || latest.Alive() {
		// The process ended by itself before the kill, and has been restarted since.
		c.down.Delete(name)
		return err
	}
	if _, err := devcluster.StartMember(ctx, c.reach.Dir, name, devcluster.Default().ReadyTimeout); err != nil {
		return err
	}
	c.down.Delete(name)
	return nil
}

// Pause implements chaos.Cluster.
func (c *runCluster) Pause(_ context.Context, name string) error {
	return devcluster.Pause(c.reach.Dir, name)
}

// Resume implements chaos.Cluster.
func (c *runCluster) Resume(_ context.Context, name string) error {
	return devcluster.Resume(c.reach.Dir, name)
}

// Cut implements chaos.Cluster.
func (c *runCluster) Cut(a, b string) error { return c.network.Cut(a, b) }

// Mend implements chaos.Cluster.
func (c *runCluster) Mend(a, b string) error { return c.network.Mend(a, b) }

// Hang implements chaos.Cluster.
func (c *runCluster) Hang(ctx context.Context, name string) error {
	latest, err := c.process(name)
	switch {
	case err != nil:
		return err
	case !latest.Alive():
		return fmt.Errorf("hang the disk of %s: not running", name)
	}
	return c.disks.hang(ctx, name, latest.Pid)
}

// Unhang implements chaos.Cluster.
func (c *runCluster) Unhang(_ context.Context, name string) error { return c.disks.mend(name) }

// statusPatience bounds the requests to all replicas, some of which may be paused.
const statusPatience = 500 * time.Millisecond

// vote is the leader that a replica names.
type vote struct {
	leader string
	term   uint64
}

// votes returns the votes of the replicas that answer, by replica. `elected` is the leader that
// more than half of them name, if there is one.
func (c *runCluster) votes(ctx context.Context) (elected vote, by map[string]vote) {
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	answers := c.reach.StatusAll(ctx)
	by, count := make(map[string]vote), make(map[vote]int)
	for _, a := range answers {
		v := vote{a.Status.GetLeader(), a.Status.GetTerm()}
		by[a.Status.GetReplica()] = v
		if count[v]++; v.leader != "" && count[v] > len(answers)/2 {
			elected = v
		}
	}
	return elected, by
}

// Leader implements chaos.Cluster. It returns the leader that most replicas name: a single replica
// may not know the leader yet, or be cut off.
func (c *runCluster) Leader(ctx context.Context) (name string, term uint64, err error) {
	elected, _ := c.votes(ctx)
	if elected.leader == "" {
		err = ctx.Err()
	}
	return elected.leader, elected.term, err
}

// Settled implements chaos.Cluster.
func (c *runCluster) Settled(ctx context.Context, name string) bool {
	elected, by := c.votes(ctx)
	return elected.leader != "" && by[name] == elected
}

// guardPeriod is how often the members' processes are checked.
const guardPeriod = 200 * time.Millisecond

// process returns a member's latest process.
func (c *runCluster) process(name string) (devcluster.Process, error) {
	m, err := devcluster.LoadMember(c.reach.Dir, name)
	if err != nil {
		return devcluster.Process{}, err
	}
	return m.Process, nil
}

// stalled is in the last log lines of a replica that stopped because its disk hung. The run
// restarts such a replica, as a supervisor would.
const stalled = "disk stall limit"

// guard records the members that end by themselves, until ctx is done.
func (c *runCluster) guard(ctx context.Context) error {
	told := make(map[devcluster.Process]bool)
	for poll.Pause(ctx, guardPeriod) == nil {
		record, err := devcluster.Load(c.reach.Dir)
		if err != nil {
			return err
		}
		for i := range record.Members {
			m := &record.Members[i]
			if m.Process.Alive() || told[m.Process] {
				continue
			}
			unasked, err := c.unasked(m)
			if err != nil {
				return err
			}
			if !unasked {
				continue
			}
			told[m.Process] = true
			if err := c.ended(ctx, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// unasked reports whether a member's process, which has ended, ended by itself. If it did not,
// the run has killed the process, and may have started its successor since.
func (c *runCluster) unasked(m *devcluster.Member) (bool, error) {
	if c.isDown(m.Name) {
		return false, nil
	}
	latest, err := c.process(m.Name)
	return latest == m.Process, err
}

// ended records that a member ended by itself. If a hung disk was the cause, it restarts
// the member.
func (c *runCluster) ended(ctx context.Context, m *devcluster.Member) error {
	if m.Kind != devcluster.Replica || !strings.Contains(m.Tail(), stalled) {
		line := history.LogLine{Member: m.Name, Text: fmt.Sprintf("process %d ended unexpectedly; last log lines:\n%s", m.Process.Pid, m.Tail())}
		return c.evidence.Writers[history.LogFile].Write(line)
	}
	act := history.Act{What: history.Stall, Targets: []string{m.Name}, At: history.Now()}
	if err := c.evidence.Writers[history.NemesisFile].Write(act); err != nil {
		return err
	}
	// A thread that still waits for the disk keeps the replica's port in use.
	if err := c.disks.mend(m.Name); err != nil {
		return err
	}
	if err := gone(ctx, m.Process.Pid); err != nil {
		return err
	}
	if err := c.Start(ctx, m.Name); err != nil && ctx.Err() == nil && !c.isDown(m.Name) {
		return err
	}
	return nil
}

// gone waits until a process that has ended is no longer in /proc, or ctx is done.
func gone(ctx context.Context, pid int) error {
	gone := devcluster.Await(ctx, gonePatience, func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		return errors.Is(err, fs.ErrNotExist)
	})
	if !gone && ctx.Err() == nil {
		return fmt.Errorf("process %d was killed but still exists after %v", pid, gonePatience)
	}
	return nil
}

func (c *runCluster) isDown(name string) bool {
	_, down := c.down.Load(name)
	return down
}
