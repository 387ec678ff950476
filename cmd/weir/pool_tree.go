package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/messages/apipb"
)

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
			return view{message: all, rows: true, text: func(time.Time) string { return poolTreeText(all) }}, err
		}),
	})
}

// poolTreeText draws a tree with lines from each pool to its children.
func poolTreeText(all *apipb.ListPoolsResponse) string {
	g := newGrid("pool", "weight>", "guarantee>", "fair share>", "usage>", "demand>", "status", "volume")
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
			share(p.DemandShare), poolStatus(p.Pool), volumeText(p.Pool))
	}
	drawn := fmt.Sprintf("%s (revision %d)\n%s", all.GetTree(), all.GetRevision(), g)
	for _, alert := range all.GetAlerts() {
		drawn += "warning: " + alert + "\n"
	}
	return drawn
}

// poolStatus returns a pool's status in words; "" if all is well.
func poolStatus(p *apipb.Pool) string {
	status := p.GetSchedulingStatus()
	if starving := p.GetStarvationStatus(); starving != "" && starving != "non_starving" {
		status = starving
	}
	return strings.ReplaceAll(status, "_", " ")
}

// volumeText returns the volume that a pool with integral guarantees has accumulated, and
// its limit.
func volumeText(p *apipb.Pool) string {
	return when(p.AccumulatedResourceRatioVolume != nil,
		fmt.Sprintf("%s of %s s", number(p.GetAccumulatedResourceRatioVolume(), 1), number(p.GetIntegralPoolCapacity(), 0)))
}
