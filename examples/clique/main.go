// Command clique shows how a service leaves a cluster without losing a request.
//
// clique show starts a cluster on this machine and runs the service on it twice, under
// ordinary and under graceful preemption; make example-clique does that. clique serve is
// one instance of the service, which is a job of Weir.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"weir/examples/clique/service"
	"weir/examples/clique/show"
)

const usage = `clique serve [flags]    one instance of the service: a job of Weir runs this
clique show  [flags]    the service under ordinary and graceful preemption, on a cluster of this machine`

func main() {
	verbs := map[string]func([]string) error{"serve": serve, "show": present}
	if len(os.Args) < 2 || verbs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	switch err := verbs[os.Args[1]](os.Args[2:]); {
	case errors.Is(err, show.ErrBroken):
		// The summary, which is the last line, has said so.
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "clique:", err)
		os.Exit(1)
	}
}

// serve is an instance, at the port that Weir gave its job.
func serve(args []string) error {
	flags := flag.NewFlagSet("clique serve", flag.ExitOnError)
	notice := flags.Duration("notice", time.Second, "how long requests are taken after the signal")
	if err := parse(flags, args); err != nil {
		return err
	}
	// Whoever is to be told before it is ready to hear would be killed by the signal.
	told := make(chan os.Signal, 2)
	signal.Notify(told, syscall.SIGTERM, os.Interrupt)
	job, host, port := os.Getenv("WEIR_JOB_ID"), os.Getenv("WEIR_HOST"), os.Getenv("WEIR_PORT_0")
	if port == "" {
		return errors.New("WEIR_PORT_0 is not set: this is no job of Weir, or its task has no port_count")
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	return service.Serve(listener, told, service.Config{Name: job, Notice: *notice})
}

// present shows the two runs.
func present(args []string) error {
	config, err := configure(args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err = show.Run(ctx, config)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w", err)
	}
	return err
}

// configure reads the flags of clique show.
func configure(args []string) (show.Config, error) {
	c := show.DefaultConfig()
	self, err := os.Executable()
	if err != nil {
		return c, fmt.Errorf("find clique: %w", err)
	}
	c.Self, c.Out = self, os.Stdout
	flags := flag.NewFlagSet("clique show", flag.ExitOnError)
	flags.StringVar(&c.Weir, "weir", filepath.Join(filepath.Dir(self), "weir"), "the program weir, with weir-jobproxy beside it")
	flags.StringVar(&c.Pictures, "pictures", c.Pictures, "folder for the pictures")
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
	flags.IntVar(&c.Load.Workers, "workers", c.Load.Workers, "requests under way in the closed loop")
	flags.Float64Var(&c.Load.Rate, "rate", c.Load.Rate, "requests a second of the open loop")
	flags.IntVar(&c.Load.Bound, "bound", c.Load.Bound, "requests under way in the open loop, at most")
	flags.Uint64Var(&c.Load.Seed, "seed", c.Load.Seed, "decides lengths and times of requests")
	flags.DurationVar(&c.Load.Lengths.LongFrom, "long-from", c.Load.Lengths.LongFrom, "least time of a long request, one in twenty")
	flags.DurationVar(&c.Load.Lengths.LongMean, "long-mean", c.Load.Lengths.LongMean, "how much longer long requests are on average")
	flags.DurationVar(&c.Load.Lengths.Longest, "longest", c.Load.Lengths.Longest, "time of the longest request")
	if err := parse(flags, args); err != nil {
		return c, err
	}
	return c, c.Validate()
}

// parse reads flags and refuses what is none.
func parse(flags *flag.FlagSet, args []string) error {
	// The set ends the program itself when a flag is wrong.
	_ = flags.Parse(args)
	if flags.NArg() > 0 {
		return fmt.Errorf("%s %s: takes flags alone", flags.Name(), strings.Join(flags.Args(), " "))
	}
	return nil
}
