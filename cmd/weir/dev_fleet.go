package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"weir/actors/fleet"
	"weir/cmd/weir/internal/devcluster"
	"weir/cmd/weir/internal/screen"
	"weir/scheduling/resource"
)

// mostSimulated bounds the simulated nodes of one process: each has a connection to every replica.
const mostSimulated = 10_000

// devFleet is what simulated nodes are like.
type devFleet struct {
	dir, memory  string
	cores, slots int64
	lasts, ready time.Duration
}

func newDevFleetCommand() *cobra.Command {
	f := devFleet{}
	cmd := &cobra.Command{
		Use:   "fleet NODES",
		Short: "Add simulated nodes to the cluster in this folder until Ctrl-C",
		Long: `Add simulated nodes to the cluster in this folder, and run them until Ctrl-C: they
register, send heartbeats and take jobs as agents do, but their jobs start no process. Each
uses a random part of what it has, and completes. It shows how Weir, its page
and its commands are at a size that one machine does not have.

When they end, the cluster holds them for lost. Names of nodes are simulated-1 and so on.`,
		Example: `  weir dev up --agents 0
  weir dev fleet 1000 --job-time 5m     # in another terminal`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			nodes, err := strconv.Atoi(args[0])
			if err != nil || nodes < 1 || nodes > mostSimulated {
				return &exitError{exitUsage, fmt.Errorf("NODES %q: must be a number from 1 to %d", args[0], mostSimulated)}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
			defer stop()
			return f.run(ctx, nodes, screen.New(cmd.OutOrStdout()))
		},
	}
	flags := cmd.Flags()
	registerDevDir(cmd, &f.dir)
	flags.Int64Var(&f.cores, "cpu", 16, "cores of each node")
	flags.StringVar(&f.memory, "memory", "64GiB", "memory of each node for jobs")
	flags.Int64Var(&f.slots, "user-slots", 16, "how many jobs each node runs at once")
	flags.DurationVar(&f.lasts, "job-time", time.Minute, "how long a job lasts on average: from half of it to one and a half times as long")
	flags.DurationVar(&f.ready, "timeout", 10*time.Minute, "how long to wait for the nodes to register")
	return cmd
}

// config returns the configuration of the fleet, but for what is the cluster's.
func (f *devFleet) config(nodes int) (fleet.Config, error) {
	memory, err := sizeFlag("memory", f.memory, 1<<20)
	if err != nil {
		return fleet.Config{}, err
	}
	for _, flag := range []struct {
		name string
		good bool
	}{{"cpu", f.cores > 0}, {"user-slots", f.slots > 0}, {"job-time", f.lasts > 0}, {"timeout", f.ready > 0}} {
		if !flag.good {
			return fleet.Config{}, &exitError{exitUsage, fmt.Errorf("--%s: must be more than 0", flag.name)}
		}
	}
	config := fleet.Config{
		Resources: resource.Amounts{UserSlots: f.slots, CPU: resource.Cores(float64(f.cores)), Memory: memory},
		Version:   version,
		Lasts:     func() time.Duration { return f.lasts/2 + rand.N(f.lasts) },
	}
	for i := range nodes {
		config.Names = append(config.Names, fmt.Sprint("simulated-", i+1))
	}
	return config, nil
}

func (f *devFleet) run(ctx context.Context, nodes int, display *screen.Screen) error {
	config, err := f.config(nodes)
	if err != nil {
		return err
	}
	reach, err := devcluster.OpenReach(f.dir)
	if err != nil {
		return err
	}
	defer reach.Close()
	bar := display.Bar("nodes", int64(nodes))
	defer bar.Close()
	config.Registered = func(nodes int) { bar.Update(int64(nodes), "registered") }
	within, cancel := context.WithTimeout(ctx, f.ready)
	defer cancel()
	running, err := reach.StartFleet(within, config)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer running.Close()
	bar.Close()
	display.Say(fmt.Sprintf("%d simulated nodes run; Ctrl-C ends them", nodes))
	<-ctx.Done()
	return nil
}
