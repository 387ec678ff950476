package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/api/document"
	"weir/api/poolfile"
	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
	"weir/scheduling/whatif"
)

// whatifFlags holds the flags of weir whatif.
type whatifFlags struct {
	file, tree             string
	set, setTree           []string
	addPools, removePools  []string
	addOps, removeOps      []string
	nodes                  []string
	poolsOnly, changedOnly bool
}

func newWhatifCommand(f *clientFlags) *cobra.Command {
	var w whatifFlags
	cmd := &cobra.Command{
		Use:   "whatif",
		Short: "Show the fair shares as they would be after a change",
		Long: `Show the fair shares as they are and as they would be after a change, side by side.
Nothing is changed. The shares are computed by the engine that schedules the cluster.

Without -f, the start is the cluster as it is now: its pools and nodes, the jobs that
run, those that wait, and the volumes of pools. With -f, it is a cluster that a
file describes, and no running cluster is needed: see docs/pools.md.

--set sets an option of a pool or of an operation: the option parent moves a pool,
the option pool moves an operation. --add-pool and --add-operation take a name with options in YAML: jobs is
how many jobs an operation could run at once, job is what each of them needs.`,
		Example: `  weir whatif --set ads/weight=5
  weir whatif --set ads/strong_guarantee_resources.cpu=40 --nodes '+10x{cpu: 32, memory: 128GiB}'
  weir whatif --add-pool 'new: {parent: ads, weight: 2}' --add-operation 'big: {pool: new, jobs: 100, job: {cpu: 2}}'
  weir whatif -f cluster.yaml --set ads/weight=5 -o json`,
	}
	var changes []whatif.Change
	checked(cmd, func([]string) (err error) {
		changes, err = w.changes()
		return err
	})
	live := f.verb(func(ctx context.Context, s *session, _ []string) error {
		before, after, err := w.ask(ctx, s, changes)
		if err != nil {
			return err
		}
		return w.show(s.printer, before, after, len(changes) > 0)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if w.file == "" {
			return live(cmd, args)
		}
		cluster, err := readAs("cluster", w.file, cmd.InOrStdin(), poolfile.ReadCluster)
		if err != nil {
			return usage(err)
		}
		cluster.At = time.Unix(0, 0)
		before, after, err := compare(cluster, changes)
		if err != nil {
			return err
		}
		return w.show(newPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), f.format), before, after, len(changes) > 0)
	}
	flags := cmd.Flags()
	flags.StringVarP(&w.file, "file", "f", "", "file that describes a cluster, - for standard input (default: the cluster as it is)")
	flags.StringVar(&w.tree, "tree", "", "pool tree of the cluster (default: the default tree)")
	flags.StringArrayVar(&w.set, "set", nil, "POOL/OPTION=VALUE, or OPERATION/OPTION=VALUE; this and the other flags for changes can be repeated")
	flags.StringArrayVar(&w.setTree, "set-tree", nil, "OPTION=VALUE of the tree itself")
	flags.StringArrayVar(&w.addPools, "add-pool", nil, "pool to add: NAME, or NAME: {parent: POOL, OPTION: VALUE}")
	flags.StringArrayVar(&w.removePools, "remove-pool", nil, "pool to remove")
	flags.StringArrayVar(&w.addOps, "add-operation", nil, "operation to add: NAME: {pool: POOL, jobs: 100, job: {cpu: 1}}")
	flags.StringArrayVar(&w.removeOps, "remove-operation", nil, "id or alias of an operation to remove")
	flags.StringArrayVar(&w.nodes, "nodes", nil, "nodes to add or remove: +10x{cpu: 32, memory: 128GiB, tags: [ssd]} or -2x{...}")
	flags.BoolVar(&w.poolsOnly, "pools", false, "show pools only")
	flags.BoolVar(&w.changedOnly, "changed", false, "show only what changes")
	must(cmd.RegisterFlagCompletionFunc("set-tree", f.completeOptions(nil, option.Fields(pooltree.TreeOptions{}))))
	return cmd
}

// changes parses the changes that the flags describe.
func (w *whatifFlags) changes() ([]whatif.Change, error) {
	var out []whatif.Change
	for _, text := range w.addPools {
		p, err := poolfile.ReadPool(text)
		if err != nil {
			return nil, fmt.Errorf("--add-pool %s: %w", text, err)
		}
		out = append(out, whatif.Change{AddPool: &p})
	}
	for _, text := range w.addOps {
		op, err := poolfile.ReadOperation(text)
		if err != nil {
			return nil, fmt.Errorf("--add-operation %s: %w", text, err)
		}
		out = append(out, whatif.Change{AddOperation: &op})
	}
	for _, id := range w.removeOps {
		out = append(out, whatif.Change{RemoveOperation: scheduling.OperationID(id)})
	}
	for _, text := range w.nodes {
		n, err := nodesOf(text, w.file == "")
		if err != nil {
			return nil, fmt.Errorf("--nodes %s: %w", text, err)
		}
		out = append(out, whatif.Change{AddNodes: &n})
	}
	for _, text := range w.set {
		s, err := settingOf(text)
		if err != nil {
			return nil, fmt.Errorf("--set %s: %w", text, err)
		}
		out = append(out, whatif.Change{Set: &s})
	}
	for _, text := range w.setTree {
		values, err := assignments[pooltree.TreeOptions]([]string{text}, nil)
		if err != nil {
			return nil, fmt.Errorf("--set-tree: %w", err)
		}
		out = append(out, whatif.Change{SetTree: &whatif.Setting{Path: values[0].path, Value: values[0].value}})
	}
	for _, name := range w.removePools {
		out = append(out, whatif.Change{RemovePool: scheduling.PoolName(name)})
	}
	return out, nil
}

// settingOf parses POOL/OPTION=VALUE.
func settingOf(text string) (whatif.Setting, error) {
	path, value, ok := strings.Cut(text, "=")
	of, option, named := strings.Cut(path, "/")
	if !ok || !named || of == "" || option == "" {
		return whatif.Setting{}, errors.New("must have the form POOL/OPTION=VALUE, such as ads/weight=5")
	}
	if option == "parent" || option == "pool" {
		return whatif.Setting{Of: of, Path: option, Value: value}, nil
	}
	values, err := assignments[pooltree.PoolOptions]([]string{option + "=" + value}, nil)
	if err != nil {
		// It may be an option of operations only.
		ops, opErr := assignments[pooltree.OperationOptions]([]string{option + "=" + value}, nil)
		if opErr != nil {
			return whatif.Setting{}, err
		}
		values = ops
	}
	return whatif.Setting{Of: of, Path: values[0].path, Value: values[0].value}, nil
}

// slotsPerCore is the user slots of an agent per core, by default.
const slotsPerCore = 4

// nodesOf parses +10x{cpu: 32, memory: 128GiB}. A node of a live cluster gets the default
// user_slots of agents unless the text names them.
func nodesOf(text string, live bool) (whatif.Node, error) {
	form := errors.New("write +10x{cpu: 32, memory: 128GiB} to add nodes, or -2x{...} to remove some")
	count, shape, ok := strings.Cut(text, "x")
	n, err := strconv.ParseInt(count, 10, 64)
	if !ok || err != nil || n == 0 || !strings.HasPrefix(text, "+") && !strings.HasPrefix(text, "-") {
		return whatif.Node{}, form
	}
	value, err := document.ReadLiteral(shape)
	if err != nil {
		return whatif.Node{}, fmt.Errorf("%w: %w", form, err)
	}
	var read poolfile.Nodes
	switch err := read.ReadOption(value); {
	case err != nil:
		return whatif.Node{}, err
	case read.Count != nil || read.Name != nil:
		return whatif.Node{}, form
	}
	missing := resource.Amounts{}
	if live {
		missing.UserSlots = int64(slotsPerCore * read.Resources.Amounts.CPU.Cores())
	}
	return whatif.Node{Count: n, Resources: read.Resources.Or(missing), Tags: read.Tags}, nil
}

// compare computes the fair shares of a described cluster before and after changes.
func compare(cluster whatif.Cluster, changes []whatif.Change) (before, after whatif.Result, err error) {
	changed, err := cluster.With(changes...)
	if err != nil {
		return before, after, &exitError{exitUsage, fmt.Errorf("impossible change: %w", err)}
	}
	if before, err = cluster.Solve(); err != nil {
		return before, after, err
	}
	after, err = changed.Solve()
	return before, after, err
}

// show shows fair shares side by side; changed says that there are changes between them.
func (w *whatifFlags) show(p *printer, before, after whatif.Result, changed bool) error {
	var shown []whatif.Difference
	for _, d := range whatif.Compare(before, after) {
		same := d.Before != nil && d.After != nil && strings.TrimPrefix(number(100*d.Change(), 3), "-") == "0"
		if w.poolsOnly && !d.Either().Pool || w.changedOnly && same {
			continue
		}
		shown = append(shown, d)
	}
	message, err := whatifMessage(before, after, shown)
	if err != nil {
		return err
	}
	return p.show(view{message: message, text: func(time.Time) string { return whatifText(before, after, shown, changed) }})
}

// whatifText draws the shares side by side.
func whatifText(before, after whatif.Result, shown []whatif.Difference, changed bool) string {
	columns := []string{"pool or operation", "guarantee>", "fair share>"}
	if changed {
		columns = append(columns, "after>", "difference>")
	}
	g := newGrid(append(columns, "usage>", "demand>", "of")...)
	depth := make(map[string]int)
	for _, d := range shown {
		s := d.Either()
		level := 0
		if above, ok := depth[string(s.Parent)]; ok && s.Parent != "" {
			level = above + 1
		}
		name := strings.Repeat("  ", level) + s.Name
		if s.Pool {
			depth[s.Name] = level
		} else {
			name += " (operation)"
		}
		row := []any{name, percent(s.Guarantee.MaxComponent()), fairText(d.Before)}
		if changed {
			row = append(row, fairText(d.After), differenceText(d))
		}
		g.row(append(row, percent(s.Usage.MaxComponent()), percent(s.Demand.MaxComponent()), s.Dominant())...)
	}
	table := g.String()
	if changed && len(shown) == 0 {
		table = "nothing changes\n"
	}
	table += warnings("", before)
	if changed {
		table += warnings(" after the change", after)
		if before.Total != after.Total {
			table += fmt.Sprintf("the cluster has %s, and %s after the change\n", amounts(shownAmounts(before.Total)), amounts(shownAmounts(after.Total)))
		}
	}
	return table
}

// fairText formats a fair share; a dash if there is none.
func fairText(s *whatif.Share) string {
	if s == nil {
		return none
	}
	return percent(s.Fair.MaxComponent())
}

func percent(part float64) string { return share(&part) }

func differenceText(d whatif.Difference) string {
	switch {
	case d.Before == nil:
		return "new"
	case d.After == nil:
		return "gone"
	}
	change := strconv.FormatFloat(100*d.Change(), 'f', 1, 64)
	switch {
	case change == "0.0", change == "-0.0":
		return "="
	case strings.HasPrefix(change, "-"):
		return change + "%"
	}
	return "+" + change + "%"
}

func warnings(at string, r whatif.Result) string {
	var b strings.Builder
	for _, o := range r.Overcommitted {
		fmt.Fprintf(&b, "over-committed%s: %s: the guarantees are reduced until they fit\n", at, o)
	}
	for _, alert := range r.Alerts {
		fmt.Fprintf(&b, "warning%s: %s\n", at, alert)
	}
	return when(b.Len() > 0, "\n"+b.String())
}
