package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"connectrpc.com/connect"

	"weir/chaos/history"
	"weir/cmd/weir/internal/devcluster"
	"weir/messages/apipb"
)

// chaosCluster lets a run act on a cluster of this machine. It implements
// chaos.Cluster.
type chaosCluster struct {
	reach    *devReach
	network  *devcluster.Network
	evidence *evidence

	mu sync.Mutex
	// down are the members that do not run because the run wants it so.
	down map[string]bool
}

func (c *chaosCluster) planned(name string, down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down[name] = down
}

// Kill implements chaos.Cluster.
func (c *chaosCluster) Kill(name string) error {
	c.planned(name, true)
	return devcluster.Kill(c.reach.dir, name)
}

// Start implements chaos.Cluster.
func (c *chaosCluster) Start(ctx context.Context, name string) error {
	if _, err := devcluster.StartMember(ctx, c.reach.dir, name, devcluster.Default().ReadyTimeout); err != nil {
		return err
	}
	c.planned(name, false)
	return nil
}

// Pause implements chaos.Cluster.
func (c *chaosCluster) Pause(name string) error { return devcluster.Pause(c.reach.dir, name) }

// Resume implements chaos.Cluster.
func (c *chaosCluster) Resume(name string) error { return devcluster.Resume(c.reach.dir, name) }

// Cut implements chaos.Cluster.
func (c *chaosCluster) Cut(a, b string) error { return c.network.Cut(a, b) }

// Mend implements chaos.Cluster.
func (c *chaosCluster) Mend(a, b string) error { return c.network.Mend(a, b) }

// statusPatience bounds a question to one replica, which may be paused.
const statusPatience = 500 * time.Millisecond

// status asks one replica; nil when it does not answer.
func (r *devReplica) status(ctx context.Context) *apipb.StatusResponse {
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	res, err := r.cluster.Status(ctx, connect.NewRequest(&apipb.StatusRequest{}))
	if err != nil {
		return nil
	}
	return res.Msg
}

// Leader implements chaos.Cluster: it asks every replica, for one alone may not know
// yet, or be cut off.
func (c *chaosCluster) Leader(ctx context.Context) (name string, term uint64, err error) {
	answers := make([]*apipb.StatusResponse, len(c.reach.replicas))
	var all sync.WaitGroup
	for i := range c.reach.replicas {
		all.Go(func() { answers[i] = c.reach.replicas[i].status(ctx) })
	}
	all.Wait()
	type vote struct {
		leader string
		term   uint64
	}
	votes := make(map[vote]int)
	for _, a := range answers {
		v := vote{a.GetLeader(), a.GetTerm()}
		if votes[v]++; v.leader != "" && votes[v] > len(answers)/2 {
			return v.leader, v.term, nil
		}
	}
	return "", 0, ctx.Err()
}

// Settled implements chaos.Cluster.
func (c *chaosCluster) Settled(ctx context.Context, name string) bool {
	leader, term, err := c.Leader(ctx)
	if err != nil || leader == "" {
		return false
	}
	for i := range c.reach.replicas {
		if r := &c.reach.replicas[i]; r.id == name {
			own := r.status(ctx)
			return own.GetLeader() == leader && own.GetTerm() == term
		}
	}
	return false
}

// guardPeriod is how often processes are looked at.
const guardPeriod = 200 * time.Millisecond

// guard writes down which members end by themselves, until ctx is done.
func (c *chaosCluster) guard(ctx context.Context) error {
	told := make(map[devcluster.Process]bool)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(guardPeriod):
		}
		record, err := devcluster.Load(c.reach.dir)
		if err != nil {
			return err
		}
		for i := range record.Members {
			m := &record.Members[i]
			if m.Process.Alive() || told[m.Process] {
				continue
			}
			c.mu.Lock()
			planned := c.down[m.Name]
			c.mu.Unlock()
			if planned {
				continue
			}
			told[m.Process] = true
			line := history.LogLine{Member: m.Name, Text: fmt.Sprintf("its process %d ended unasked; its last words:\n%s", m.Process.Pid, m.Tail())}
			if err := c.evidence.log.Write(line); err != nil {
				return err
			}
		}
	}
}
