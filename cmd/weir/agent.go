package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors"
	"weir/actors/agent"
	"weir/actors/agent/runner"
	"weir/api/health"
	"weir/api/metrics"
	"weir/cluster"
	"weir/cluster/identity"
	"weir/cluster/wire"
	"weir/messages/actorpb"
	"weir/scheduling/resource"
)

// agentFlags holds the flags of weir agent.
type agentFlags struct {
	logging
	security
	config string
	// node is the agent's configuration, without the settings below.
	node     agent.Config
	replicas []string
	jobProxy string
	jobUIDs  string
	cpu      float64
	ports    string
	// Sizes as text, such as 16GiB.
	memory, maxOutput, minFree, watermark, fileSpace string
	// metricsListen is the address that serves metrics; metricsInsecure serves them in
	// plaintext.
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

It exits by itself when it cannot continue: exit code 10 the disk failed, or is full at
startup; 11 the journal is damaged; 13 the journal belongs to another node or a newer
version. Jobs keep running for the rest of the node's lease.`,
		Example: `  weir agent --name n1 --replicas r1=host1:7701,r2=host2:7701,r3=host3:7701 \
      --data /var/lib/weir-agent --credentials certs/agent-n1 --tags ssd,rack7 --ports 21000-21999`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := cmp.Or(fromFile(cmd, f.config), require(cmd, "name", "replicas", "data"), notZero(cmd, "cpu", "memory", "user-slots"))
			if err != nil {
				return err
			}
			if err := validOnStop(f.onStop); err != nil {
				return err
			}
			log, err := f.logger()
			if err != nil {
				return err
			}
			return runAgent(cmd.Context(), &f, log.With("self", f.node.Node), func(line string) { fmt.Fprintln(cmd.OutOrStdout(), line) })
		},
	}
	f.register(cmd.Flags())
	return cmd
}

// register adds the flags, which are read into f.
func (f *agentFlags) register(flags *pflag.FlagSet) {
	f.node = agent.DefaultConfig()
	flags.StringVar(&f.config, "config", "", "YAML file with these settings; command-line flags take precedence")
	flags.StringVar(&f.node.Node, "name", "", "name of this node, as in its certificate")
	flags.StringSliceVar(&f.replicas, "replicas", nil, "id=host:port of replicas to contact first; the agent learns the others from them")
	flags.StringVar(&f.node.StateDir, "data", "", "folder for the agent's state, jobs and their output")
	flags.StringVar(&f.jobProxy, "jobproxy", "", "path of weir-jobproxy (default: next to this program)")
	flags.StringSliceVar(&f.node.Tags, "tags", nil, "tags of this node, matched by nodes_filter and scheduling_tag_filter")
	flags.Float64Var(&f.cpu, "cpu", 0, "cores for jobs (default: all cores of the machine)")
	flags.StringVar(&f.memory, "memory", "", "memory for jobs, such as 16GiB (default: 90% of the machine's)")
	flags.Int64Var(&f.node.Resources.UserSlots, "user-slots", 0, "maximum number of concurrent jobs (default: four per core)")
	flags.Int64Var(&f.node.Resources.GPU, "gpu", 0, "GPUs for jobs")
	flags.Int64Var(&f.node.Resources.Network, "network", 0, "network capacity for jobs, in the unit that the cluster uses")
	flags.StringVar(&f.node.Host, "host", "", "name or address at which jobs on other machines reach jobs on this one (default: the hostname)")
	flags.StringVar(&f.ports, "ports", "", "TCP ports reserved for jobs, such as 21000-21999 (default: none)")
	flags.StringVar(&f.maxOutput, "max-output", "5MiB", "how much of each job's stdout and stderr is kept")
	flags.StringVar(&f.minFree, "min-free", "64MiB", "free space that the disk of --data must have for the node to accept jobs; 0: no minimum")
	flags.StringVar(&f.watermark, "memory-watermark", "", "how much of --memory must stay free: below that, the job that exceeds its reserve most is stopped and run again (default: 32MiB, but at most 1/16 of --memory)")
	flags.DurationVar(&f.node.MemoryOverdraftTimeout, "memory-overdraft-timeout", 5*time.Minute, "how long jobs within their reserves may together exceed --memory before the youngest is stopped")
	flags.StringVar(&f.node.FileCache, "file-cache", "", "folder of the file cache for job workspaces (default: in --data)")
	flags.StringVar(&f.fileSpace, "file-cache-size", "10GiB", "maximum size of the file cache; a job that needs a larger file fails")
	flags.StringVar(&f.node.JobUser, "job-user", "", "user or user:group that all jobs share, unless their task names one; only a root agent can change it (default: a user of its own for each job if the agent is root, otherwise the agent's user)")
	flags.StringVar(&f.jobUIDs, "job-uids", "", "user ids of which an agent that is root gives each job one; no account of the machine may have any of them (default: "+runner.DefaultUIDs.String()+")")
	flags.BoolVar(&f.node.AllowRootJobs, "allow-root-jobs", false, "on an agent that is root, permit jobs that are root, or in groups as good as root (docker, disk, shadow, sudo, wheel, adm, kvm, lxd), and isolation none")
	flags.DurationVar(&f.node.JobEndTimeout, "job-end-timeout", 5*time.Minute, "how long the start or end of a job may stall, for example on a hung file system, before the job is aborted and run again")
	flags.StringVar(&f.onStop, "on-stop", keepJobs, "what happens to jobs on SIGTERM and Ctrl-C: keep leaves them running for the rest of the node's lease, so that a restarted agent can adopt them; end stops them")
	flags.StringVar(&f.metricsListen, "metrics-listen", "", "host:port that serves metrics and health to clients, operators and replicas; the certificate must be issued with --hosts")
	flags.BoolVar(&f.metricsInsecure, "metrics-insecure", false, "serve metrics in plaintext, on loopback only")
	f.security.register(flags)
	f.logging.register(flags)
}

// notZero returns a usage error for the first of the named flags that is set to 0: to the agent, 0
// means that the flag is not set.
func notZero(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if flag := cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "0" {
			return &exitError{exitUsage, fmt.Errorf("--%s 0: no job can run on such a node; omit it to use what the machine has", name)}
		}
	}
	return nil
}

// Values of --on-stop: what happens to running jobs when the agent is stopped.
const (
	keepJobs = "keep"
	endJobs  = "end"
)

// validOnStop returns a usage error unless value is keep or end.
func validOnStop(value string) error {
	if value == keepJobs || value == endJobs {
		return nil
	}
	return &exitError{exitUsage, fmt.Errorf("--on-stop %q: must be %s or %s", value, keepJobs, endJobs)}
}

// runAgent runs a node's agent until ctx is done.
func runAgent(ctx context.Context, f *agentFlags, log *slog.Logger, say func(string)) error {
	protection, err := f.security.load(identity.Agent, f.node.Node, log)
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
	if cfg.Revocations, err = agent.OpenRevocations(cfg.StateDir); err != nil {
		return err
	}
	protection.heed(func() revocationOf { return cfg.Revocations.Revoked })
	if !f.insecure {
		cfg.Credentials = func() *actorpb.HeldCredentials {
			holds := protection.holds()
			return &actorpb.HeldCredentials{Issuer: holds.Issuer, Roots: holds.Roots, ExpireTime: timestamppb.New(holds.Expires)}
		}
	}
	station, err := actors.StartStation(actors.StationConfig{Agent: cfg, Cluster: protection.cluster, Dialer: dialer, JobProxy: proxy})
	if err != nil {
		return coded(err)
	}
	stopMetrics, err := serveAgent(f, protection, station, log)
	if err != nil {
		closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return errors.Join(err, station.Leave(closing))
	}
	say(fmt.Sprintf("ready: agent of node %s with %s", cfg.Node, cfg.Resources))
	var broken error
	stop := station.Leave
	select {
	case <-ctx.Done():
		if f.onStop == endJobs {
			stop = station.Close
			log.Info("stopping: ending jobs")
			break
		}
		log.Info("stopping: jobs keep running for the rest of the lease; --on-stop end would end them")
	case <-station.Done():
		broken = errors.Join(errors.New("agent failed; see its log"), station.Err())
	}
	closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return coded(errors.Join(broken, stopMetrics(), stop(closing)))
}

// agentConfig returns the agent's configuration: the flags, completed from this machine.
func (f *agentFlags) agentConfig(log *slog.Logger) (cfg agent.Config, err error) {
	peers, err := cluster.ParsePeers(f.replicas)
	if err != nil {
		return cfg, usage(fmt.Errorf("--replicas: %w", err))
	}
	cfg = f.node
	for _, peer := range peers {
		cfg.Seeds = append(cfg.Seeds, agent.Replica{ID: string(peer.ID), Address: peer.Address})
	}
	cfg.Incarnation, cfg.Version, cfg.Logger = newIncarnation(), version, log
	if cfg.Host == "" {
		if cfg.Host, err = os.Hostname(); err != nil {
			return cfg, fmt.Errorf("name of this machine: %w", err)
		}
	}
	if cfg.Ports, err = agent.ParsePorts(f.ports); err != nil {
		return cfg, usage(fmt.Errorf("--ports: %w", err))
	}
	if f.jobUIDs != "" {
		if cfg.JobUIDs, err = runner.ParseUIDs(f.jobUIDs); err != nil {
			return cfg, usage(fmt.Errorf("--job-uids: %w", err))
		}
	}
	switch {
	case os.Geteuid() != 0 && (f.jobUIDs != "" || cfg.AllowRootJobs):
		return cfg, usage(errors.New("--job-uids, --allow-root-jobs: the agent is not root, so its jobs can only run as its own user"))
	case f.jobUIDs != "" && cfg.JobUser != "":
		return cfg, usage(errors.New("--job-uids and --job-user: set one of them: with --job-user all jobs share a user"))
	}
	if err := f.complete(&cfg.Resources); err != nil {
		return cfg, err
	}
	for _, size := range []struct {
		flag, text string
		low        int64
		into       *int64
	}{
		{"memory", f.memory, 1 << 20, &cfg.Resources.Memory},
		{"max-output", f.maxOutput, 0, &cfg.MaxOutput},
		{"min-free", f.minFree, 0, &cfg.MinFree},
		{"file-cache-size", f.fileSpace, 1, &cfg.FileCacheSize},
		{"memory-watermark", f.watermark, 0, &cfg.MemoryWatermark},
	} {
		if size.text != "" {
			if *size.into, err = sizeFlag(size.flag, size.text, size.low); err != nil {
				return cfg, err
			}
		}
	}
	if f.watermark == "" {
		cfg.MemoryWatermark = min(cfg.MemoryWatermark, cfg.Resources.Memory/16)
	}
	return cfg, usage(cfg.Validate())
}

// complete fills in, from this machine, the resources that no flag sets. The caller applies
// --memory.
func (f *agentFlags) complete(has *resource.Amounts) error {
	measured, err := agent.MeasureResources()
	if err != nil {
		return err
	}
	if f.cpu < 0 || has.UserSlots < 0 || has.GPU < 0 || has.Network < 0 {
		return usage(errors.New("--cpu, --user-slots, --gpu, --network: must not be negative"))
	}
	has.CPU = measured.CPU
	if f.cpu > 0 {
		has.CPU = resource.Cores(f.cpu)
	}
	has.UserSlots = cmp.Or(has.UserSlots, measured.UserSlots)
	has.Memory = measured.Memory
	return nil
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
		return "", &exitError{exitUsage, fmt.Errorf("--jobproxy: no program %s: build it next to weir, or set its path", path)}
	}
	return path, nil
}

// serveAgent serves an agent's metrics and health, if the flags ask for it, until `stop` is
// called.
func serveAgent(f *agentFlags, protection protection, station *actors.Station, log *slog.Logger) (stop func() error, err error) {
	if f.metricsListen == "" {
		if f.metricsInsecure {
			return nil, &exitError{exitUsage, errors.New("--metrics-insecure has no effect without --metrics-listen")}
		}
		return func() error { return nil }, nil
	}
	listener, err := listenMetrics(f, protection)
	if errors.Is(err, syscall.EADDRINUSE) {
		// The port may be free later, so this is not a usage error.
		return nil, fmt.Errorf("--metrics-listen: %w", err)
	}
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("--metrics-listen: %w", err)}
	}
	routes := http.NewServeMux()
	routes.Handle("GET /metrics", metrics.NewAgent(version, station, protection.expires()))
	routes.Handle("GET /healthz", health.Alive())
	routes.Handle("GET /readyz", health.Ready(
		health.Check{Name: "registered", Ask: func(context.Context) error {
			return failing(!station.Stats().Agent.Registered, "not registered with a leader yet")
		}},
		health.Check{Name: "lease", Ask: func(context.Context) error {
			return failing(station.Stats().Agent.LeaseLeft == 0, "the node has no lease: no contact with a leader for too long")
		}},
	))
	server := &http.Server{
		Handler: routes, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics server stopped", "address", f.metricsListen, "error", err)
		}
	}()
	log.Info("serving metrics", "address", listener.Addr().String(), "plaintext", f.metricsInsecure)
	return server.Close, nil
}

func listenMetrics(f *agentFlags, protection protection) (net.Listener, error) {
	if f.metricsInsecure {
		return wire.ListenLoopback(f.metricsListen)
	}
	mutual, ok := protection.security.(wire.Mutual)
	if !ok {
		return nil, errors.New("an agent without credentials serves metrics on loopback only, and only with --metrics-insecure")
	}
	return wire.ListenMutual(f.metricsListen, mutual.Credentials, watchers...)
}

// failing returns an error if `wrong` is true.
func failing(wrong bool, what string) error {
	if wrong {
		return errors.New(what)
	}
	return nil
}
