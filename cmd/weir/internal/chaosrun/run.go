// Package chaosrun runs a chaos test on a cluster of this machine: it starts the cluster,
// injects faults, and records what the machine itself shows. It cleans up after its run,
// and after runs that were killed.
package chaosrun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"weir/actors/fleet"
	"weir/actors/node"
	"weir/chaos"
	"weir/chaos/fault"
	"weir/chaos/history"
	"weir/chaos/witness"
	"weir/cmd/weir/internal/devcluster"
	"weir/cmd/weir/internal/screen"
)

// lease is the lease of agents in a run without simulated nodes: short, so that it often expires.
const lease = 3 * time.Second

// Pace returns the heartbeats and the lease of a run. With simulated nodes they are those of any cluster of that size.
func Pace(simulated int) node.Pace {
	if simulated == 0 {
		return node.Pace{Heartbeat: lease / 6, Lease: lease}
	}
	return node.DefaultTiming().Pace(simulated, node.Pace{})
}

// stall is how long a replica's disk may hang before the replica gives up: longer than the delay
// of a busy disk, but shorter than most faults.
const stall = 2 * time.Second

// often has replicas compare their states several times between two faults.
var often = []string{"--check-period", "2s"}

// The folder of a run's cluster, and the folder of the members' files that are kept.
const (
	ClusterFolder = "cluster"
	MembersFolder = "members"
)

// Config describes a run.
type Config struct {
	// Dir is the folder of the run.
	Dir string
	// Cluster is the cluster that is started below Dir.
	Cluster devcluster.Config
	// Former are the programs of another build, which members begin with and are swapped with; empty:
	// there is one build.
	Former devcluster.Programs
	// Rules returns the rules of the schedule, given the kinds of faults that are possible
	// here.
	Rules func(possible []fault.Kind) (fault.Config, error)
	// Simulated are simulated nodes that run beside the agents. It lacks what StartFleet adds, and their tags.
	Simulated fleet.Config
	// NoNetwork is what EnterNetwork returned.
	NoNetwork error
	Seed      uint64
	WarmUp    time.Duration
	// Watcher shows the progress of the run.
	Watcher chaos.Watcher
}

// complete sets the fields of config that are specific to the run in dir.
func complete(config *devcluster.Config, dir string, pace node.Pace) {
	// Unique: no other cluster of this machine has nodes of these names.
	config.NodePrefix = fmt.Sprintf("x%d-n", os.Getpid())
	config.Preserve = filepath.Join(dir, MembersFolder)
	config.ReplicaArguments = []string{
		"--lease", pace.Lease.String(), "--heartbeat", pace.Heartbeat.String(), "--snapshot-threshold", "500", "--disk-stall", stall.String(),
	}
}

// Run starts the cluster, runs the test against it, stops it, and records what is left of
// it. The histories are below Dir.
func Run(ctx context.Context, cfg Config, display *screen.Screen) (err error) {
	complete(&cfg.Cluster, cfg.Dir, Pace(len(cfg.Simulated.Names)))
	if cfg.Former.Weir == "" {
		// A former build may not know the flag: Upgrade adds it.
		cfg.Cluster.ReplicaArguments = append(cfg.Cluster.ReplicaArguments, often...)
	}
	if err := devcluster.CheckReachable(cfg.Cluster.Program, filepath.Join(cfg.Dir, history.WitnessFile)); err != nil {
		return err
	}
	network, kinds, err := openNetwork(cfg.NoNetwork, &cfg.Cluster, display)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, network.Close()) }()
	if err := canHangDisks(); err != nil {
		display.Say(fmt.Sprintf("hang faults disabled: %v", err))
	} else {
		kinds = append(kinds, fault.Hang)
	}
	builds := [2]devcluster.Programs{{Weir: cfg.Cluster.Program, JobProxy: cfg.Cluster.JobProxy}, cfg.Former}
	if cfg.Former.Weir != "" {
		kinds = append(kinds, fault.Swap)
	}
	rules, err := cfg.Rules(kinds)
	if err != nil {
		return err
	}
	schedule, err := fault.Plan(rules)
	if err != nil {
		return err
	}
	display.Say(fmt.Sprintf("seed %d: %d faults:", cfg.Seed, len(schedule)))
	for _, planned := range schedule {
		display.Say(planned.String())
	}
	evidence, err := newEvidence(cfg.Dir, cfg.Cluster)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, evidence.Close()) }()
	// No need to report members that end and start: the run causes that itself, or records it.
	begin := cfg.Cluster
	if cfg.Former.Weir != "" {
		begin.Program, begin.JobProxy = cfg.Former.Weir, cfg.Former.JobProxy
	}
	up, err := devcluster.Up(ctx, begin, display, func(string) {})
	if up != nil {
		defer func() {
			err = errors.Join(err, up.Stop(), evidence.stopped())
		}()
	}
	if err != nil {
		return err
	}
	cluster := &runCluster{network: network, evidence: evidence, builds: builds}
	return cfg.press(ctx, up, rules, schedule, cluster)
}

// press runs the test against a cluster that is up.
func (cfg *Config) press(ctx context.Context, up *devcluster.Cluster, rules fault.Config, schedule []fault.Fault, cluster *runCluster) (err error) {
	cluster.reach = up.Reach
	if err := chaos.MakePools(ctx, up.Reach.Client, chaos.DefaultConfig().Clients); err != nil {
		return err
	}
	record, err := devcluster.Load(cfg.Cluster.Dir)
	if err != nil {
		return err
	}
	evidence := cluster.evidence
	if evidence.agents, err = openJournals(cfg.Dir, cfg.Cluster, record.Members); err != nil {
		return err
	}
	endSimulated, err := cfg.simulate(ctx, up.Reach)
	if err != nil {
		return err
	}
	defer endSimulated()
	// These tasks go on after ctx is done, until all faults are healed: up.Run restarts members
	// that were killed.
	keeping, leave := context.WithCancel(context.WithoutCancel(ctx))
	kept := make(chan error)
	tasks := []func(context.Context) error{up.Run, cluster.guard, evidence.agents.follow}
	for _, task := range tasks {
		go func() { kept <- task(keeping) }()
	}
	defer func() {
		leave()
		for range tasks {
			err = errors.Join(err, <-kept)
		}
	}()
	people := &users{reach: up.Reach}
	defer people.close()
	clients, err := people.Client("")
	if err != nil {
		return err
	}
	load := cfg.load(record.Members, rules, schedule)
	if err := witness.Prepare(cfg.Dir); err != nil {
		return err
	}
	load.Users = people
	if err := chaos.Run(ctx, load, cluster, clients, cfg.Watcher); err != nil {
		return err
	}
	return evidence.quiet(ctx)
}

// load returns the configuration of the test for these members.
func (cfg *Config) load(members []devcluster.Member, rules fault.Config, schedule []fault.Fault) chaos.Config {
	load := chaos.DefaultConfig()
	load.Dir, load.Schedule, load.Rules, load.Seed, load.WarmUp = cfg.Dir, schedule, rules, cfg.Seed, cfg.WarmUp
	for _, m := range members {
		if m.Kind == devcluster.Replica {
			load.Replicas = append(load.Replicas, m.Name)
		} else {
			load.Agents = append(load.Agents, m.Name)
		}
	}
	load.Simulated = cfg.Simulated.Names
	load.Upgrade = cfg.Former.Weir != ""
	load.Witness = []string{cfg.Cluster.Program, "chaos", witness.Verb, "--dir", cfg.Dir, "--for"}
	return load
}
