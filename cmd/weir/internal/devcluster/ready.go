package devcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// View is what a cluster says of itself.
type View struct {
	// Leader is the id of the leading replica, "" when there is none.
	Leader string
	// Online are the names of the nodes that are.
	Online []string
}

// Probe asks a cluster how it is.
type Probe func(ctx context.Context) (View, error)

// Progress is how far a cluster has come.
type Progress struct {
	Replicas, ReplicasReady int
	Agents, AgentsOnline    int
	Leader                  string
}

// Done says whether the cluster is ready.
func (p Progress) Done() bool {
	return p.ReplicasReady == p.Replicas && p.Leader != "" && p.AgentsOnline == p.Agents
}

// String says it in one line.
func (p Progress) String() string {
	leader := p.Leader
	if leader == "" {
		leader = "none yet"
	}
	return fmt.Sprintf("replicas up %d/%d, leader %s, agents registered %d/%d", p.ReplicasReady, p.Replicas, leader, p.AgentsOnline, p.Agents)
}

// progress sums up what the members and the cluster say.
func progress(members []Member, ready func(*Member) bool, view View) Progress {
	p := Progress{Leader: view.Leader}
	for i := range members {
		m := &members[i]
		switch m.Kind {
		case Replica:
			p.Replicas++
			if ready(m) {
				p.ReplicasReady++
			}
		case Agent:
			p.Agents++
			if slices.Contains(view.Online, m.Name) {
				p.AgentsOnline++
			}
		}
	}
	return p
}

// errEnded is returned when a process ends that should not.
var errEnded = errors.New("exited")

// AwaitReady waits until the cluster has a leader and all agents are registered.
// A process that ends before is an error that shows its last words. report is told
// whenever something has changed.
func (c *Cluster) AwaitReady(ctx context.Context, probe Probe, report func(Progress)) error {
	timed, cancel := context.WithTimeout(ctx, c.config.ReadyTimeout)
	defer cancel()
	members, err := c.Members()
	if err != nil {
		return err
	}
	var last Progress
	var probeErr error
	for {
		for i := range members {
			if child := c.children[members[i].Name]; child != nil && child.over() {
				return fmt.Errorf("%s: %w (%s); last log lines:\n%s", members[i].Name, errEnded, child.end, members[i].Tail())
			}
		}
		var view View
		now := progress(members, (*Member).Ready, view)
		if now.ReplicasReady == now.Replicas {
			view, probeErr = askOnce(timed, probe)
			now = progress(members, (*Member).Ready, view)
		}
		if now != last {
			last = now
			report(now)
		}
		if now.Done() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timed.Done():
			return c.late(members, last, probeErr)
		case <-time.After(pollPeriod):
		}
	}
}

// probeTimeout bounds one question: the next one may meet a leader.
const probeTimeout = 2 * time.Second

func askOnce(ctx context.Context, probe Probe) (View, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return probe(ctx)
}

// late says what a cluster that is not ready in time waits for.
func (c *Cluster) late(members []Member, last Progress, probeErr error) error {
	var b strings.Builder
	fmt.Fprintf(&b, "not ready after %v: %s", c.config.ReadyTimeout, last)
	if probeErr != nil {
		fmt.Fprintf(&b, "; the last answer: %v", probeErr)
	}
	for i := range members {
		fmt.Fprintf(&b, "\nlast log lines of %s:\n%s", members[i].Name, members[i].Tail())
	}
	return errors.New(b.String())
}
