package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"weir/examples/clique/load"
	"weir/examples/clique/show"
	"weir/examples/clique/storm"
)

// configure reads the flags of clique show.
func configure(args []string) (show.Config, error) {
	c := show.DefaultConfig()
	self, err := os.Executable()
	if err != nil {
		return c, fmt.Errorf("find clique: %w", err)
	}
	c.Self, c.Out = self, os.Stdout
	flags := flag.NewFlagSet("clique show", flag.ExitOnError)
	paths(flags, self, &c.Weir, &c.Pictures)
	flags.IntVar(&c.Agents, "agents", c.Agents, "how many nodes: each holds two instances")
	flags.DurationVar(&c.Alone, "alone", c.Alone, "how long the service is alone at first")
	flags.DurationVar(&c.Together, "together", c.Together, "how long the heavy operation is there")
	flags.DurationVar(&c.After, "after", c.After, "how long the service is alone again")
	flags.IntVar(&c.Requests, "requests", c.Requests, "requests of a run, at least: it goes on until so many are sent")
	flags.DurationVar(&c.ShortTimeout, "short", c.ShortTimeout, "how long a preempted instance has in the ordinary run")
	flags.DurationVar(&c.LongTimeout, "long", c.LongTimeout, "how long in the graceful run")
	flags.DurationVar(&c.Starvation, "starvation", c.Starvation, "how long an operation is below its fair share before it starves")
	flags.DurationVar(&c.Notice, "notice", c.Notice, "how long an instance takes requests after its signal")
	flags.DurationVar(&c.LongNotice, "long-notice", c.LongNotice, "how long in the graceful run (default: the same)")
	requests(flags, &c.Load)
	flags.Uint64Var(&c.Load.Seed, "seed", c.Load.Seed, "decides lengths and times of requests")
	if err := parse(flags, args); err != nil {
		return c, err
	}
	return c, c.Validate()
}

// configureStorm reads the flags of clique storm.
func configureStorm(args []string) (storm.Config, error) {
	c := storm.DefaultConfig()
	self, err := os.Executable()
	if err != nil {
		return c, fmt.Errorf("find clique: %w", err)
	}
	c.Self, c.Out = self, os.Stdout
	flags := flag.NewFlagSet("clique storm", flag.ExitOnError)
	paths(flags, self, &c.Weir, &c.Pictures)
	flags.IntVar(&c.Agents, "agents", c.Agents, "how many nodes: each holds four jobs, and the service has half of all places")
	flags.DurationVar(&c.Duration, "duration", c.Duration, "for how long events begin")
	flags.IntVar(&c.Requests, "requests", c.Requests, "requests of a run, at least: it goes on until so many are sent")
	flags.DurationVar(&c.Timeout, "timeout", c.Timeout, "how long an instance has to leave")
	flags.DurationVar(&c.Notice, "notice", c.Notice, "how long an instance takes requests after its signal")
	flags.DurationVar(&c.Dead, "dead", c.Dead, "how long the node stays dead that dies, at least")
	flags.Uint64Var(&c.Seed, "seed", c.Seed, "decides the events, and lengths and times of requests")
	requests(flags, &c.Load)
	if err := parse(flags, args); err != nil {
		return c, err
	}
	c.Load.Seed = c.Seed
	return c, c.Validate()
}

// paths are the flags that say what is run, and where its pictures go.
func paths(flags *flag.FlagSet, self string, weir, pictures *string) {
	flags.StringVar(weir, "weir", filepath.Join(filepath.Dir(self), "weir"), "the program weir, with weir-jobproxy beside it")
	flags.StringVar(pictures, "pictures", *pictures, "folder for the pictures")
}

// requests are the flags of a load.
func requests(flags *flag.FlagSet, c *load.Config) {
	flags.IntVar(&c.Workers, "workers", c.Workers, "requests under way in the closed loop")
	flags.Float64Var(&c.Rate, "rate", c.Rate, "requests a second of the open loop")
	flags.IntVar(&c.Bound, "bound", c.Bound, "requests under way in the open loop, at most")
	flags.DurationVar(&c.Lengths.LongFrom, "long-from", c.Lengths.LongFrom, "least time of a long request, one in twenty")
	flags.DurationVar(&c.Lengths.LongMean, "long-mean", c.Lengths.LongMean, "how much longer long requests are on average")
	flags.DurationVar(&c.Lengths.Longest, "longest", c.Lengths.Longest, "time of the longest request")
}
