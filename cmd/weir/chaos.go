package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"weir/api/client"
	"weir/chaos"
	"weir/chaos/check"
	"weir/chaos/fault"
	"weir/chaos/history"
	"weir/chaos/witness"
	"weir/cmd/weir/internal/devcluster"
)

func newChaosCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Press a cluster of this machine with faults, and check that it keeps its promises",
		Example: `  weir chaos run --profile smoke
  weir chaos run --faults 100 --seed 1`,
	}
	cmd.AddCommand(newChaosRunCommand(), newChaosHealCommand(), newWitnessCommand())
	return cmd
}

// chaosFlags is what a run can be told.
type chaosFlags struct {
	profile          string
	faults           int
	seed             uint64
	replicas, agents int
	timing           string
	only             []string
	dir              string
	keep             bool
	alone            isolated
}

// chaosProfiles are the presets of a run.
var chaosProfiles = map[string]struct {
	faults  int
	longest time.Duration
	warmUp  time.Duration
}{
	"default": {faults: 100, longest: 10 * time.Second, warmUp: 5 * time.Second},
	"smoke":   {faults: 8, longest: 3 * time.Second, warmUp: 2 * time.Second},
}

func newChaosRunCommand() *cobra.Command {
	var f chaosFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run a cluster under load and faults, then check every history",
		Long: `Run a cluster of its own under load and faults: processes are killed (-9), paused and
cut off from each other, by a schedule that a seed decides before anything starts.
Clients, jobs and the nemesis write down what they see; afterwards the histories are
checked. Exit 0 only if no promise was broken and the run had something to break.

Cuts need root: the run moves into a network namespace of its own, with one more for
each member, which are gone with its last process. Without root there are kills and
pauses only.

Everything is healed and removed at the end, after Ctrl-C too. After a violation the
folder with histories, logs and data stays, and the command that repeats the run is
printed.`,
		Example: `  weir chaos run --profile smoke
  weir chaos run --faults 100 --seed 1 --keep`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(cmd); err != nil {
				return err
			}
			alone, err := enterNetwork()
			if err != nil {
				return err
			}
			f.alone = alone
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
			defer stop()
			screen := newScreen(cmd.OutOrStdout())
			said := make(chan struct{})
			end := context.AfterFunc(ctx, func() { defer close(said); screen.Say(chaosEnding) })
			err = runChaos(ctx, &f, screen)
			if !end() {
				<-said
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.profile, "profile", "default", "default, or smoke: 8 short faults in less than 2 minutes")
	flags.IntVar(&f.faults, "faults", 0, "how many faults (default: the profile's, 100 or 8)")
	flags.Uint64Var(&f.seed, "seed", 1, "decides the schedule and the load")
	flags.IntVar(&f.replicas, "replicas", 3, "how many replicas: 3 or 5")
	flags.IntVar(&f.agents, "agents", 4, "how many agents, each a node: 2 or more")
	flags.StringVar(&f.timing, "timing", "fast", "of replicas: fast, or default, which is for machines that are busy")
	flags.StringSliceVar(&f.only, "only", nil, "kinds of faults: kill, pause, cut, late, hang (default: all that can be done here)")
	flags.StringVar(&f.dir, "dir", "", "new folder for histories, logs and data, which stays (default: a temporary one)")
	flags.BoolVar(&f.keep, "keep", false, "keep the temporary folder of a run without violations too")
	return cmd
}

// chaosEnding is said when a run is interrupted.
const chaosEnding = "interrupted: heals and removes everything; Ctrl-C again leaves that to weir chaos heal"

// complete sets what was left to the profile, and refuses what cannot be.
func (f *chaosFlags) complete(cmd *cobra.Command) error {
	profile, known := chaosProfiles[f.profile]
	switch {
	case !known:
		return &exitError{exitUsage, fmt.Errorf("--profile %q: must be default or smoke", f.profile)}
	case f.replicas != 3 && f.replicas != 5:
		return &exitError{exitUsage, fmt.Errorf("--replicas %d: must be 3 or 5: fewer survive no fault", f.replicas)}
	case f.timing != "fast" && f.timing != "default":
		return &exitError{exitUsage, fmt.Errorf("--timing %q: must be fast or default", f.timing)}
	}
	if !cmd.Flags().Changed("faults") {
		f.faults = profile.faults
	}
	kinds, err := f.kinds(fault.Kinds)
	if err == nil {
		_, err = fault.Plan(f.rules(kinds))
	}
	if err != nil {
		return &exitError{exitUsage, err}
	}
	return nil
}

// kinds returns those of the possible kinds that are wanted.
func (f *chaosFlags) kinds(possible []fault.Kind) ([]fault.Kind, error) {
	wanted := slices.DeleteFunc(slices.Clone(possible), func(kind fault.Kind) bool {
		// Leaders of default timing are elected too late for it.
		return kind == fault.Late && f.timing != "fast"
	})
	if len(f.only) == 0 {
		return wanted, nil
	}
	only := make(map[fault.Kind]bool)
	for _, name := range f.only {
		kind, err := fault.ParseKind(name)
		if err != nil {
			return nil, fmt.Errorf("--only: %w", err)
		}
		if !slices.Contains(wanted, kind) {
			return nil, fmt.Errorf("--only %s: it cannot be done here: cut and late need root and the program ip, late --timing fast too, hang root and strace", name)
		}
		only[kind] = true
	}
	return slices.DeleteFunc(wanted, func(kind fault.Kind) bool { return !only[kind] }), nil
}

// chaosLease is that of the nodes of a run: short, so that it runs out often.
const chaosLease = 3 * time.Second

// chaosStall is how long the disk of a replica may hang until it gives up: longer than
// the machine's own makes it wait when others are busy with it, shorter than most faults.
const chaosStall = 2 * time.Second

// rules are those of the schedule.
func (f *chaosFlags) rules(kinds []fault.Kind) fault.Config {
	return fault.Config{
		Faults: f.faults, Seed: f.seed, Replicas: f.replicas, Agents: f.agents,
		Lease: chaosLease, Kinds: kinds, Longest: chaosProfiles[f.profile].longest,
	}
}

// again is the command that repeats the run.
func (f *chaosFlags) again() string {
	command := fmt.Sprintf("weir chaos run --profile %s --faults %d --seed %d --replicas %d --agents %d --timing %s",
		f.profile, f.faults, f.seed, f.replicas, f.agents, f.timing)
	if len(f.only) > 0 {
		command += " --only " + strings.Join(f.only, ",")
	}
	return command + " --keep"
}

func runChaos(ctx context.Context, f *chaosFlags, screen *screen) (err error) {
	dir, err := f.folder()
	if err != nil {
		return err
	}
	if err := own(dir); err != nil {
		return err
	}
	begun := time.Now()
	pressed := pressCluster(ctx, f, dir, screen)
	run, err := history.Load(dir)
	if err != nil {
		return errors.Join(pressed, err)
	}
	violations, figures := check.All(run), check.Sum(run)
	fmt.Fprintf(screen.out, "\n%s\nagain: %s\n", chaosSummary(figures, violations, time.Since(begun)), f.again())
	if pressed == nil && len(violations) == 0 {
		if vacuous := figures.Vacuous(); len(vacuous) > 0 {
			pressed = fmt.Errorf("the run proves nothing: %s", strings.Join(vacuous, ", "))
		}
	}
	switch {
	case ctx.Err() != nil && len(violations) == 0:
		return errors.Join(interrupted(ctx, ctx.Err()), f.leave(dir, screen, false))
	case pressed == nil && len(violations) == 0:
		return f.leave(dir, screen, f.keep)
	}
	if err := f.leave(dir, screen, true); err != nil {
		return err
	}
	if len(violations) > 0 {
		pressed = errors.Join(fmt.Errorf("%d violations", len(violations)), pressed)
	}
	return pressed
}

// folder makes the folder of the run.
func (f *chaosFlags) folder() (string, error) {
	if f.dir == "" {
		dir, err := os.MkdirTemp("", chaosFolder)
		if err != nil {
			return "", fmt.Errorf("make a folder for the run: %w", err)
		}
		return dir, nil
	}
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return "", fmt.Errorf("make a folder for the run: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		return "", &exitError{exitUsage, fmt.Errorf("--dir %s: it is there already: name a new folder", f.dir)}
	} else if err != nil {
		return "", fmt.Errorf("make a folder for the run: %w", err)
	}
	return dir, nil
}

// leave removes the folder of the run, or says where it is.
func (f *chaosFlags) leave(dir string, screen *screen, keep bool) error {
	if keep || f.dir != "" {
		screen.Say("histories, logs and data are in " + dir)
		return nil
	}
	return os.RemoveAll(dir)
}

// pressCluster starts a cluster below dir, runs against it, stops it, and looks for
// what it has left.
func pressCluster(ctx context.Context, f *chaosFlags, dir string, screen *screen) (err error) {
	config, err := f.cluster(dir)
	if err != nil {
		return err
	}
	network, kinds, err := openNetwork(f.alone, &config, screen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, network.Close()) }()
	if err := canHangDisks(); err != nil {
		screen.Say(fmt.Sprintf("disks do not hang: %v", err))
	} else {
		kinds = append(kinds, fault.Hang)
	}
	if kinds, err = f.kinds(kinds); err != nil {
		return err
	}
	rules := f.rules(kinds)
	schedule, err := fault.Plan(rules)
	if err != nil {
		return err
	}
	screen.Say(fmt.Sprintf("seed %d decides %d faults:", f.seed, len(schedule)))
	for _, planned := range schedule {
		screen.Say(planned.String())
	}
	evidence, err := newEvidence(dir, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, evidence.close()) }()
	// Who ends and begins is known already: the run wants it so, or writes it down.
	up, err := startDevCluster(ctx, config, screen, func(string) {})
	if up != nil {
		defer func() {
			err = errors.Join(err, up.Stop(), evidence.stopped())
		}()
	}
	if err != nil {
		return err
	}
	return pressDevCluster(ctx, f, dir, up, config, rules, schedule, network, evidence, screen)
}

// pressDevCluster runs against a cluster that is up.
func pressDevCluster(ctx context.Context, f *chaosFlags, dir string, up *devcluster.Cluster, config devcluster.Config, rules fault.Config,
	schedule []fault.Fault, network *devcluster.Network, evidence *evidence, screen *screen,
) (err error) {
	reach, err := reachDev(config.Dir)
	if err != nil {
		return err
	}
	defer reach.close()
	if err := chaos.MakePools(ctx, reach.Client, chaos.DefaultConfig().Clients); err != nil {
		return err
	}
	members, err := up.Members()
	if err != nil {
		return err
	}
	if err := evidence.open(members); err != nil {
		return err
	}
	cluster := &chaosCluster{reach: reach, network: network, evidence: evidence, down: make(map[string]bool)}
	// When ctx is done too, until all is healed: members that were killed are started
	// by up.Run.
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
	cfg := chaos.DefaultConfig()
	cfg.Dir, cfg.Schedule, cfg.Rules, cfg.Seed, cfg.WarmUp = dir, schedule, rules, f.seed, chaosProfiles[f.profile].warmUp
	for _, m := range members {
		if m.Kind == devcluster.Replica {
			cfg.Replicas = append(cfg.Replicas, m.Name)
		} else {
			cfg.Agents = append(cfg.Agents, m.Name)
		}
	}
	cfg.Witness = []string{config.Program, "chaos", witness.Verb, "--dir", dir, "--for"}
	clients, err := chaosClient(reach)
	if err != nil {
		return err
	}
	defer clients.Close()
	view := newChaosView(screen)
	defer view.close()
	if err := chaos.Run(ctx, cfg, cluster, clients, view); err != nil {
		return err
	}
	return evidence.quiet(ctx)
}

// chaosClient is impatient: a try that a dead or frozen replica does not answer costs
// little.
func chaosClient(reach *devReach) (*client.Client, error) {
	config, err := reach.settings.Config()
	if err != nil {
		return nil, err
	}
	config.Try, config.MaxTry, config.Deadline = 300*time.Millisecond, 2*time.Second, 4*time.Second
	return client.New(config)
}

// The folders of a run: that of its cluster, and what is kept of it.
const (
	clusterFolder = "cluster"
	membersFolder = "members"
)

// cluster is the configuration of the cluster below dir.
func (f *chaosFlags) cluster(dir string) (devcluster.Config, error) {
	flags := devFlags{dir: filepath.Join(dir, clusterFolder), replicas: f.replicas, agents: f.agents, timing: f.timing, timeout: time.Minute}
	config, err := flags.config()
	if err != nil {
		return config, err
	}
	// No other cluster of this machine has nodes of these names.
	config.NodePrefix = fmt.Sprintf("x%d-n", os.Getpid())
	config.Preserve = filepath.Join(dir, membersFolder)
	config.ReplicaArguments = []string{
		"--lease", chaosLease.String(), "--heartbeat", (chaosLease / 6).String(), "--snapshot-threshold", "500", "--disk-stall", chaosStall.String(),
	}
	return config, nil
}
