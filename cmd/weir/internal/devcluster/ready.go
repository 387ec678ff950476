package devcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/cmd/poll"
	"weir/cmd/weir/internal/screen"
)

// View is what a cluster reports about itself.
type View struct {
	// Leader is the id of the leading replica, "" when there is none.
	Leader string
	// Online are the names of the nodes that are online.
	Online []string
}

// Probe asks a cluster for its state.
type Probe func(ctx context.Context) (View, error)

// Progress is how far the start of a cluster has come.
type Progress struct {
	Replicas, ReplicasReady int
	Agents, AgentsOnline    int
	Leader                  string
}

// Done reports whether the cluster is ready.
func (p Progress) Done() bool {
	return p.ReplicasReady == p.Replicas && p.Leader != "" && p.AgentsOnline == p.Agents
}

// String returns the progress on one line.
func (p Progress) String() string {
	leader := p.Leader
	if leader == "" {
		leader = "none yet"
	}
	return fmt.Sprintf("replicas up %d/%d, leader %s, agents registered %d/%d", p.ReplicasReady, p.Replicas, leader, p.AgentsOnline, p.Agents)
}

// progress combines the state of the members' processes and the cluster's view.
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

// Up starts a cluster and waits until it is ready; display shows its progress. The caller stops the
// returned cluster, even if Up also returns an error. `say` reports members that end or are
// restarted.
func Up(ctx context.Context, config Config, display *screen.Screen, say func(string)) (*Cluster, error) {
	if config.Insecure {
		display.Say("INSECURE: plaintext requested; no encryption, no certificates, every caller is trusted")
	}
	c, err := Start(config, say)
	if err != nil {
		return nil, err
	}
	if c.Reach, err = OpenReach(config.Dir); err != nil {
		return c, err
	}
	bar := display.Bar("starting", int64(config.Replicas+config.Agents+1))
	defer bar.Close()
	return c, c.AwaitReady(ctx, c.Reach.View, func(p Progress) {
		done := p.ReplicasReady + p.AgentsOnline
		if p.Leader != "" {
			done++
		}
		bar.Update(int64(done), p.String())
	})
}

// errEnded is returned if a process ends before it is up.
var errEnded = errors.New("exited")

// AwaitReady waits until all replicas are up, one of them leads, and all agents are
// registered. If a process ends before that, the error shows its last log lines. `report` is
// called on every change.
func (c *Cluster) AwaitReady(ctx context.Context, probe Probe, report func(Progress)) error {
	timed, cancel := context.WithTimeout(ctx, c.config.ReadyTimeout)
	defer cancel()
	record, err := Load(c.paths.root)
	if err != nil {
		return err
	}
	members := record.Members
	var last Progress
	var probeErr error
	err = poll.Every(timed, pollPeriod, func() (bool, error) {
		for i := range members {
			if child := c.children[members[i].Name]; child != nil && child.Over() {
				return true, fmt.Errorf("%s: %w (%s); last log lines:\n%s", members[i].Name, errEnded, child.end, members[i].Tail())
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
		return now.Done(), nil
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return c.late(members, last, probeErr)
	}
	return err
}

// probeTimeout bounds one probe: the next one may find a leader.
const probeTimeout = 2 * time.Second

func askOnce(ctx context.Context, probe Probe) (View, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return probe(ctx)
}

// late returns the error of a cluster that is not ready in time: its progress, and the last
// log lines of each member.
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
