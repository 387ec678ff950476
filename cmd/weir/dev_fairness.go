package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/spf13/cobra"

	"weir/cmd/weir/internal/fairness"
	"weir/cmd/weir/internal/screen"
)

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
