package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"weir/examples/clique/playground"
	"weir/examples/clique/show"
	"weir/examples/clique/storm"
)

// configure reads the flags of clique show.
func configure(args []string) (show.Config, error) {
	c := show.DefaultConfig()
	flags, err := common("show", &c.Config)
	if err != nil {
		return c, err
	}
	flags.IntVar(&c.Agents, "agents", c.Agents, "how many nodes: each holds two instances")
	flags.DurationVar(&c.Alone, "alone", c.Alone, "how long the service runs alone at first")
	flags.DurationVar(&c.Together, "together", c.Together, "minimum time for which the heavy operation runs")
	flags.DurationVar(&c.After, "after", c.After, "minimum time for which the service runs alone again")
	flags.DurationVar(&c.ShortTimeout, "short", c.ShortTimeout, "how long a preempted instance has to leave in the ordinary run")
	flags.DurationVar(&c.LongTimeout, "long", c.LongTimeout, "how long a preempted instance has to leave in the graceful run")
	flags.DurationVar(&c.Starvation, "starvation", c.Starvation, "how long an operation is below its fair share before it starves")
	flags.DurationVar(&c.LongNotice, "long-notice", c.LongNotice, "the same as -notice, for the graceful run (default: that of -notice)")
	flags.Uint64Var(&c.Load.Seed, "seed", c.Load.Seed, "random seed of the lengths and times of requests")
	if err := parse(flags, args); err != nil {
		return c, err
	}
	return c, c.Validate()
}

// configureStorm reads the flags of clique storm.
func configureStorm(args []string) (storm.Config, error) {
	c := storm.DefaultConfig()
	flags, err := common("storm", &c.Config)
	if err != nil {
		return c, err
	}
	flags.IntVar(&c.Agents, "agents", c.Agents, "how many nodes: each holds four jobs, and the service takes half of the cluster")
	flags.DurationVar(&c.Duration, "duration", c.Duration, "how long new events keep starting")
	flags.DurationVar(&c.Timeout, "timeout", c.Timeout, "how long an instance has to leave")
	flags.DurationVar(&c.Dead, "dead", c.Dead, "minimum time for which the killed node stays down")
	flags.Uint64Var(&c.Load.Seed, "seed", c.Load.Seed, "random seed of the events, and of the lengths and times of requests")
	if err := parse(flags, args); err != nil {
		return c, err
	}
	return c, c.Validate()
}

// common returns the flags that all examples have.
func common(verb string, c *playground.Config) (*flag.FlagSet, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find clique: %w", err)
	}
	c.Self, c.Out = self, os.Stdout
	flags := flag.NewFlagSet("clique "+verb, flag.ExitOnError)
	flags.StringVar(&c.Weir, "weir", filepath.Join(filepath.Dir(self), "weir"), "path of weir; weir-jobproxy must be next to it")
	flags.StringVar(&c.Pictures, "pictures", c.Pictures, "folder for the pictures")
	flags.IntVar(&c.Requests, "requests", c.Requests, "minimum number of requests of a run, which continues until they are sent")
	flags.DurationVar(&c.Notice, "notice", c.Notice, "how long an instance accepts requests after its signal")
	flags.IntVar(&c.Load.Workers, "workers", c.Load.Workers, "concurrent requests in the closed loop")
	flags.Float64Var(&c.Load.Rate, "rate", c.Load.Rate, "requests a second of the open loop")
	flags.IntVar(&c.Load.Bound, "bound", c.Load.Bound, "maximum number of concurrent requests in the open loop")
	lengths := &c.Load.Lengths
	flags.DurationVar(&lengths.LongFrom, "long-from", lengths.LongFrom, "minimum time of a long request; one request in twenty is long")
	flags.DurationVar(&lengths.LongMean, "long-mean", lengths.LongMean, "mean time that long requests take beyond -long-from")
	flags.DurationVar(&lengths.Longest, "longest", lengths.Longest, "maximum time of a request")
	return flags, nil
}
