package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/actors/agent"
	"weir/actors/agent/runner"
	"weir/actors/node"
	"weir/api/client"
	"weir/cmd/weir/internal/devcluster"
	"weir/cmd/weir/internal/rolling"
	"weir/cmd/weir/internal/screen"
)

// devFolder is the default folder of a cluster.
const devFolder = ".weir"

func newDevCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "dev",
		Short: "Run a whole cluster on this machine",
		Long: `Run a whole cluster on this machine: replicas and agents, each a real process
with its own folder, certificate and port.

Everything is kept in one folder, .weir by default. While the cluster runs, other
weir commands in the same folder find it without flags. When the cluster
stops, its files are deleted.`,
		Example: `  weir dev up
  weir op start -f examples/hello.yaml --wait     # in another terminal
  weir dev kill leader
  weir dev down`,
	}, newDevUpCommand(), newDevDownCommand(), newDevStatusCommand(), newDevKillCommand(), newDevStartCommand(), rolling.NewCommand(usage, registerDevDir), newDevFleetCommand(), newDevWordcountCommand(), newDevEstimatesCommand(), newDevFairnessCommand())
}

// devFlags holds the flags of commands that start a cluster.
type devFlags struct {
	cluster    devcluster.Config
	nodeMemory string
	// lease is the nodes' lease; 0 means the replicas' default.
	lease time.Duration
	// onStop is the value of the agents' flag --on-stop.
	onStop string
}

// register adds the flags that all commands that start a cluster share. `replicas` is the usage
// of --replicas.
func (f *devFlags) register(flags *pflag.FlagSet, replicas string) {
	f.cluster = devcluster.Default()
	flags.IntVar(&f.cluster.Replicas, "replicas", f.cluster.Replicas, replicas)
	flags.IntVar(&f.cluster.Agents, "agents", f.cluster.Agents, "number of agents, each a node")
	flags.StringVar(&f.cluster.Timing, "timing", f.cluster.Timing, "default, or fast: a dead leader is replaced within a second, for machines that are not busy")
	flags.DurationVar(&f.cluster.ReadyTimeout, "timeout", f.cluster.ReadyTimeout, "how long to wait for the cluster to be ready")
}

func newDevUpCommand() *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster on this machine and run it until Ctrl-C",
		Long: `Start a cluster on this machine and run it until Ctrl-C, SIGTERM or weir dev
down. All its processes end with this one, even on kill -9, unless --detach is given.

The agents split the machine's cores and memory evenly, but each has at least 4
cores and 4 user slots; on a small machine, jobs then share cores.`,
		Example: `  weir dev up
  weir dev up --replicas 5 --agents 2 --detach`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Stop the cluster when the terminal is closed, too.
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
			defer stop()
			return runDevUp(ctx, &f, screen.New(cmd.OutOrStdout()))
		},
	}
	flags := cmd.Flags()
	f.register(flags, "number of replicas: 1, 3 or 5")
	registerDevDir(cmd, &f.cluster.Dir)
	flags.StringVar(&f.cluster.NodePrefix, "node-prefix", f.cluster.NodePrefix, "prefix of node names: clusters that run on one machine at the same time need different ones")
	flags.StringVar(&f.nodeMemory, "node-memory", "", "memory of each node for jobs, such as 1GiB: small nodes fill up and trigger preemption (default: an even share of the machine's)")
	flags.DurationVar(&f.lease, "lease", 0, "how long an agent keeps running without contact with a leader, at least 2s; more for a busy machine (default: that of weir server)")
	flags.StringSliceVar(&f.cluster.DataRoots, "data-root", nil, "folder whose files operations may read and write; can be repeated (default: all files, or, as root, the folder files in that of the cluster)")
	flags.StringVar(&f.onStop, "on-stop", endJobs, "what happens to the jobs of an agent on SIGTERM, as for weir agent: with keep they run until weir dev start restarts the agent, or the lease expires")
	flags.BoolVar(&f.cluster.Insecure, "insecure-plaintext", false, "no encryption, no certificates: every user of this machine is an operator")
	flags.BoolVar(&f.cluster.Detached, "detach", false, "return when the cluster is ready; stop it with weir dev down")
	return cmd
}

func registerDevDir(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", devFolder, "folder of the cluster")
}

// config returns the cluster's configuration, from the flags and this machine.
func (f *devFlags) config() (devcluster.Config, error) {
	program, err := os.Executable()
	if err != nil {
		return devcluster.Config{}, fmt.Errorf("find weir: %w", err)
	}
	proxy, err := (&agentFlags{}).jobProxyPath()
	if err != nil {
		return devcluster.Config{}, err
	}
	machine, err := runner.Machine("/")
	if err != nil {
		return devcluster.Config{}, err
	}
	c := f.cluster
	c.NodePrefix = cmp.Or(c.NodePrefix, devcluster.Default().NodePrefix)
	if f.lease != 0 {
		timing := node.DefaultTiming()
		timing.Lease = f.lease
		if err := timing.Validate(); err != nil {
			return devcluster.Config{}, &exitError{exitUsage, fmt.Errorf("--lease: %w", err)}
		}
		c.ReplicaArguments = []string{"--lease", f.lease.String()}
	}
	if f.onStop != "" {
		if err := validOnStop(f.onStop); err != nil {
			return devcluster.Config{}, err
		}
		c.AgentArguments = []string{"--on-stop", f.onStop}
	}
	for i, root := range c.DataRoots {
		if c.DataRoots[i], err = filepath.Abs(root); err != nil {
			return devcluster.Config{}, usage(fmt.Errorf("--data-root %q: %w", root, err))
		}
		if err := checkDataRoot(c.DataRoots[i], os.Geteuid() == 0, c.Dir); err != nil {
			return devcluster.Config{}, usage(err)
		}
	}
	c.Program, c.JobProxy = program, proxy
	c.Share = devcluster.ShareOut(machine.CPU, machine.Memory, c.Agents)
	if f.nodeMemory != "" {
		if c.Share.Memory, err = sizeFlag("node-memory", f.nodeMemory, 1<<20); err != nil {
			return devcluster.Config{}, err
		}
	}
	c.Sweep, c.Final = sweepAgent, finally
	return c, usage(c.Validate())
}

// finally returns the advice for a member that ended because it was removed, or because its state is wrong: a
// restart would not help.
func finally(m devcluster.Member, code int) string {
	if code == exitDiverged {
		data := relative(raftDir(m.Data))
		return fmt.Sprintf("its state is not that of the other replicas; to get theirs: mv %s %s.aside-1 && weir dev start %s", data, data, m.Name)
	}
	if code != exitRemoved {
		return ""
	}
	return fmt.Sprintf("it was removed from the cluster; to add it again: rm -r %s && weir cluster add %s --address %s && weir dev start %s",
		relative(m.Data), m.Name, m.Address, m.Name)
}

// sweepAgent ends the jobs that a killed agent left behind, as its next start would.
func sweepAgent(m devcluster.Member) error {
	proxy, err := (&agentFlags{}).jobProxyPath()
	if err != nil {
		return err
	}
	cfg := agent.DefaultConfig()
	cfg.Node, cfg.StateDir, cfg.Logger = m.Name, m.Data, slog.New(slog.DiscardHandler)
	left, _, err := agent.OpenRunner(cfg, proxy)
	if err != nil {
		return err
	}
	return left.Close()
}

func runDevUp(ctx context.Context, f *devFlags, display *screen.Screen) (err error) {
	config, err := f.config()
	if err != nil {
		return err
	}
	up, err := devcluster.Up(ctx, config, display, display.Say)
	if up != nil {
		defer func() {
			if f.cluster.Detached && err == nil {
				return
			}
			display.Say("stopping")
			err = errors.Join(err, up.Stop())
		}()
	}
	if err != nil {
		return interrupted(ctx, err)
	}
	record, err := showMembers(display.Out, config.Dir)
	if err != nil {
		return err
	}
	display.Say(findHint(record, config.Dir))
	if f.cluster.Detached {
		display.Say("ready, running detached: " + downCommand(config.Dir) + " stops it")
		return up.Detach()
	}
	display.Say("ready until Ctrl-C or " + downCommand(config.Dir))
	return up.Run(ctx)
}

// findHint returns a hint on how other commands find the cluster.
func findHint(record *devcluster.Record, dir string) string {
	file := devcluster.SettingsFile(dir)
	if filepath.Base(dir) == devFolder {
		return "in the folder that contains .weir, or below it, weir commands need no flags; settings: " + relative(file)
	}
	access := record.Access
	set := client.EnvAddresses + "=" + strings.Join(access.Addresses, ",")
	if access.Credentials != "" {
		set += " " + client.EnvCredentials + "=" + access.Credentials
	} else {
		set += " " + client.EnvInsecure + "=true"
	}
	return "other weir commands look for " + client.SettingsFile + ", not for " + relative(file) + "; to let them find the cluster: export " + set
}

// downCommand returns the command that stops the cluster of dir.
func downCommand(dir string) string {
	const down = "weir dev down"
	if filepath.Clean(dir) == devFolder {
		return down
	}
	return down + " --dir " + dir
}

// interrupted replaces err if the user interrupted the command.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		return &exitError{code: exitInterrupted, err: errors.New("interrupted")}
	}
	return err
}
