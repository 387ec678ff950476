// Command clique shows how the instances of a service leave their nodes without losing a
// request.
//
// clique show starts a cluster on this machine and runs the service on it twice, under ordinary
// and under graceful preemption; make example-clique runs it. clique storm drains, upgrades and
// kills nodes under the service; make example-storm runs it. clique serve is one instance of
// the service, run as a job of Weir.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"weir/examples/clique/playground"
	"weir/examples/clique/service"
	"weir/examples/clique/show"
	"weir/examples/clique/storm"
)

const usage = `clique serve [flags]    one instance of the service: a job of Weir runs this
clique show  [flags]    the service under ordinary and graceful preemption, on a cluster of this machine
clique storm [flags]    the service while nodes are drained, upgraded and killed, on a cluster of this machine`

func main() {
	verbs := map[string]func([]string) error{"serve": serve, "show": configured(configure, show.Run), "storm": configured(configureStorm, storm.Run)}
	if len(os.Args) < 2 || verbs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	switch err := verbs[os.Args[1]](os.Args[2:]); {
	case errors.Is(err, playground.ErrBroken):
		// The summary, the last line printed, already says so.
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "clique:", err)
		os.Exit(1)
	}
}

// serve runs one instance, at the port that Weir assigned to its job.
func serve(args []string) error {
	flags := flag.NewFlagSet("clique serve", flag.ExitOnError)
	notice := flags.Duration("notice", time.Second, "how long requests are accepted after the signal")
	if err := parse(flags, args); err != nil {
		return err
	}
	// Catch the signals first: before that, SIGTERM would kill the instance.
	told := make(chan os.Signal, 2)
	signal.Notify(told, syscall.SIGTERM, os.Interrupt)
	job, host, port := os.Getenv("WEIR_JOB_ID"), os.Getenv("WEIR_HOST"), os.Getenv("WEIR_PORT_0")
	if port == "" {
		return errors.New("WEIR_PORT_0 is not set: this is not a job of Weir, or its task has no port_count")
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	return service.Serve(listener, told, service.Config{Name: job, Notice: *notice})
}

// configured returns a verb that reads the flags and calls `run` with the result. A signal ends the
// call.
func configured[C any](configure func([]string) (C, error), run func(context.Context, C) error) func([]string) error {
	return func(args []string) error {
		config, err := configure(args)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		err = run(ctx, config)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("interrupted: %w", err)
		}
		return err
	}
}

// parse reads flags and rejects other arguments.
func parse(flags *flag.FlagSet, args []string) error {
	// The flag set exits the program when a flag is wrong.
	_ = flags.Parse(args)
	if flags.NArg() > 0 {
		return fmt.Errorf("%s %s: takes only flags", flags.Name(), strings.Join(flags.Args(), " "))
	}
	return nil
}
