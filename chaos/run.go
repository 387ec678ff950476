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

// Cluster is the cluster that a run acts on. Members are addressed by name.
type Cluster interface {
	// Kill ends a member's process with kill -9.
	Kill(ctx context.Context, name string) error
	// Start restarts it and waits until it is up.
	Start(ctx context.Context, name string) error
	// Swap ends a member's process in order, and has Start start the other of two builds from then on.
	Swap(ctx context.Context, name string) error
	// Upgrade restarts a member in order as the newer of two builds, and waits until it is up.
	Upgrade(ctx context.Context, name string) error
	// Pause stops a process where it is; Resume continues it.
	Pause(ctx context.Context, name string) error
	Resume(ctx context.Context, name string) error
	// Cut drops every packet between two members; Mend ends that.
	Cut(a, b string) error
	Mend(a, b string) error
	// Hang makes the disk of a member hang. Unhang ends that, and pending writes of its process
	// complete.
	Hang(ctx context.Context, name string) error
	Unhang(ctx context.Context, name string) error
	// Leader returns the leader and its term, if a majority agrees on them.
	Leader(ctx context.Context) (name string, term uint64, err error)
	// Settled says whether a replica follows or leads.
	Settled(ctx context.Context, name string) bool
}

// Config configures a run.
type Config struct {
	// Dir is the folder for the histories.
	Dir              string
	Schedule         []fault.Fault
	Rules            fault.Config
	Replicas, Agents []string
	Clients          int
	Seed             uint64
	// Simulated are the nodes of the tree Simulated.
	Simulated []string
	// Pace is the mean time between two submissions of a client.
	Pace time.Duration
	// Backlog is how many operations of a client may be open at once; further ones are aborted
	// as soon as they are accepted.
	Backlog int
	// WarmUp is how long the load lasts before the first fault.
	WarmUp time.Duration
	// Patience bounds the wait for a leader after the last fault, and then for the end of every
	// operation.
	Patience time.Duration
	// Upgrade says that there are two builds: at the end all members get the newer one, and the cluster its version.
	Upgrade bool
	// Witness is the command line of a witness, without its last argument, which says how long the
	// witness lasts.
	Witness []string
	// Users lets the run act as users.
	Users Users
}

// DefaultConfig returns a Config without folder, cluster, schedule and witness.
func DefaultConfig() Config {
	return Config{Clients: 4, Pace: 600 * time.Millisecond, Backlog: 5, WarmUp: 3 * time.Second, Patience: 90 * time.Second}
}

// Progress is the progress of a run.
type Progress struct {
	Phase string
	// Faults is how many faults have begun. Of is how many the run has.
	Faults, Of int
	ByKind     map[fault.Kind]int
	// Active are the faults under way.
	Active []string
	// Submitted counts acknowledged submissions. WorstGap is the longest time between two of
	// them. SinceLast is the time since the last of them.
	Submitted           int
	WorstGap, SinceLast time.Duration
	// InProgress counts open operations, as last read. Jobs counts the jobs on all nodes.
	InProgress, Jobs int
	Leader           string
	// Leaderless says that no majority agrees on a leader.
	Leaderless bool
}

// Run injects faults into a cluster under load. When it returns, all faults are healed, even
// after an error, a panic or the end of ctx. An error means that the run itself failed; what
// the cluster did wrong is in the histories.
func Run(ctx context.Context, cfg Config, cluster Cluster, api *client.Client, watcher Watcher) (err error) {
	streams, err := history.CreateAll(cfg.Dir, history.ClientFile, history.NemesisFile, history.StateFile, history.GrantFile, history.HeldFile,
		history.AskFile, history.RightsFile, history.DeedFile, history.HashFile, history.SimulatedFile)
	if err != nil {
		return fmt.Errorf("start run: %w", err)
	}
	defer func() { err = errors.Join(err, streams.Close()) }()
	score := newScore(len(cfg.Schedule))
	n := newNemesis(cfg, cluster, streams[history.NemesisFile], watcher, score)
	// After everything else, also when ctx is done or something panics.
	defer func() { err = errors.Join(err, n.healAll(context.WithoutCancel(ctx))) }()

	load, err := newLoad(ctx, cfg, api, streams, score)
	if err != nil {
		return fmt.Errorf("start run: %w", err)
	}
	showing, hide := context.WithCancel(ctx)
	var views sync.WaitGroup
	views.Go(func() { n.watchLeader(showing) })
	views.Go(func() { watchGrants(showing, api, cfg.Agents, streams[history.GrantFile], score, &load.targets) })
	views.Go(func() { score.show(showing, watcher) })
	defer func() { hide(); views.Wait() }()

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
	if cfg.Upgrade {
		score.enter("upgrade")
		if err := n.upgrade(ctx, api); err != nil {
			return err
		}
	}
	score.enter("final reads")
	if err := readState(ctx, api, streams[history.StateFile]); err != nil {
		return err
	}
	if err := readDeeds(ctx, api, streams[history.DeedFile], streams[history.NemesisFile]); err != nil {
		return err
	}
	if err := readHeld(ctx, api, cfg.Agents, streams[history.HeldFile]); err != nil {
		return err
	}
	if err := readNodes(ctx, api, cfg.Simulated, streams[history.SimulatedFile]); err != nil {
		return err
	}
	if err := readHashes(ctx, api, cfg.Replicas, streams[history.HashFile]); err != nil {
		return err
	}
	return streams[history.NemesisFile].Write(history.Act{What: history.Finish, At: history.Now()})
}

// press runs the phases under load, the last of which submits to a cluster that has recovered.
func (n *nemesis) press(ctx context.Context) error {
	warmUp := func(ctx context.Context) error { return sleep(ctx, n.cfg.WarmUp) }
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

// sleep waits for d. It returns an error if ctx is done first.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
