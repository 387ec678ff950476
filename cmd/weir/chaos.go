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

	"weir/chaos/check"
	"weir/chaos/fault"
	"weir/chaos/history"
	"weir/cmd/weir/internal/chaosrun"
	"weir/cmd/weir/internal/devcluster"
	"weir/cmd/weir/internal/screen"
)

func newChaosCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Test a cluster on this machine under faults and verify its guarantees",
		Example: `  weir chaos run --profile smoke
  weir chaos run --faults 100 --seed 1`,
	}
	cmd.AddCommand(newChaosRunCommand(), newChaosHealCommand(), newWitnessCommand())
	return cmd
}

// chaosFlags holds the flags of weir chaos run.
type chaosFlags struct {
	profile          string
	faults           int
	seed             uint64
	replicas, agents int
	simulated        int
	timing           string
	only             []string
	dir              string
	keep             bool
	noNetwork        error
	// upgrade is the folder of the programs of another build; former are these programs.
	upgrade string
	former  devcluster.Programs
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
		Long: `Run a separate cluster under load and faults: processes are killed (-9), paused and
cut off from each other, on a schedule derived from the seed before the run starts.
Clients, jobs and the nemesis record what they see; afterwards the histories are
checked. Exit code 0 means that no guarantee was violated and the run exercised them.

Cuts need root: the run moves into its own network namespace, with one more for
each member; they disappear with the last process. Without root there are only kills
and pauses.

With --simulated-nodes, so many nodes without processes join the cluster beside its agents, in
a pool tree of their own, and always have jobs: failovers are tested at that size. No fault
hits them. They are to keep their jobs and to be online at the end.

With --upgrade, members begin as another build, such as the previous version
(make previous), and one after another is restarted as the other of the two. At the end
all get this build, and the upgrade is finished.

Everything is cleaned up and removed at the end, also after Ctrl-C. After a violation the
folder with histories, logs and data is kept, and the command that repeats the run is
printed.`,
		Example: `  weir chaos run --profile smoke
  weir chaos run --faults 100 --seed 1 --keep
  weir chaos run --simulated-nodes 1000 --timing default
  weir chaos run --upgrade "$(.ci/previous)"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(cmd); err != nil {
				return err
			}
			f.noNetwork = chaosrun.EnterNetwork()
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
			defer stop()
			display := screen.New(cmd.OutOrStdout())
			said := make(chan struct{})
			end := context.AfterFunc(ctx, func() { defer close(said); display.Say(chaosEnding) })
			err := runChaos(ctx, &f, display)
			if !end() {
				<-said
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.profile, "profile", "default", "default, or smoke: 8 short faults in less than 2 minutes")
	flags.IntVar(&f.faults, "faults", 0, "number of faults (default: 100, or 8 with --profile smoke)")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the schedule and the load")
	flags.IntVar(&f.replicas, "replicas", 3, "number of replicas: 3 or 5")
	flags.IntVar(&f.agents, "agents", 4, "number of agents, each a node: 2 or more")
	flags.IntVar(&f.simulated, "simulated-nodes", 0, fmt.Sprintf("number of simulated nodes beside the agents: 0 to %d", mostSimulated))
	flags.StringVar(&f.timing, "timing", "fast", "timing of replicas: fast, or default for busy machines")
	flags.StringSliceVar(&f.only, "only", nil, "kinds of faults: kill, pause, cut, late, hang, swap (default: all that are possible here)")
	flags.StringVar(&f.upgrade, "upgrade", "", "folder with the programs weir and weir-jobproxy of another build, which members are swapped with")
	flags.StringVar(&f.dir, "dir", "", "new folder for histories, logs and data, kept after the run (default: a temporary one)")
	flags.BoolVar(&f.keep, "keep", false, "keep the temporary folder even without violations")
	return cmd
}

// chaosEnding is shown when a run is interrupted.
const chaosEnding = "interrupted: cleaning up; press Ctrl-C again to skip, then run weir chaos heal"

// complete applies the profile's defaults and rejects invalid flags.
func (f *chaosFlags) complete(cmd *cobra.Command) error {
	profile, known := chaosProfiles[f.profile]
	switch {
	case !known:
		return &exitError{exitUsage, fmt.Errorf("--profile %q: must be default or smoke", f.profile)}
	case f.replicas != 3 && f.replicas != 5:
		return &exitError{exitUsage, fmt.Errorf("--replicas %d: must be 3 or 5: a cluster of fewer cannot survive a fault", f.replicas)}
	case f.simulated < 0 || f.simulated > mostSimulated:
		return &exitError{exitUsage, fmt.Errorf("--simulated-nodes %d: must be a number from 0 to %d", f.simulated, mostSimulated)}
	case f.timing != "fast" && f.timing != "default":
		return &exitError{exitUsage, fmt.Errorf("--timing %q: must be fast or default", f.timing)}
	}
	if !cmd.Flags().Changed("faults") {
		f.faults = profile.faults
	}
	if f.upgrade != "" {
		var err error
		if f.former, err = devcluster.ProgramsIn(f.upgrade); err != nil {
			return usage(fmt.Errorf("--upgrade: %w", err))
		}
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

// kinds returns the kinds of faults that the flags select out of the possible ones.
func (f *chaosFlags) kinds(possible []fault.Kind) ([]fault.Kind, error) {
	wanted := slices.DeleteFunc(slices.Clone(possible), func(kind fault.Kind) bool {
		// With default timing a leader is elected too late for this fault.
		return kind == fault.Late && f.timing != "fast" || kind == fault.Swap && f.upgrade == ""
	})
	only := make(map[fault.Kind]bool)
	for _, name := range f.only {
		kind, err := fault.ParseKind(name)
		if err != nil {
			return nil, fmt.Errorf("--only: %w", err)
		}
		if !slices.Contains(wanted, kind) {
			return nil, fmt.Errorf("--only %s: not possible here: cut and late need root and the program ip, late also --timing fast, hang root and strace, swap --upgrade", name)
		}
		only[kind] = true
	}
	return slices.DeleteFunc(wanted, func(kind fault.Kind) bool { return len(only) > 0 && !only[kind] }), nil
}

// rules returns the rules of the fault schedule.
func (f *chaosFlags) rules(kinds []fault.Kind) fault.Config {
	return fault.Config{
		Faults: f.faults, Seed: f.seed, Replicas: f.replicas, Agents: f.agents,
		Lease: chaosrun.Pace(f.simulated).Lease, Kinds: kinds, Longest: chaosProfiles[f.profile].longest,
	}
}

// again returns the command that repeats the run.
func (f *chaosFlags) again() string {
	command := fmt.Sprintf("weir chaos run --profile %s --faults %d --seed %d --replicas %d --agents %d --timing %s",
		f.profile, f.faults, f.seed, f.replicas, f.agents, f.timing)
	if f.simulated > 0 {
		command += fmt.Sprint(" --simulated-nodes ", f.simulated)
	}
	if f.upgrade != "" {
		command += " --upgrade " + f.upgrade
	}
	if len(f.only) > 0 {
		command += " --only " + strings.Join(f.only, ",")
	}
	return command + " --keep"
}

func runChaos(ctx context.Context, f *chaosFlags, display *screen.Screen) (err error) {
	dir, err := f.folder()
	if err != nil {
		return err
	}
	if err := chaosrun.Own(dir); err != nil {
		return err
	}
	begun := time.Now()
	pressed := f.press(ctx, dir, display)
	run, err := history.Load(dir)
	if err != nil {
		return errors.Join(pressed, err)
	}
	violations, figures := check.All(run), check.Sum(run)
	fmt.Fprintf(display.Out, "\n%s\nagain: %s\n", chaosSummary(figures, violations, time.Since(begun)), f.again())
	if pressed == nil && len(violations) == 0 {
		if vacuous := figures.Vacuous(); len(vacuous) > 0 {
			pressed = fmt.Errorf("inconclusive run: %s", strings.Join(vacuous, ", "))
		}
	}
	switch {
	case ctx.Err() != nil && len(violations) == 0:
		return errors.Join(interrupted(ctx, ctx.Err()), f.leave(dir, display, false))
	case pressed == nil && len(violations) == 0:
		return f.leave(dir, display, f.keep)
	}
	if err := f.leave(dir, display, true); err != nil {
		return err
	}
	if len(violations) > 0 {
		pressed = errors.Join(fmt.Errorf("%d violations", len(violations)), pressed)
	}
	return pressed
}

// passable is the mode of folders below which jobs, as users of their own, find what is theirs.
const passable = 0o711

// folder creates the folder of the run.
func (f *chaosFlags) folder() (dir string, err error) {
	if f.dir == "" {
		if dir, err = os.MkdirTemp("", chaosrun.TemporaryPrefix); err == nil {
			err = os.Chmod(dir, passable)
		}
	} else if dir, err = filepath.Abs(f.dir); err == nil {
		err = os.Mkdir(dir, passable)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return "", usage(fmt.Errorf("--dir %s: already exists: name a new folder", f.dir))
	case err != nil:
		return "", fmt.Errorf("make a folder for the run: %w", err)
	}
	return dir, nil
}

// leave removes the folder of the run, or shows its path if it is kept.
func (f *chaosFlags) leave(dir string, display *screen.Screen, keep bool) error {
	if keep || f.dir != "" {
		display.Say("histories, logs and data: " + dir)
		return nil
	}
	return os.RemoveAll(dir)
}

// chaosFleet is what simulated nodes of a run are like: each has one job at a time, many of which outlive a lease.
var chaosFleet = devFleet{cores: 1, memory: "1GiB", slots: 1, lasts: 10 * time.Second, ready: time.Minute}

// press runs the cluster and injects the faults.
func (f *chaosFlags) press(ctx context.Context, dir string, display *screen.Screen) error {
	flags := devFlags{cluster: devcluster.Default()}
	flags.cluster.Dir, flags.cluster.Timing = filepath.Join(dir, chaosrun.ClusterFolder), f.timing
	flags.cluster.Replicas, flags.cluster.Agents = f.replicas, f.agents
	cluster, err := flags.config()
	if err != nil {
		return err
	}
	nodes, err := chaosFleet.config(f.simulated)
	if err != nil {
		return err
	}
	view := &chaosView{Screen: display}
	defer func() { view.bar.Close() }()
	return chaosrun.Run(ctx, chaosrun.Config{
		Dir: dir, Cluster: cluster, Former: f.former, Simulated: nodes, NoNetwork: f.noNetwork, Seed: f.seed, WarmUp: chaosProfiles[f.profile].warmUp, Watcher: view,
		Rules: func(possible []fault.Kind) (fault.Config, error) {
			kinds, err := f.kinds(possible)
			return f.rules(kinds), err
		},
	}, display)
}

func newChaosHealCommand() *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "heal [FOLDER]...",
		Short: "Clean up after interrupted runs",
		Long: `Clean up after runs that were killed (-9) before they could clean up themselves: stop
the remaining processes of their clusters and jobs, paused or not, and remove control
groups and folders. Cut connections need no healing: their network namespaces are gone
with the processes. Runs in progress are left alone.

Without FOLDER, all runs with a temporary folder are cleaned up. Other folders are
skipped.`,
		Example: `  weir chaos heal
  weir chaos heal --keep runs/monday`,
		RunE: func(cmd *cobra.Command, folders []string) error {
			given := len(folders) > 0
			if !given {
				var err error
				if folders, err = filepath.Glob(filepath.Join(os.TempDir(), chaosrun.TemporaryPrefix+"*")); err != nil {
					return fmt.Errorf("look for runs: %w", err)
				}
			}
			display := screen.New(cmd.OutOrStdout())
			var errs []error
			for _, folder := range folders {
				err := chaosrun.Heal(cmd.Context(), folder, keep, sweepAgent, display)
				if !given && (errors.Is(err, chaosrun.ErrRunning) || errors.Is(err, chaosrun.ErrNoRun)) {
					display.Say(err.Error())
					continue
				}
				if errors.Is(err, chaosrun.ErrNoRun) {
					err = &exitError{exitUsage, err}
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "keep histories, logs and data of the runs")
	return cmd
}
