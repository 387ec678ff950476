package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/internal/figures"
	"weir/cmd/weir/internal/screen"
	"weir/cmd/weir/internal/simulate"
	"weir/scheduling"
	"weir/scheduling/option"
)

// simulateFlags holds the flags of weir simulate.
type simulateFlags struct {
	csv, charts string
	seed        uint64
	duration    string
	set         []string
	control     []string
	noControl   bool
	estimates   bool
	format      format
	// live has the cluster of these settings simulated; save is a folder for the files of that.
	live    bool
	cluster clientFlags
	tree    string
	save    string
}

func newSimulateCommand() *cobra.Command {
	f := simulateFlags{format: formatTable}
	cmd := &cobra.Command{
		Use:   "simulate [FILE]",
		Short: "Simulate days of a cluster in seconds",
		Long: `Simulate days of a cluster in seconds. A file describes nodes, pools, operations and
failures: see docs/simulate.md. The state machine and the engine are those of real
clusters; people, jobs and nodes are simulated.

With --live it is the cluster as it is: its nodes and pools, the operations in progress,
and those of the last day, which come again each day. So --control says what a change
would do over days. Nothing in the cluster changes.

A control run of the same file with some changes is printed beside it: those
under control in the file, or those of --control. Equal files and seeds give
equal results.`,
		Example: `  weir simulate examples/simulations/burst-and-relaxed.yaml
  weir simulate week.yaml --set duration=1d --charts /tmp/week --csv /tmp/week
  weir simulate week.yaml --control pools.ads.weight=5 -o json
  weir simulate --live --duration 3d --control pools.ads.weight=5`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.live == (len(args) == 1) {
				return usage(errors.New("give a FILE, or --live"))
			}
			if f.live {
				return f.run(cmd, "")
			}
			for _, name := range []string{"save", "tree", "context", "addresses", "credentials", "insecure-plaintext"} {
				if cmd.Flags().Changed(name) {
					return usage(fmt.Errorf("--%s needs --live", name))
				}
			}
			return f.run(cmd, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.csv, "csv", "", "folder for series as CSV: of the cluster, of pools, of days")
	flags.StringVar(&f.charts, "charts", "", "folder for charts of the series, as SVG and PNG")
	flags.Uint64Var(&f.seed, "seed", 0, "random seed (default: that of the file, or 1)")
	flags.StringVar(&f.duration, "duration", "", "simulated time, such as 7d (default: that of the file, or 1d)")
	flags.StringArrayVar(&f.set, "set", nil, "PATH=VALUE that overrides the file, such as pools.ads.weight=5; can be repeated")
	flags.StringArrayVar(&f.control, "control", nil, "PATH=VALUE to change in the control run, in place of the control changes in the file; can be repeated")
	flags.BoolVar(&f.estimates, "estimates", false, "also estimate when waiting operations start jobs, and say how good that was; takes longer")
	flags.BoolVar(&f.noControl, "no-control", false, "no control run")
	flags.BoolVar(&f.live, "live", false, "simulate the cluster as it is, with the load of the last day")
	flags.StringVar(&f.tree, "tree", "", "with --live: the pool tree to simulate (default: the default tree)")
	flags.StringVar(&f.save, "save", "", "with --live: folder for the files that describe the simulation, simulation.yaml and operations.jsonl")
	must(cmd.MarkFlagDirname("save"))
	registerOutput(cmd, flags, &f.format)
	f.cluster.registerCluster(cmd)
	return cmd
}

func (f *simulateFlags) run(cmd *cobra.Command, name string) error {
	file, err := f.read(cmd, name)
	if err != nil {
		return usage(err)
	}
	result, err := f.simulate(cmd.Context(), cmd.ErrOrStderr(), file)
	if err != nil {
		return err
	}
	if f.csv != "" {
		if err := result.WriteCSV(f.csv); err != nil {
			return err
		}
	}
	if f.charts != "" {
		if err := result.SaveCharts(f.charts); err != nil {
			return err
		}
	}
	message, err := simulationMessage(result)
	if err != nil {
		return err
	}
	p := newPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), f.format)
	if err := p.show(view{message: message, text: func(time.Time) string { return simulationText(result) }}); err != nil {
		return err
	}
	p.note("%s", speedText(result))
	return nil
}

// read reads the file and applies the flags to it.
func (f *simulateFlags) read(cmd *cobra.Command, name string) (*simulate.File, error) {
	changes, set := simulate.Changes{NoControl: f.noControl}, f.set
	if f.duration != "" {
		set = slices.Insert(slices.Clone(set), 0, "duration="+f.duration)
	}
	if cmd.Flags().Changed("seed") {
		set = slices.Insert(slices.Clone(set), 0, fmt.Sprintf("seed=%d", f.seed))
	}
	for _, flag := range []struct {
		name  string
		texts []string
		into  *[]*option.Value
	}{{"--set", set, &changes.Set}, {"--control", f.control, &changes.Control}} {
		for _, text := range flag.texts {
			setting, err := simulate.ReadSetting(text)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", flag.name, text, err)
			}
			*flag.into = append(*flag.into, setting)
		}
	}
	if f.live {
		return f.readLive(cmd, changes)
	}
	// Files named in the file are relative to its folder.
	open := func(other string) ([]byte, error) {
		if !filepath.IsAbs(other) && name != "-" {
			other = filepath.Join(filepath.Dir(name), other)
		}
		return os.ReadFile(other)
	}
	return readAs("simulation", name, cmd.InOrStdin(), func(data []byte) (*simulate.File, error) { return simulate.Read(data, open, changes) })
}

// readLive reads the cluster as it is.
func (f *simulateFlags) readLive(cmd *cobra.Command, changes simulate.Changes) (*simulate.File, error) {
	length, err := simulate.LiveLength(changes.Set)
	if err != nil {
		return nil, err
	}
	var data, trace []byte
	err = f.cluster.verb(func(ctx context.Context, s *session, _ []string) error {
		live, err := s.live(ctx, f.tree)
		if err != nil {
			return err
		}
		var guesses simulate.Guesses
		data, trace, guesses, err = live.Write(length)
		for _, note := range []struct {
			n           int
			thing, what string
		}{
			{guesses.Hidden, "operation", "left out that you may not read"},
			{guesses.Suspended, "operation", "left out: suspended"},
			{guesses.Homeless, "operation", "left out: pool gone"},
			{guesses.Nodes, "node", "left out: offline, drained or of another tree"},
			{guesses.Unknown, "task", "without a job that has ended: run times are guessed"},
		} {
			if note.n > 0 {
				s.note("%s %s", figures.Several(int64(note.n), note.thing), note.what)
			}
		}
		return usage(err)
	})(cmd, nil)
	if err != nil {
		return nil, err
	}
	if f.save != "" {
		if err := saveLive(f.save, data, trace); err != nil {
			return nil, err
		}
	}
	return simulate.Read(data, func(string) ([]byte, error) { return trace, nil }, changes)
}

// live reads a tree of the cluster as it is, with the operations of the last day.
func (s *session) live(ctx context.Context, tree string) (*simulate.Live, error) {
	described, err := s.ListPools(ctx, tree)
	if err != nil {
		return nil, err
	}
	live := &simulate.Live{Name: "tree " + described.GetTree(), Now: time.Now(), Tree: scheduling.TreeName(described.GetTree()), Volumes: map[scheduling.PoolName]float64{}}
	if live.Pools, err = treeOf(described.GetTreeOptions(), described.GetPools()); err != nil {
		return nil, err
	}
	for _, p := range described.GetPools() {
		live.Volumes[scheduling.PoolName(p.GetName())] = p.GetAccumulatedResourceRatioVolume()
	}
	return live, live.Read(ctx, s.Client, s.note)
}

// saveLive writes the files of a simulation. It replaces none: they may have been changed since they were saved.
func saveLive(folder string, data, trace []byte) error {
	err := os.MkdirAll(folder, 0o777)
	for _, file := range []struct {
		name string
		text []byte
	}{{"simulation.yaml", data}, {simulate.TraceFile, trace}} {
		var to *os.File
		if err == nil {
			to, err = os.OpenFile(filepath.Join(folder, file.name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		}
		if err == nil {
			_, err = to.Write(file.text)
			err = errors.Join(err, to.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("--save: %w", err)
	}
	return nil
}

// simulate executes the run, and the control run at the same time.
func (f *simulateFlags) simulate(ctx context.Context, to io.Writer, file *simulate.File) (*simulate.Result, error) {
	runs := []*simulate.File{file}
	if file.Control != nil {
		runs = append(runs, file.Control)
	}
	for _, run := range runs {
		run.Estimates = f.estimates
	}
	view := &simulationView{passed: make([]time.Duration, len(runs))}
	for _, run := range runs {
		view.total += run.Duration
	}
	if display := screen.New(to); display.Live() {
		view.bar = display.Bar("simulate", int64(view.total/time.Second))
	}
	defer view.bar.Close()
	// A run that fails ends the other one.
	each, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	results := make([]*simulate.Result, len(runs))
	var all sync.WaitGroup
	for i, run := range runs {
		all.Go(func() {
			var err error
			if results[i], err = simulate.Run(each, run, func(now time.Duration) { view.show(i, now) }); err != nil {
				fail(err)
			}
		})
	}
	all.Wait()
	if err := cmp.Or(ctx.Err(), context.Cause(each)); err != nil {
		return nil, explain(err)
	}
	if file.Control != nil {
		results[0].Control, results[1].Name = results[1], file.ControlName
	}
	return results[0], nil
}

// simulationView shows the progress of runs.
type simulationView struct {
	bar   *screen.Bar
	total time.Duration

	mu     sync.Mutex
	passed []time.Duration
}

func (v *simulationView) show(run int, now time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.passed[run] = now
	sum := time.Duration(0)
	for _, passed := range v.passed {
		sum += passed
	}
	v.bar.Update(int64(sum/time.Second), fmt.Sprintf("day %d", int(v.passed[0]/(24*time.Hour))+1))
}
