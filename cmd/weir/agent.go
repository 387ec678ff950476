package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/actors"
	"weir/actors/agent"
	"weir/actors/agent/filecache"
	"weir/actors/agent/journal"
	"weir/actors/agent/runner"
	"weir/cluster"
	"weir/cluster/identity"
	"weir/cluster/wire"
	"weir/scheduling/resource"
)

// agentFlags is what weir agent can be told.
type agentFlags struct {
	logging
	security
	config    string
	name      string
	replicas  []string
	data      string
	jobProxy  string
	tags      []string
	cpu       float64
	memory    string
	userSlots int64
	gpu       int64
	network   int64
	host      string
	ports     string
	maxOutput string
	minFree   string
	// watermark and overdraft are of the node's memory.
	watermark string
	overdraft time.Duration
	// fileCache and fileSpace are for files that jobs find in their workspaces.
	fileCache string
	fileSpace string
	jobUser   string
	// jobEnd is how long the end of a job may hang.
	jobEnd time.Duration
	// metricsListen is where metrics are shown; metricsInsecure: in plaintext.
	metricsListen   string
	metricsInsecure bool
	onStop          string
}

func newAgentCommand() *cobra.Command {
	var f agentFlags
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run the agent of a node: it joins the cluster and runs jobs",
		Long: `Run the agent of a node: it joins the cluster and runs jobs.

It ends by itself when it may not go on: exit code 10 the disk failed, or is full when
the agent starts; 11 its journal is not what was written; 13 the journal is another
node's, or of a newer version. Jobs go on for the rest of the node's lease.`,
		Example: `  weir agent --name n1 --replicas r1=host1:7701,r2=host2:7701,r3=host3:7701 \
      --data /var/lib/weir-agent --credentials certs/agent-n1 --tags ssd,rack7 --ports 21000-21999`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromFile(cmd, f.config); err != nil {
				return err
			}
			if err := require(cmd, "name", "replicas", "data"); err != nil {
				return err
			}
			if err := notZero(cmd, "cpu", "memory", "user-slots"); err != nil {
				return err
			}
			if f.onStop != keepJobs && f.onStop != endJobs {
				return &exitError{exitUsage, fmt.Errorf("--on-stop %q: must be %s or %s", f.onStop, keepJobs, endJobs)}
			}
			log, err := f.logger()
			if err != nil {
				return err
			}
			return runAgent(cmd.Context(), &f, log.With("self", f.name), func(line string) { fmt.Fprintln(cmd.OutOrStdout(), line) })
		},
	}
	f.register(cmd.Flags())
	return cmd
}

// register adds the flags that f is read from.
func (f *agentFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.config, "config", "", "YAML file with these settings; the command line wins")
	flags.StringVar(&f.name, "name", "", "name of this node, as in its certificate")
	flags.StringSliceVar(&f.replicas, "replicas", nil, "id=host:port of replicas to begin with; others are learned from them")
	flags.StringVar(&f.data, "data", "", "folder of this agent's state, jobs and their output")
	flags.StringVar(&f.jobProxy, "jobproxy", "", "the weir-jobproxy program (default: beside this one)")
	flags.StringSliceVar(&f.tags, "tags", nil, "what kind of node this is")
	flags.Float64Var(&f.cpu, "cpu", 0, "cores for jobs (default: those of the machine)")
	flags.StringVar(&f.memory, "memory", "", "memory for jobs, such as 16GiB (default: nine tenths of the machine's)")
	flags.Int64Var(&f.userSlots, "user-slots", 0, "jobs at once (default: four a core)")
	flags.Int64Var(&f.gpu, "gpu", 0, "GPUs for jobs")
	flags.Int64Var(&f.network, "network", 0, "network for jobs, in the cluster's own unit")
	flags.StringVar(&f.host, "host", "", "name or address at which jobs of other machines reach those of this one (default: the machine's name)")
	flags.StringVar(&f.ports, "ports", "", "TCP ports of this machine that are for jobs alone, such as 21000-21999 (default: none)")
	flags.StringVar(&f.maxOutput, "max-output", "5MiB", "how much is kept of each of a job's stdout and stderr")
	flags.StringVar(&f.minFree, "min-free", "64MiB", "how much space the disk of --data must have left for new jobs to be taken; 0: any")
	flags.StringVar(&f.watermark, "memory-watermark", "", "how much of --memory is to stay free: with less, the job that is farthest above the memory reserved for it is stopped, and runs again (default: 32MiB, a sixteenth of --memory at most)")
	flags.DurationVar(&f.overdraft, "memory-overdraft-timeout", 5*time.Minute, "how long jobs that keep within what is reserved for them may use more than --memory, before the youngest is stopped")
	flags.StringVar(&f.fileCache, "file-cache", "", "folder of the files that jobs find in their workspaces, fetched once (default: in --data)")
	flags.StringVar(&f.fileSpace, "file-cache-size", "10GiB", "how much these may take; a larger file is an error of the job")
	flags.StringVar(&f.jobUser, "job-user", "", "who the processes of jobs are, as user or user:group, unless their task says so; if not root, no job is (default: who the agent is; only root can choose)")
	flags.DurationVar(&f.jobEnd, "job-end-timeout", 5*time.Minute, "how long the start or the end of a job may stand still, as when a file system hangs on which its output is kept: then the job is aborted, and runs again")
	flags.StringVar(&f.onStop, "on-stop", keepJobs, "what becomes of jobs on SIGTERM and Ctrl-C: keep lets them go on for as long as the node's lease, for an agent that is started by then; end ends them")
	flags.StringVar(&f.metricsListen, "metrics-listen", "", "host:port that shows metrics and health to clients, operators and replicas; the certificate has to be issued with --hosts")
	flags.BoolVar(&f.metricsInsecure, "metrics-insecure", false, "show them in plaintext, to this machine alone")
	f.security.register(flags)
	f.logging.register(flags)
}

// notZero returns an error that names the first of flags that was set to zero: left
// out, it would stand for what the machine has.
func notZero(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if flag := cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "0" {
			return &exitError{exitUsage, fmt.Errorf("--%s 0: no job could run on such a node; leave it out for what the machine has", name)}
		}
	}
	return nil
}

// What becomes of the jobs of an agent that is stopped.
const (
	keepJobs = "keep"
	endJobs  = "end"
)

// runAgent runs a node's agent until ctx is done.
func runAgent(ctx context.Context, f *agentFlags, log *slog.Logger, say func(string)) error {
	protection, err := f.security.load(identity.Agent, f.name, log)
	if err != nil {
		return err
	}
	defer protection.keepFresh(lookAtCertificate, log)()
	dialer, err := wire.NewDialer(protection.security)
	if err != nil {
		return err
	}
	cfg, err := f.agentConfig(log)
	if err != nil {
		return err
	}
	proxy, err := f.jobProxyPath()
	if err != nil {
		return err
	}
	station, err := actors.StartStation(actors.StationConfig{Agent: cfg, Cluster: protection.cluster, Dialer: dialer, JobProxy: proxy})
	if err != nil {
		return codedJournal(err)
	}
	stopMetrics, err := serveAgent(f, protection, station, log)
	if err != nil {
		closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return errors.Join(err, station.Leave(closing))
	}
	say(fmt.Sprintf("ready: agent of node %s with %s", f.name, cfg.Resources))
	var broken error
	stop := station.Leave
	select {
	case <-ctx.Done():
		if f.onStop == endJobs {
			stop = station.Close
			log.Info("stopping: jobs are ended")
			break
		}
		log.Info("stopping: jobs go on for the rest of the lease; --on-stop end ends them")
	case <-station.Done():
		broken = errors.Join(errors.New("the agent broke; see its log"), station.Err())
	}
	closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return codedJournal(errors.Join(broken, stopMetrics(), stop(closing)))
}

// codedJournal gives what is wrong with an agent's folder the exit code that the same
// has for a replica.
func codedJournal(err error) error {
	switch {
	case errors.Is(err, journal.ErrForeign), errors.Is(err, runner.ErrInUse), errors.Is(err, filecache.ErrInUse):
		return &exitError{exitForeignData, err}
	case errors.Is(err, journal.ErrDamaged):
		return &exitError{exitDamaged, err}
	case errors.Is(err, journal.ErrDisk), errors.Is(err, journal.ErrFull):
		return &exitError{exitDisk, err}
	}
	return err
}

func (f *agentFlags) agentConfig(log *slog.Logger) (agent.Config, error) {
	peers, err := cluster.ParsePeers(f.replicas)
	if err != nil {
		return agent.Config{}, &exitError{exitUsage, fmt.Errorf("--replicas: %w", err)}
	}
	cfg := agent.DefaultConfig()
	for _, peer := range peers {
		cfg.Seeds = append(cfg.Seeds, agent.Replica{ID: string(peer.ID), Address: peer.Address})
	}
	cfg.Node, cfg.Incarnation, cfg.Tags, cfg.Version, cfg.StateDir, cfg.Logger = f.name, newIncarnation(), f.tags, version, f.data, log
	cfg.Host = f.host
	if cfg.Host == "" {
		if cfg.Host, err = os.Hostname(); err != nil {
			return agent.Config{}, fmt.Errorf("name of this machine: %w", err)
		}
	}
	if cfg.Ports, err = agent.ParsePorts(f.ports); err != nil {
		return agent.Config{}, &exitError{exitUsage, fmt.Errorf("--ports: %w", err)}
	}
	if cfg.MaxOutput, err = sizeFlag("max-output", f.maxOutput, 0); err != nil {
		return agent.Config{}, err
	}
	if cfg.MinFree, err = sizeFlag("min-free", f.minFree, 0); err != nil {
		return agent.Config{}, err
	}
	if cfg.FileCacheSize, err = sizeFlag("file-cache-size", f.fileSpace, 1); err != nil {
		return agent.Config{}, err
	}
	cfg.MemoryOverdraftTimeout, cfg.FileCache, cfg.JobUser, cfg.JobEndTimeout = f.overdraft, f.fileCache, f.jobUser, f.jobEnd
	if cfg.Resources, err = f.resources(); err != nil {
		return agent.Config{}, err
	}
	cfg.MemoryWatermark = min(cfg.MemoryWatermark, cfg.Resources.Memory/16)
	if f.watermark != "" {
		if cfg.MemoryWatermark, err = sizeFlag("memory-watermark", f.watermark, 0); err != nil {
			return agent.Config{}, err
		}
	}
	if err := cfg.Validate(); err != nil {
		return agent.Config{}, &exitError{exitUsage, err}
	}
	return cfg, nil
}

// resources returns what the node has for jobs: what was said, and what was
// measured of the rest.
func (f *agentFlags) resources() (resource.Amounts, error) {
	has, err := agent.MeasureResources()
	if err != nil {
		return has, err
	}
	if f.cpu < 0 || f.userSlots < 0 || f.gpu < 0 || f.network < 0 {
		return has, &exitError{exitUsage, errors.New("--cpu, --user-slots, --gpu, --network: must not be negative")}
	}
	if f.cpu > 0 {
		has.CPU = resource.Cores(f.cpu)
	}
	if f.userSlots > 0 {
		has.UserSlots = f.userSlots
	}
	if f.memory != "" {
		if has.Memory, err = sizeFlag("memory", f.memory, 1<<20); err != nil {
			return has, err
		}
	}
	has.GPU, has.Network = f.gpu, f.network
	return has, nil
}

// jobProxyPath finds the weir-jobproxy program.
func (f *agentFlags) jobProxyPath() (string, error) {
	path := f.jobProxy
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("find weir-jobproxy: %w", err)
		}
		path = filepath.Join(filepath.Dir(self), "weir-jobproxy")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find weir-jobproxy: %w", err)
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return "", &exitError{exitUsage, fmt.Errorf("--jobproxy: there is no program %s: build it beside weir, or say where it is", path)}
	}
	return path, nil
}
