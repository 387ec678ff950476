package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/api/client"
	"weir/chaos/fault"
	"weir/chaos/history"
)

// Cluster is what a run acts on. Members are known by name.
type Cluster interface {
	// Kill ends a member's process with kill -9.
	Kill(ctx context.Context, name string) error
	// Start starts it anew and waits until it is up.
	Start(ctx context.Context, name string) error
	// Pause stops a process as it stands; Resume lets it go on.
	Pause(ctx context.Context, name string) error
	Resume(ctx context.Context, name string) error
	// Cut drops every packet between two members, Mend no longer.
	Cut(a, b string) error
	Mend(a, b string) error
	// Hang has the disk of a member hang, Unhang no longer. What its process waits for then
	// is done after all.
	Hang(ctx context.Context, name string) error
	Unhang(ctx context.Context, name string) error
	// Leader returns who leads, and its term, when a majority agrees.
	Leader(ctx context.Context) (name string, term uint64, err error)
	// Settled says whether a replica follows or leads.
	Settled(ctx context.Context, name string) bool
}

// Config is what a run consists of.
type Config struct {
	// Dir takes the histories.
	Dir              string
	Schedule         []fault.Fault
	Rules            fault.Config
	Replicas, Agents []string
	Clients          int
	Seed             uint64
	// Pace is the mean time between two submissions of a client.
	Pace time.Duration
	// Backlog is how many operations of a client may go on at once; further ones are
	// aborted as soon as they are accepted.
	Backlog int
	// WarmUp is how long the load lasts before the first fault.
	WarmUp time.Duration
	// Patience bounds the wait for a leader after the last fault, and then for the end of every
	// operation.
	Patience time.Duration
	// Witness is the program, and its first arguments, that becomes a witness when the
	// time that it lasts is added.
	Witness []string
}

// DefaultConfig returns a Config without folder, cluster, schedule and witness.
func DefaultConfig() Config {
	return Config{Clients: 4, Pace: 600 * time.Millisecond, Backlog: 5, WarmUp: 3 * time.Second, Patience: 90 * time.Second}
}

// Progress is how far a run has come.
type Progress struct {
	Phase string
	// Faults have begun, Of so many.
	Faults, Of int
	ByKind     map[fault.Kind]int
	// Active are the faults under way.
	Active []string
	// Submitted counts acknowledged submissions, WorstGap is between two of them, and
	// SinceLast since the last one.
	Submitted           int
	WorstGap, SinceLast time.Duration
	// InProgress counts operations, when that was last looked at, Jobs those of the nodes.
	InProgress, Jobs int
	Leader           string
	// Leaderless: no majority names one.
	Leaderless bool
}

// Run presses a cluster. When it returns, all faults are healed, whether ctx was done, something
// failed, or something panicked. It returns an error when the run itself could not be done;
// what the cluster did wrong is in the histories.
func Run(ctx context.Context, cfg Config, cluster Cluster, api *client.Client, watcher Watcher) (err error) {
	streams, err := history.CreateAll(cfg.Dir, history.ClientFile, history.NemesisFile, history.StateFile, history.GrantFile, history.HeldFile)
	if err != nil {
		return fmt.Errorf("start run: %w", err)
	}
	defer func() { err = errors.Join(err, streams.Close()) }()
	score := newScore(len(cfg.Schedule))
	n := newNemesis(cfg, cluster, streams[history.NemesisFile], watcher, score)
	// After everything else, also when ctx is done or something panics.
	defer func() { err = errors.Join(err, n.healAll(context.WithoutCancel(ctx))) }()

	showing, hide := context.WithCancel(ctx)
	var views sync.WaitGroup
	views.Go(func() { n.watchLeader(showing) })
	views.Go(func() { watchGrants(showing, api, cfg.Agents, streams[history.GrantFile], score) })
	views.Go(func() { score.show(showing, watcher) })
	defer func() { hide(); views.Wait() }()

	load := newLoad(cfg, api, streams[history.ClientFile], score)
	loading, rest := context.WithCancel(ctx)
	defer rest()
	stopped := make(chan error, 1)
	go func() { stopped <- load.run(loading) }()
	err = n.press(ctx)
	rest()
	if err := errors.Join(err, <-stopped); err != nil {
		return err
	}
	score.enter("quiet")
	if err := load.settle(ctx); err != nil {
		return err
	}
	score.enter("final reads")
	if err := readState(ctx, api, streams[history.StateFile]); err != nil {
		return err
	}
	if err := readHeld(ctx, api, cfg.Agents, streams[history.HeldFile]); err != nil {
		return err
	}
	return streams[history.NemesisFile].Write(history.Act{What: history.Finish, At: history.Now()})
}

// press does what happens under load, up to some submissions to a cluster that is well again.
func (n *nemesis) press(ctx context.Context) error {
	warmUp := func(ctx context.Context) error { return Sleep(ctx, n.cfg.WarmUp) }
	for _, phase := range []struct {
		name string
		do   func(context.Context) error
	}{{"warming up", warmUp}, {"faults", n.run}, {"healed", n.awaitLeader}, {"healed", warmUp}} {
		n.score.enter(phase.name)
		if err := phase.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Sleep waits, unless ctx is done before.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
