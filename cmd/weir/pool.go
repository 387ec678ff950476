package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/poolfile"
	"weir/cmd/weir/internal/figures"
	"weir/messages/apipb"
	"weir/scheduling"
)

// poolFlags holds the flags that the verbs about pools share.
type poolFlags struct {
	*clientFlags
	tree string
	// revision is the revision that a tree must have to be changed; 0 means any.
	revision uint64
}

func newPoolCommand(f *clientFlags) *cobra.Command {
	p := &poolFlags{clientFlags: f}
	cmd := group(&cobra.Command{
		Use:   "pool",
		Short: "Show and change pools",
		Long: `Show and change pools.

Pools form a tree that divides the cluster: the children of a pool divide its
share by weight, after guarantees. Who administers a pool changes the pools
below it; operators change all (weir pool acl). Changes take effect at once.`,
		Example: "  weir pool tree\n  weir pool create ads weight=2\n  weir pool apply -f pools.yaml --dry-run",
	}, newPoolListCommand(p), newPoolTreeCommand(p), newPoolGetCommand(p), newPoolHistoryCommand(p), newPoolLedgerCommand(p),
		newPoolCreateCommand(p), newPoolSetCommand(p), newPoolApplyCommand(p), newPoolExportCommand(p), newPoolACLCommand(p), p.edits(&cobra.Command{
			Use:               "move POOL PARENT",
			Short:             "Move a pool and all pools below it to another parent",
			Long:              "Move a pool and all pools below it to another parent; '<Root>' is the root of the tree.",
			Example:           "  weir pool move ads-prod batch\n  weir pool move ads-prod '<Root>'",
			ValidArgsFunction: p.suggest(false, poolNamesOfTree),
		}, func(args []string) (string, *apipb.TreeEdit) {
			change := &apipb.PoolChange{Name: args[0], Parent: &args[1]}
			return fmt.Sprintf("moved pool %s below %s", args[0], args[1]), &apipb.TreeEdit{Edit: &apipb.TreeEdit_Change{Change: change}}
		}), p.edits(&cobra.Command{
			Use:     "rename POOL NAME",
			Short:   "Rename a pool; it keeps its operations and its volume",
			Example: "  weir pool rename ads advertising",
		}, func(args []string) (string, *apipb.TreeEdit) {
			rename := &apipb.RenamePool{From: args[0], To: args[1]}
			return fmt.Sprintf("renamed pool %s to %s", args[0], args[1]), &apipb.TreeEdit{Edit: &apipb.TreeEdit_Rename{Rename: rename}}
		}), p.edits(&cobra.Command{
			Use:        "remove POOL",
			SuggestFor: suggestRemove,
			Short:      "Remove a pool that has no pools and no operations in progress",
			Example:    "  weir pool remove ads",
		}, func(args []string) (string, *apipb.TreeEdit) {
			return "removed pool " + args[0], &apipb.TreeEdit{Edit: &apipb.TreeEdit_Remove{Remove: args[0]}}
		}))
	cmd.PersistentFlags().StringVar(&p.tree, "tree", "", "pool tree (default: the default tree)")
	return cmd
}

func newPoolListCommand(f *poolFlags) *cobra.Command {
	return watchable(&cobra.Command{
		Use:   "list",
		Short: "List the pools of a tree with their shares and limits",
		Long: `List the pools of a tree with their shares and limits.

Shares are of a pool's dominant resource: its fair share, its usage,
and its demand.`,
		Example: "  weir pool list\n  weir pool list --tree gpu --watch\n  weir pool list -o json",
		RunE: f.shows(func(ctx context.Context, s *session, _ []string) (view, error) {
			all, err := s.ListPools(ctx, f.tree)
			return view{message: all, rows: true, fit: func(now time.Time, screen int) string { return poolsText(all.GetPools(), now, screen) }}, err
		}),
	})
}

func newPoolGetCommand(f *poolFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "get POOL",
		Short: "Show one pool, and the revision of its tree",
		Long: `Show one pool, and the revision of its tree.

In json and yaml it also has its effective settings, including those of the pools
above and the defaults of the tree.`,
		Example: "  weir pool get ads\n  weir pool get ads --tree gpu -o yaml\n  weir pool get '<Root>'",
		RunE: f.shows(func(ctx context.Context, s *session, args []string) (view, error) {
			answer, err := s.GetPool(ctx, f.tree, args[0])
			return view{message: answer, text: func(now time.Time) string { return poolText(answer, now) }}, err
		}),
	}
}

// poolsText draws the tree. Parents are before their children.
func poolsText(pools []*apipb.Pool, now time.Time, screen int) string {
	g := newGrid("pool", "weight>?5", "guarantee>?4", "fair share>", "usage>", "demand>?1", "dominant?6", "running>?2", "operations>?3", "status")
	for _, p := range ranked(pools) {
		g.row(strings.Repeat("  ", len(p.last)-1)+p.GetName(), number(p.GetEffectiveWeight(), 3), share(p.StrongGuaranteeShare), share(p.FairShare), share(p.UsageShare),
			share(p.DemandShare), p.GetDominantResource(),
			limited(p.GetRunningOperationCount(), p.GetEffectiveMaxRunningOperationCount()),
			limited(p.GetOperationCount(), p.GetEffectiveMaxOperationCount()), stateCell(poolStatus(p.Pool, now)))
	}
	return g.within(screen)
}

// rankedPool is a pool with its place in the tree.
type rankedPool struct {
	*apipb.Pool
	// last says for each pool from the top down to this one whether it is the last child of
	// its parent.
	last []bool
}

// ranked orders pools so that each is followed by its descendants.
func ranked(pools []*apipb.Pool) []rankedPool {
	below := make(map[string][]*apipb.Pool)
	known := make(map[string]bool)
	for _, p := range pools {
		below[p.GetParent()] = append(below[p.GetParent()], p)
		known[p.GetName()] = true
	}
	var out []rankedPool
	var add func(parent string, last []bool)
	add = func(parent string, last []bool) {
		for i, p := range below[parent] {
			out = append(out, rankedPool{p, append(slices.Clip(last), i == len(below[parent])-1)})
			add(p.GetName(), out[len(out)-1].last)
		}
	}
	for _, p := range pools {
		if !known[p.GetParent()] {
			add(p.GetParent(), nil)
			known[p.GetParent()] = true
		}
	}
	return out
}

func poolText(answer *apipb.GetPoolResponse, now time.Time) string {
	p := answer.GetPool()
	page := newFacts()
	page.add("pool", p.GetName())
	page.add("tree", p.GetTree())
	if p.GetName() != string(scheduling.RootPool) {
		page.add("parent", cmp.Or(p.GetParent(), string(scheduling.RootPool)))
		page.add("made for", p.GetEphemeralUser())
		page.add("weight", defaulted(p, "weight", number(p.GetEffectiveWeight(), 3)))
	}
	page.add("guarantee", guaranteeText(p))
	page.add("fair share", share(p.FairShare))
	page.add("usage share", share(p.UsageShare))
	page.add("claimed", when(p.GetClaimedShare() > 0, fmt.Sprintf("%s, waiting for others to stop: %s", share(p.ClaimedShare), amounts(p.GetClaimed()))))
	page.add("demand share", share(p.DemandShare))
	page.add("dominant resource", p.GetDominantResource())
	page.addState("status", poolStatus(p, now))
	page.add("volume", volumeText(p))
	page.add("usage", amounts(p.GetUsage()))
	page.add("demand", amounts(p.GetDemand()))
	page.add("running operations", defaulted(p, "max_running_operation_count",
		fmt.Sprintf("%d of at most %d", p.GetRunningOperationCount(), p.GetEffectiveMaxRunningOperationCount())))
	page.add("operations", defaulted(p, "max_operation_count",
		fmt.Sprintf("%d of at most %d", p.GetOperationCount(), p.GetEffectiveMaxOperationCount())))
	page.add("tree revision", fmt.Sprint(answer.GetRevision()))
	return page.String() + optionsText(p.GetOptions())
}

// guaranteeText returns the share of the cluster that a pool is guaranteed, and the amounts that make it.
func guaranteeText(p *apipb.Pool) string {
	var of []string
	given := p.GetOptions().GetFields()["strong_guarantee_resources"].GetStructValue().AsMap()
	for _, v := range poolfile.Diff(nil, given) {
		of = append(of, poolfile.Text(v.Path, v.New)+" "+v.Path)
	}
	if p.StrongGuaranteeShare == nil {
		return strings.Join(of, ", ")
	}
	return share(p.StrongGuaranteeShare) + when(len(of) > 0, ": "+strings.Join(of, ", "))
}

// defaulted returns the value of a setting. For the root pool the value is marked as the tree's;
// for another pool that does not set it, as the default.
func defaulted(p *apipb.Pool, name, value string) string {
	_, set := p.GetOptions().GetFields()[name]
	root := p.GetName() == string(scheduling.RootPool)
	return value + when(root, " (of the tree)") + when(!root && !set, " (default)")
}

// optionsText lists the options that are set, if any.
func optionsText(options *structpb.Struct) string {
	page := newFacts()
	for _, v := range poolfile.Diff(nil, options.AsMap()) {
		page.add("  "+v.Path, poolfile.Text(v.Path, v.New))
	}
	return page.section("options that are set:\n")
}

func newPoolTreeCommand(f *poolFlags) *cobra.Command {
	return watchable(&cobra.Command{
		Use:   "tree",
		Short: "Draw the pool tree with fair share, usage and demand",
		Long: `Draw the pool tree with fair share, usage and demand.

All shares are of the whole cluster, by the pool's dominant resource. The
guarantee is what a pool gets whenever it has demand; the volume of pools with integral
guarantees is what they have accumulated, in seconds of the whole cluster, and how much
they may accumulate. Warnings below it name guarantees that cannot be met.`,
		Example: "  weir pool tree\n  weir pool tree --tree gpu --watch",
		RunE: f.shows(func(ctx context.Context, s *session, _ []string) (view, error) {
			all, err := s.ListPools(ctx, f.tree)
			return view{message: all, rows: true, fit: func(now time.Time, screen int) string { return poolTreeText(all, now, screen) }}, err
		}),
	})
}

// poolTreeText draws a tree with lines from each pool to its children.
func poolTreeText(all *apipb.ListPoolsResponse, now time.Time, screen int) string {
	g := newGrid("pool", "weight>?3", "guarantee>?2", "fair share>", "usage>", "demand>?1", "status", "volume?4")
	for _, p := range ranked(all.GetPools()) {
		name := ""
		for i, last := range p.last {
			switch own := i == len(p.last)-1; {
			case own && last:
				name += "└─ "
			case own:
				name += "├─ "
			case last:
				name += "   "
			default:
				name += "│  "
			}
		}
		name += p.GetName() + when(p.GetEphemeralUser() != "", " (ephemeral)")
		g.row(name, number(p.GetEffectiveWeight(), 3), share(p.StrongGuaranteeShare), share(p.FairShare), share(p.UsageShare),
			share(p.DemandShare), stateCell(poolStatus(p.Pool, now)), volumeText(p.Pool))
	}
	drawn := fmt.Sprintf("%s (revision %d)\n%s", all.GetTree(), all.GetRevision(), g.within(screen))
	for _, alert := range all.GetAlerts() {
		drawn += "warning: " + alert + "\n"
	}
	return drawn
}

// poolStatus returns a pool's status in words, and how long it has been below its share; "" if all is well.
func poolStatus(p *apipb.Pool, now time.Time) string {
	status, joined := p.GetSchedulingStatus(), " for "
	if starving := p.GetStarvationStatus(); starving != "" && starving != "non_starving" {
		status, joined = starving, ", below for "
	}
	return strings.ReplaceAll(status, "_", " ") + when(p.BelowSince != nil, joined+figures.Span(now.Sub(p.GetBelowSince().AsTime())))
}

// volumeText returns the volume that a pool with integral guarantees has accumulated, and
// its limit.
func volumeText(p *apipb.Pool) string {
	return when(p.AccumulatedResourceRatioVolume != nil,
		fmt.Sprintf("%s of %s s", number(p.GetAccumulatedResourceRatioVolume(), 1), number(p.GetIntegralPoolCapacity(), 0)))
}
