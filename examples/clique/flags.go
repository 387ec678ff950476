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
	flags.DurationVar(&c.Alone, "alone", c.Alone, "how long the service is alone at first")
	flags.DurationVar(&c.Together, "together", c.Together, "how long the heavy operation is there")
	flags.DurationVar(&c.After, "after", c.After, "how long the service is alone again")
	flags.DurationVar(&c.ShortTimeout, "short", c.ShortTimeout, "how long a preempted instance has in the ordinary run")
	flags.DurationVar(&c.LongTimeout, "long", c.LongTimeout, "how long in the graceful run")
	flags.DurationVar(&c.Starvation, "starvation", c.Starvation, "how long an operation is below its fair share before it starves")
	flags.DurationVar(&c.LongNotice, "long-notice", c.LongNotice, "how long in the graceful run (default: the same)")
	flags.Uint64Var(&c.Load.Seed, "seed", c.Load.Seed, "decides lengths and times of requests")
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
	flags.IntVar(&c.Agents, "agents", c.Agents, "how many nodes: each holds four jobs, and the service has half of all places")
	flags.DurationVar(&c.Duration, "duration", c.Duration, "for how long events begin")
	flags.DurationVar(&c.Timeout, "timeout", c.Timeout, "how long an instance has to leave")
	flags.DurationVar(&c.Dead, "dead", c.Dead, "how long the node stays dead that dies, at least")
	flags.Uint64Var(&c.Load.Seed, "seed", c.Load.Seed, "decides the events, and lengths and times of requests")
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
	flags.StringVar(&c.Weir, "weir", filepath.Join(filepath.Dir(self), "weir"), "the program weir, with weir-jobproxy beside it")
	flags.StringVar(&c.Pictures, "pictures", c.Pictures, "folder for the pictures")
	flags.IntVar(&c.Requests, "requests", c.Requests, "requests of a run, at least: it goes on until so many are sent")
	flags.DurationVar(&c.Notice, "notice", c.Notice, "how long an instance takes requests after its signal")
	flags.IntVar(&c.Load.Workers, "workers", c.Load.Workers, "requests under way in the closed loop")
	flags.Float64Var(&c.Load.Rate, "rate", c.Load.Rate, "requests a second of the open loop")
	flags.IntVar(&c.Load.Bound, "bound", c.Load.Bound, "requests under way in the open loop, at most")
	lengths := &c.Load.Lengths
	flags.DurationVar(&lengths.LongFrom, "long-from", lengths.LongFrom, "least time of a long request, one in twenty")
	flags.DurationVar(&lengths.LongMean, "long-mean", lengths.LongMean, "how much longer long requests are on average")
	flags.DurationVar(&lengths.Longest, "longest", lengths.Longest, "time of the longest request")
	return flags, nil
}
