package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/internal/devcluster"
	"weir/cmd/weir/internal/fairness"
	"weir/cmd/weir/internal/foretell"
	"weir/cmd/weir/internal/screen"
	"weir/cmd/weir/internal/wordcount"
)

func newDevWordcountCommand() *cobra.Command {
	var f devFlags
	var config wordcount.Config
	var keep bool
	cmd := &cobra.Command{
		Use:   "wordcount",
		Short: "Count words on a fresh cluster, kill its leader half way, check the sum",
		Long: `Count the words in every file of the Go toolchain's source tree with jobs on a
fresh cluster in a temporary folder, kill the leader (-9) when half of the jobs have
completed, and compare every file's count with a direct one. Exit code 0 means that
all counts match.

A word is a run of letters. Each job is a short shell script that starts two
processes for each of its files, so that jobs are still running when the leader dies. The
last job waits until then.`,
		Example: `  weir dev wordcount
  weir dev wordcount --source /usr/share/doc --jobs 100`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
			defer stop()
			config.KillLeader, config.Patience = !keep, wordcount.DefaultPatience
			return runDevWordcount(ctx, &f, config, screen.New(cmd.OutOrStdout()))
		},
	}
	flags := cmd.Flags()
	f.register(flags, "number of replicas: 3 or 5, or 1 with --keep-leader")
	flags.StringVar(&config.Source, "source", "", "folder with files (default: that of the Go toolchain)")
	flags.IntVar(&config.Jobs, "jobs", 64, "number of jobs that share the files")
	flags.BoolVar(&keep, "keep-leader", false, "do not kill the leader")
	return cmd
}

// wordcountSlots is how many jobs an agent runs at once: few enough that jobs still wait
// when half have completed, on large machines too.
const wordcountSlots = 4

// wordcountLease is the agents' lease: long enough that running jobs outlive the leader and
// an election on a busy machine.
const wordcountLease = 30 * time.Second

func runDevWordcount(ctx context.Context, f *devFlags, counting wordcount.Config, display *screen.Screen) (err error) {
	switch {
	case counting.Jobs < 2:
		return &exitError{exitUsage, fmt.Errorf("--jobs %d: must be at least 2", counting.Jobs)}
	case f.cluster.Agents < 1:
		return &exitError{exitUsage, fmt.Errorf("--agents %d: must be at least 1", f.cluster.Agents)}
	case f.cluster.Replicas < 3 && counting.KillLeader:
		return &exitError{exitUsage, fmt.Errorf("--replicas %d: must be 3 or 5 to survive the loss of the leader, or use --keep-leader", f.cluster.Replicas)}
	}
	if err := countDirectly(ctx, &counting, display); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weir-wordcount-")
	if err != nil {
		return fmt.Errorf("make a folder for the cluster: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := errors.Join(os.Chmod(dir, passable), devcluster.CheckReachable(counting.Source, dir)); err != nil {
		return err
	}
	f.cluster.Dir, f.lease = dir, wordcountLease
	if counting.KillLeader {
		// Absolute, because the jobs run in working folders of their own.
		if counting.Gate, err = filepath.Abs(filepath.Join(dir, "killed")); err != nil {
			return fmt.Errorf("path of the file that the last job waits for: %w", err)
		}
	}
	config, err := f.config()
	if err != nil {
		return err
	}
	config.Share.Slots = wordcountSlots
	result, err := countOnCluster(ctx, config, counting, display)
	if err != nil {
		return interrupted(ctx, err)
	}
	fmt.Fprint(display.Out, summaryTable(result.Summary()))
	fmt.Fprintf(display.Out, "jobs lost: %d\n", result.Lost)
	if len(result.Differences) > 0 {
		return fmt.Errorf("the count is wrong:\n  %s", strings.Join(result.Differences, "\n  "))
	}
	return nil
}

// countDirectly finds the files and counts their words in this process.
func countDirectly(ctx context.Context, counting *wordcount.Config, display *screen.Screen) (err error) {
	if counting.Source == "" {
		if counting.Source, err = goSource(ctx); err != nil {
			return err
		}
	}
	// Absolute, because the jobs run in working folders of their own.
	if counting.Source, err = filepath.Abs(counting.Source); err != nil {
		return fmt.Errorf("find the files: %w", err)
	}
	if counting.Direct, err = wordcount.CountDirectly(counting.Source); err != nil {
		return err
	}
	display.Say(fmt.Sprintf("counted directly: %d words in %d files of %s", counting.Direct.Words(), len(counting.Direct), counting.Source))
	return nil
}

// countOnCluster starts a cluster, runs the count on it, and stops it.
func countOnCluster(ctx context.Context, config devcluster.Config, counting wordcount.Config, display *screen.Screen) (result *wordcount.Result, err error) {
	up, err := devcluster.Up(ctx, config, display, display.Say)
	if up != nil {
		defer func() { err = errors.Join(err, up.Stop()) }()
	}
	if err != nil {
		return nil, err
	}
	if _, err := showMembers(display.Out, config.Dir); err != nil {
		return nil, err
	}
	bar := display.Bar("counting", int64(counting.Jobs))
	defer bar.Close()
	return wordcount.Run(ctx, up.Reach, counting, display.Say, func(completed int64) {
		bar.Update(completed, fmt.Sprintf("%d of %d jobs completed", completed, counting.Jobs))
	})
}

// goSource returns the folder with the Go toolchain's own source.
func goSource(ctx context.Context) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find the Go toolchain's source: go env GOROOT: %w: name another folder with --source", err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), "src"), nil
}

func summaryTable(rows []wordcount.Row) string {
	page := newFacts()
	for _, row := range rows {
		page.add(row.Name, row.Value)
	}
	return page.String()
}

func newDevEstimatesCommand() *cobra.Command {
	var f devFlags
	var config foretell.Config
	cmd := &cobra.Command{
		Use:   "estimates",
		Short: "Keep a fresh cluster busy and say how good its estimates of starts are",
		Long: `Start a cluster in a temporary folder, keep four pools busy with random operations
whose jobs sleep, ask when those that wait will start jobs, and print how far that was from
when they did. The columns are those of weir simulate --estimates.`,
		Example: `  weir dev estimates --for 30m`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
			defer stop()
			return runDevEstimates(ctx, &f, config, screen.New(cmd.OutOrStdout()))
		},
	}
	flags := cmd.Flags()
	f.register(flags, "number of replicas: 1, 3 or 5")
	flags.DurationVar(&config.Lasts, "for", 30*time.Minute, "how long to keep the cluster busy")
	flags.Uint64Var(&config.Seed, "seed", 1, "seed of the operations")
	return cmd
}

func runDevEstimates(ctx context.Context, f *devFlags, foretold foretell.Config, display *screen.Screen) (err error) {
	switch {
	case foretold.Lasts < time.Second:
		return &exitError{exitUsage, fmt.Errorf("--for %v: must be at least 1s", foretold.Lasts)}
	case f.cluster.Agents < 1:
		return &exitError{exitUsage, fmt.Errorf("--agents %d: must be at least 1", f.cluster.Agents)}
	}
	dir, err := os.MkdirTemp("", "weir-estimates-")
	if err != nil {
		return fmt.Errorf("make a folder for the cluster: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	f.cluster.Dir = dir
	config, err := f.config()
	if err != nil {
		return err
	}
	up, err := devcluster.Up(ctx, config, display, display.Say)
	if up != nil {
		defer func() { err = errors.Join(err, up.Stop()) }()
	}
	if err != nil {
		return interrupted(ctx, err)
	}
	foretold.Slots = config.Agents * min(config.Share.CPU, config.Share.Slots)
	bar := display.Bar("asking", int64(foretold.Lasts.Seconds()))
	defer bar.Close()
	estimates, err := foretell.Run(ctx, up.Reach, foretold, func(ran time.Duration, asked int) {
		bar.Update(int64(ran.Seconds()), fmt.Sprintf("%d questions", asked))
	})
	if err != nil {
		return interrupted(ctx, err)
	}
	bar.Close()
	g := newEstimatesGrid()
	addEstimates(g, "", estimates)
	fmt.Fprintln(display.Out, g)
	return nil
}

// fairnessFlags holds the flags of weir dev fairness.
type fairnessFlags struct {
	seed, scenario uint64
	runs           int
	save           string
}

func newDevFairnessCommand() *cobra.Command {
	var f fairnessFlags
	cmd := &cobra.Command{
		Use:   "fairness",
		Short: "Simulate random clusters and check fairness guarantees",
		Long: `Simulate random clusters and check what pools were guaranteed: fair shares,
strong guarantees, timely first jobs, limits, the order of FIFO pools,
and how much work preemption loses. Exit code 0 means that all guarantees were met.

Each violation is printed with its scenario and the command that reruns it and
saves it as a file for weir simulate. "worst" is the smallest part of its fair share that a pool
got; the check allows half of its largest job.`,
		Example: `  weir dev fairness --seed 1 --runs 300
  weir dev fairness --scenario 100017 --save scenario.yaml
  weir simulate scenario.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.Uint64Var(&f.seed, "seed", 1, "seed of all scenarios")
	flags.IntVar(&f.runs, "runs", 300, "number of scenarios")
	flags.Uint64Var(&f.scenario, "scenario", 0, "run only this scenario")
	flags.StringVar(&f.save, "save", "", "with --scenario: write it to this file, for weir simulate")
	return cmd
}

func (f *fairnessFlags) run(cmd *cobra.Command) error {
	one := cmd.Flags().Changed("scenario")
	if f.save != "" && !one {
		return &exitError{exitUsage, fmt.Errorf("--save %s: name the scenario with --scenario", f.save)}
	}
	if f.runs < 1 {
		return &exitError{exitUsage, fmt.Errorf("--runs %d: must be at least 1", f.runs)}
	}
	seeds := fairness.Seeds(f.seed, f.runs)
	if one {
		seeds = []uint64{f.scenario}
	}
	if f.save != "" {
		s, err := fairness.New(f.scenario)
		if err != nil {
			return err
		}
		if err := os.WriteFile(f.save, s.Text, 0o644); err != nil {
			return fmt.Errorf("save scenario %d: %w", f.scenario, err)
		}
	}
	progress := screen.New(cmd.ErrOrStderr()).Bar("fairness", int64(len(seeds)))
	outcomes, err := fairness.RunAll(cmd.Context(), seeds, func(n int) { progress.Update(int64(n), fmt.Sprintf("%d of %d scenarios", n, len(seeds))) })
	progress.Close()
	if err != nil {
		return err
	}
	return showFairness(cmd.OutOrStdout(), outcomes)
}

func showFairness(to io.Writer, outcomes []fairness.Outcome) error {
	breaches := 0
	for _, o := range outcomes {
		if len(o.Breaches) == 0 {
			continue
		}
		fmt.Fprintf(to, "scenario %d, %s: weir dev fairness --scenario %d --save scenario.yaml\n", o.Seed, o.Kind, o.Seed)
		for _, b := range o.Breaches {
			fmt.Fprintf(to, "  %s: %s\n", cmp.Or(string(b.Pool), "all pools"), b.Problem)
		}
		breaches += len(o.Breaches)
	}
	for _, b := range fairness.JudgeAll(outcomes) {
		fmt.Fprintf(to, "all scenarios: %s\n", b.Problem)
		breaches++
	}
	fmt.Fprintf(to, "\n%s", fairnessTable(fairness.Table(outcomes)))
	if breaches > 0 {
		return fmt.Errorf("%d guarantees violated", breaches)
	}
	return nil
}

func fairnessTable(rows []fairness.Row) string {
	g := newGrid("kind", "scenarios>", "breaches>", "hungry>", "below 0.9>", "worst>", "judged>", "guarantees>", "below 0.97>", "worst>", "late>", "worst first wait>", "of at most>",
		"lost>", "worst pool>", "preempted an hour>", "out of order>")
	for _, r := range rows {
		g.row(r.Kind, r.Scenarios, r.Breaches, r.Hungry, r.Below, ratioText(r.WorstShare), ratioText(r.Judged), r.Guarantees, r.Short, ratioText(r.WorstGuarantee), r.Late, longTime(r.Wait), longTime(r.Patience),
			percent(r.Lost), percent(r.PoolLost), number(r.Preempted, 1), r.OutOfOrder)
	}
	return g.String()
}

func ratioText(ratio float64) string {
	if math.IsNaN(ratio) {
		return none
	}
	return fmt.Sprintf("%.3f", ratio)
}
