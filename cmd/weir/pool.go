package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/messages/apipb"
)

func newPoolCommand(f *clientFlags) *cobra.Command {
	return group(&cobra.Command{
		Use:   "pool",
		Short: "Show and change pools",
		Long: `Show and change pools.

Pools are a tree that shares the cluster out: the pools below one pool get of its
share by their weights. Operations are in pools that have no pools below them.
Changes take the credentials of an operator.`,
		Example: "  weir pool list\n  weir pool create ads --weight 2",
	}, newPoolListCommand(f), newPoolGetCommand(f), newPoolCreateCommand(f), newPoolSetCommand(f), newPoolRemoveCommand(f))
}

func newPoolListCommand(f *clientFlags) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tree of pools with their shares and limits",
		Long: `List the tree of pools with their shares and limits.

Shares are of the resource that a pool needs most of: what is fair, what is used,
and what would be used if there were enough.`,
		Example: "  weir pool list\n  weir pool list --watch",
		Args:    takes(),
		RunE: f.verb(func(ctx context.Context, s *session, _ []string) error {
			return s.repeat(ctx, watch, func(ctx context.Context) (view, error) {
				all, err := s.ListPools(ctx)
				if err != nil {
					return view{}, err
				}
				return view{message: all, text: func(time.Time) string { return poolsText(all.GetPools()) }}, nil
			})
		}),
	}
	cmd.Flags().BoolVar(&watch, "watch", false, watchUsage)
	return cmd
}

func newPoolGetCommand(f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:               "get POOL",
		Short:             "Show one pool, and the revision of its tree",
		Example:           "  weir pool get ads",
		Args:              takes("POOL"),
		ValidArgsFunction: f.suggest(true, poolNames),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			answer, err := s.GetPool(ctx, args[0])
			if err != nil {
				return err
			}
			return s.show(view{message: answer, text: func(time.Time) string { return poolText(answer) }})
		}),
	}
}

func newPoolRemoveCommand(f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:               "remove POOL",
		SuggestFor:        suggestRemove,
		Short:             "Remove a pool that has no pools and no operations in progress",
		Example:           "  weir pool remove ads",
		Args:              takes("POOL"),
		ValidArgsFunction: f.suggest(true, poolNames),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			revision, err := s.RemovePool(ctx, args[0])
			if err != nil {
				return err
			}
			return s.said(&apipb.RemovePoolResponse{Revision: revision}, "removed pool %s (tree revision %d)", args[0], revision)
		}),
	}
}

// poolsText draws the tree. Parents are before their children.
func poolsText(pools []*apipb.Pool) string {
	g := newGrid("pool", "weight>", "fair share>", "usage>", "demand>", "dominant", "running>", "operations>")
	depth := make(map[string]int)
	for _, p := range pools {
		if above, ok := depth[p.GetParent()]; ok {
			depth[p.GetName()] = above + 1
		} else {
			depth[p.GetName()] = 0
		}
		g.row(strings.Repeat("  ", depth[p.GetName()])+p.GetName(), number(p.GetEffectiveWeight(), 3), share(p.FairShare), share(p.UsageShare),
			share(p.DemandShare), p.GetDominantResource(),
			limited(p.GetRunningOperationCount(), p.GetEffectiveMaxRunningOperationCount()),
			limited(p.GetOperationCount(), p.GetEffectiveMaxOperationCount()))
	}
	return g.String()
}

func poolText(answer *apipb.GetPoolResponse) string {
	p := answer.GetPool()
	set := func(isSet bool, value string) string {
		if !isSet {
			value += " (default)"
		}
		return value
	}
	page := newFacts()
	page.add("pool", p.GetName())
	page.add("parent", cmp.Or(p.GetParent(), "none"))
	page.add("weight", set(p.Weight != nil, number(p.GetEffectiveWeight(), 3)))
	page.add("fair share", share(p.FairShare))
	page.add("usage share", share(p.UsageShare))
	page.add("demand share", share(p.DemandShare))
	page.add("dominant resource", p.GetDominantResource())
	page.add("usage", amounts(p.GetUsage()))
	page.add("demand", amounts(p.GetDemand()))
	page.add("running operations", set(p.MaxRunningOperationCount != nil,
		fmt.Sprintf("%d of at most %d", p.GetRunningOperationCount(), p.GetEffectiveMaxRunningOperationCount())))
	page.add("operations", set(p.MaxOperationCount != nil,
		fmt.Sprintf("%d of at most %d", p.GetOperationCount(), p.GetEffectiveMaxOperationCount())))
	page.add("tree revision", fmt.Sprint(answer.GetRevision()))
	return page.String()
}
