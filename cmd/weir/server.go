package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weir/actors"
	"weir/api"
	"weir/api/auditlog"
	"weir/api/health"
	"weir/api/metrics"
	"weir/cluster"
	"weir/cluster/identity"
	"weir/cluster/wire"
	"weir/messages/statepb"
	"weir/raftstore/events"
)

// serverFlags holds the flags of weir server.
type serverFlags struct {
	logging
	security
	config            string
	id                string
	listen, advertise string
	peers, join       []string
	nonVoter          bool
	data              string
	dataRoots         []string
	timing            string
	lease, heartbeat  time.Duration
	reassignAfter     time.Duration
	snapshotThreshold uint64
	diskStall         time.Duration
	checkPeriod       time.Duration
	rebuild           bool
	maxOperations     int32
	maxArchived       int32
	// What operations may take in bytes: those of a user, of a pool, all.
	userBytes, poolBytes, allBytes string
	eventSize                      string
	eventAge                       time.Duration
	auditSize                      string
}

func newServerCommand() *cobra.Command {
	var f serverFlags
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run a replica of the control plane",
		Long: `Run a replica of the control plane.

Start 1, 3 or 5 replicas with the same list of peers, in any order: they find
each other, and the first majority bootstraps the cluster. There is no separate step
to initialise it.

To add a replica to a cluster, start it with --join and the addresses
of some of its replicas, then run weir cluster add. It becomes a voter once it has caught
up. A replica that comes back with an empty folder gets a new copy of the state.

Exit codes: 10 the disk failed, is full or hangs; 11 the data is
damaged; 12 removed from the cluster; 13 the data belongs to another replica or cluster,
or another version, the cluster has a newer version, or another process already runs as
this replica; 15 the state is not that of the other replicas. After 11 and 15, --rebuild
gets the state from the others.`,
		Example: `  weir server --id r1 --listen :7701 --advertise host1:7701 \
      --peers r1=host1:7701,r2=host2:7701,r3=host3:7701 \
      --data /var/lib/weir --credentials certs/replica-r1`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(fromFile(cmd, f.config), require(cmd, "id")); err != nil {
				return err
			}
			log, err := f.logger()
			if err != nil {
				return err
			}
			say := func(line string) { fmt.Fprintln(cmd.OutOrStdout(), line) }
			return coded(runServer(cmd.Context(), &f, log.With("self", f.id), say))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "YAML file with these settings; command-line flags take precedence")
	flags.StringVar(&f.id, "id", "", "name of this replica; it must never change")
	flags.StringVar(&f.listen, "listen", ":7701", "host:port to listen on, TCP and UDP")
	flags.StringVar(&f.advertise, "advertise", "", "host:port at which others reach this replica (default: its entry in --peers)")
	flags.StringSliceVar(&f.peers, "peers", nil, "id=host:port of every initial replica, including this one")
	flags.StringSliceVar(&f.join, "join", nil, "instead of --peers, for a new replica of a running cluster: id=host:port of some of its replicas")
	flags.BoolVar(&f.nonVoter, "non-voter", false, "stay a non-voter: keep a copy of the state and answer clients")
	flags.StringVar(&f.data, "data", "", "folder of this replica's log, snapshots, events and audit log")
	flags.StringSliceVar(&f.dataRoots, "data-root", nil, "folder whose files operations may read and write, with the rights of this process and of nodes; can be repeated; a replica that is root takes no folder of the system, of homes or of its own (default: object stores only)")
	flags.StringVar(&f.timing, "timing", "default", "default, or fast: a dead leader is replaced within a second, for machines where replicas always get a core")
	flags.DurationVar(&f.heartbeat, "heartbeat", 0, "period of agents' heartbeats; if it or --lease is given, both stay the same (default: follows the number of nodes, 1s for up to 2,000 of them to 5s for 10,000 and more)")
	flags.DurationVar(&f.lease, "lease", 0, "how long an agent keeps running without contact with a leader, at least twice --heartbeat (default: five heartbeats; 5s if --heartbeat is given)")
	flags.DurationVar(&f.reassignAfter, "reassign-after", 2*time.Second, "how long a replica may be unreachable before others take over its operations")
	flags.Uint64Var(&f.snapshotThreshold, "snapshot-threshold", 8192, "log entries between snapshots")
	flags.Int32Var(&f.maxOperations, "max-operations", 5000, "maximum number of operations in progress in the cluster; the leader's value applies, so use the same on all replicas")
	flags.Int32Var(&f.maxArchived, "archived-operations", 10_000, fmt.Sprintf("maximum number of ended operations that are kept, up to %d; set like --max-operations", mostArchived))
	flags.StringVar(&f.userBytes, "operation-bytes-per-user", "256MiB", "maximum size of the records of a user's operations, those that have ended included; set like --max-operations")
	flags.StringVar(&f.poolBytes, "operation-bytes-per-pool", "512MiB", "maximum size of the records of a pool's operations in progress")
	flags.StringVar(&f.allBytes, "operation-bytes", "2GiB", "maximum size of the records of all operations")
	flags.DurationVar(&f.diskStall, "disk-stall", time.Second, "how long a write to the log may take before the disk counts as failed and the replica stops; after half this time a leader stops heartbeating, so that another can be elected")
	flags.DurationVar(&f.checkPeriod, "check-period", time.Minute, "how often replicas compare their states, if anything has changed; the leader's value applies; 0: never")
	flags.BoolVar(&f.rebuild, "rebuild", false, "if the state of this replica is not that of the others, or its data is damaged: move the data aside (the last two are kept) and get the state from the others")
	flags.StringVar(&f.eventSize, "event-log-size", "256MiB", "maximum size of the event log in the folder; the oldest events are dropped first")
	flags.DurationVar(&f.eventAge, "event-log-age", 7*24*time.Hour, "how long events are kept, if the size allows")
	flags.StringVar(&f.auditSize, "audit-log-size", "64MiB", "maximum size of the audit log in the folder; the oldest lines about the subject that has most of them are dropped first")
	f.security.register(flags)
	f.logging.register(flags)
	return cmd
}

// known returns the replicas that this one knows at the start.
func (f *serverFlags) known() (cluster.Peers, error) {
	entries, name := f.peers, "peers"
	switch {
	case len(f.peers) == 0 && len(f.join) == 0:
		return nil, usage(errors.New("--peers is needed: id=host:port of every initial replica, including this one; or --join for a new replica of a running cluster"))
	case len(f.peers) > 0 && len(f.join) > 0:
		return nil, usage(errors.New("--peers and --join exclude each other: --join is for a new replica of a running cluster"))
	case len(f.join) > 0:
		entries, name = f.join, "join"
	}
	peers, err := cluster.ParsePeers(entries)
	if err != nil {
		return nil, usage(fmt.Errorf("--%s: %w", name, err))
	}
	return peers, nil
}

// validate returns an error that names the first setting that cannot work, before
// anything is opened or written.
func (f *serverFlags) validate() error {
	switch {
	case f.timing != "default" && f.timing != "fast":
		return fmt.Errorf("--timing %q: must be default or fast", f.timing)
	case f.diskStall <= 0:
		return fmt.Errorf("--disk-stall %v: must be more than 0", f.diskStall)
	case f.checkPeriod < 0:
		return fmt.Errorf("--check-period %v: must not be negative; 0: never", f.checkPeriod)
	case f.rebuild && len(f.peers) == 1:
		return errors.New("--rebuild: --peers names no other replica to get the state from: use --join to name some; if there are none, restore a backup (weir cluster restore)")
	case f.maxOperations < 1:
		return fmt.Errorf("--max-operations %d: must be at least 1", f.maxOperations)
	case f.maxArchived < 1 || f.maxArchived > mostArchived:
		return fmt.Errorf("--archived-operations %d: must be between 1 and %d", f.maxArchived, mostArchived)
	case len(f.peers) > 0 && len(f.peers) != 1 && len(f.peers) != 3 && len(f.peers) != 5:
		return fmt.Errorf("--peers names %d replicas: a cluster starts with 1, 3 or 5", len(f.peers))
	}
	for _, root := range f.dataRoots {
		if err := checkDataRoot(root, os.Geteuid() == 0, f.data, f.security.credentials); err != nil {
			return err
		}
	}
	if _, err := f.eventLog(nil); err != nil {
		return err
	}
	if _, err := f.limits(); err != nil {
		return err
	}
	if _, err := f.auditLog(nil); err != nil {
		return err
	}
	return f.actorTiming().Validate()
}

// mostArchived is the most ended operations that may be kept: what is kept in memory of each takes up to some 10 KiB.
const mostArchived = 100_000

// minOperationBytes is the least that operations may be allowed to take: some of the largest.
const minOperationBytes = 4 << 20

// limits returns the limits of the replicated state.
func (f *serverFlags) limits() (*statepb.Limits, error) {
	limits := &statepb.Limits{Operations: f.maxOperations, ArchivedOperations: f.maxArchived}
	for _, limit := range []struct {
		flag, text string
		bytes      *int64
	}{
		{"operation-bytes-per-user", f.userBytes, &limits.OperationBytesPerUser},
		{"operation-bytes-per-pool", f.poolBytes, &limits.OperationBytesPerPool},
		{"operation-bytes", f.allBytes, &limits.OperationBytes},
	} {
		var err error
		if *limit.bytes, err = sizeFlag(limit.flag, limit.text, minOperationBytes); err != nil {
			return nil, err
		}
	}
	return limits, nil
}

// eventLog returns the configuration of this replica's event log.
func (f *serverFlags) eventLog(log *slog.Logger) (events.Config, error) {
	cfg := events.Default()
	size, err := sizeFlag("event-log-size", f.eventSize, 1<<20)
	if err != nil {
		return cfg, err
	}
	if f.eventAge < time.Minute {
		return cfg, fmt.Errorf("--event-log-age %v: must be at least 1m", f.eventAge)
	}
	cfg.Dir, cfg.MaxBytes, cfg.MaxAge, cfg.Logger = filepath.Join(f.data, "events"), size, f.eventAge, log
	return cfg, nil
}

// auditLog returns the configuration of this replica's audit log.
func (f *serverFlags) auditLog(log *slog.Logger) (auditlog.Config, error) {
	cfg := auditlog.Default()
	size, err := sizeFlag("audit-log-size", f.auditSize, 1<<20)
	cfg.Dir, cfg.Replica, cfg.MaxBytes, cfg.Logger = filepath.Join(f.data, "audit"), f.id, size, log
	return cfg, err
}

// actorTiming returns the timing of the actors.
func (f *serverFlags) actorTiming() actors.Timing {
	timing := actors.DefaultTiming()
	timing.Node.Follow = f.heartbeat == 0 && f.lease == 0
	timing.Node.Heartbeat, timing.Node.Lease = cmp.Or(f.heartbeat, timing.Node.Heartbeat), cmp.Or(f.lease, timing.Node.Lease)
	timing.ReassignAfter = f.reassignAfter
	return timing
}

// stopWithin bounds the stop of a replica: longer than it takes to transfer leadership and
// to leave gossip. Data on disk needs no orderly stop.
const stopWithin = 20 * time.Second

// close undoes the steps of the start. If a step does not end in time, it prints the stacks
// of all goroutines and returns.
func (s *server) close() error {
	undo := s.undo
	s.undo = nil
	done := make(chan error, 1)
	go func() {
		var errs []error
		for _, step := range slices.Backward(undo) {
			errs = append(errs, step())
		}
		done <- errors.Join(errs...)
	}()
	timer := time.NewTimer(stopWithin)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		if err := pprof.Lookup("goroutine").WriteTo(os.Stderr, 2); err != nil {
			s.log.Warn("cannot dump goroutines", "error", err)
		}
		return fmt.Errorf("replica %s has not stopped within %s", s.flags.id, stopWithin)
	}
}

// watchers are the roles that may read metrics and health.
var watchers = []identity.Role{identity.Replica, identity.User, identity.Operator}

// newAPIHandler returns the handler of a replica's public API, metrics and health. `stop` ends
// the calls that wait.
func newAPIHandler(s *server) (routes *http.ServeMux, stop func(), err error) {
	calls := metrics.NewCalls()
	handler, err := api.NewHandler(api.Config{
		Replica: s.flags.id, Cluster: s.protection.cluster, Version: version,
		Store: s.store, Log: s.replica, Leader: s.replica, Objects: s.replica, Signals: s.replica, Events: s.events, Audit: s.audit, Directory: s.directory,
		IdentityOf: wire.IdentityOfRequest, Vault: s.protection.vault, NewID: newID,
		Observe: calls.Observe, Health: s.health, Now: s.clock.Now, Limits: api.DefaultLimits(), Logger: s.log,
	})
	if err != nil {
		return nil, nil, err
	}
	routes = http.NewServeMux()
	routes.Handle("/", handler)
	routes.Handle("GET /metrics", wire.ForRoles(handler.Beside(metrics.NewReplica(metrics.ReplicaConfig{
		Version: version, Store: s.store, Actors: s.replica, Gossip: s.gossip, API: handler, Port: s.mux, Audit: s.audit, Calls: calls, Expires: s.protection.expires(),
	})), watchers...))
	routes.Handle("GET /healthz", wire.ForRoles(handler.Beside(health.Alive()), watchers...))
	routes.Handle("GET /readyz", wire.ForRoles(handler.Beside(health.Ready(
		health.Check{Name: "leader", Ask: s.knowsLeader}, health.Check{Name: "log", Ask: s.replica.ReadBarrier},
	)), watchers...))
	return routes, handler.Close, nil
}

func (s *server) knowsLeader(context.Context) error {
	current, _ := s.store.Leadership()
	return failing(current.LeaderID == "", "no leader is known")
}

// health returns the state of this replica.
func (s *server) health() api.Health {
	stats := s.replica.Stats()
	health := api.Health{Store: s.store.Stats(), Leading: stats.Leading, SharesFound: stats.Scheduler.Updated, Clock: stats.Clock}
	if since := s.membership.mixedSince.Load(); since != nil {
		health.MixedSince = *since
	}
	health.Holds, health.Agents = s.protection.holds(), s.replica.Credentials()
	return health
}

// systemFolders are not for files of operations, nor is anything in them or above them. Of sharedFolders
// only what is in them can be.
var (
	systemFolders = []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var/lib/weir"}
	sharedFolders = []string{"/home", "/opt", "/tmp", "/var/tmp"}
)

// checkDataRoot returns an error for a folder in which users' operations must not read and write. A
// replica that is root writes there with all rights: it needs a folder that is for nothing else, with
// neither files of the system nor folders of its own in it, above it or below it.
func checkDataRoot(root string, isRoot bool, own ...string) error {
	if !filepath.IsAbs(root) {
		return fmt.Errorf("--data-root %q: must be an absolute path", root)
	}
	if !isRoot {
		return nil
	}
	refuse := func(why string, folder string) error {
		return fmt.Errorf("--data-root %s: %s %s: this replica is root, and would write files of users there: name a folder that is for nothing else, such as /data, or run replicas as another user",
			root, why, folder)
	}
	at := realPath(root)
	for _, folder := range slices.Concat(systemFolders, own) {
		if folder == "" {
			continue
		}
		switch folder = realPath(folder); {
		case lies(folder, at):
			return refuse("contains", folder)
		case lies(at, folder):
			return refuse("lies within", folder)
		}
	}
	for _, folder := range sharedFolders {
		if folder = realPath(folder); lies(folder, at) {
			return refuse("contains", folder)
		}
	}
	return nil
}

// lies reports whether a path is a folder or lies within it.
func lies(path, folder string) bool {
	below, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(below)
}

// realPath returns the absolute path, with the links in the part that exists followed.
func realPath(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if found, err := filepath.EvalSymlinks(path); err == nil {
		return found
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(realPath(parent), filepath.Base(path))
	}
	return path
}
