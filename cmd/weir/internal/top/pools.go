package top

import (
	"cmp"
	"fmt"
	"strings"

	"weir/cmd/weir/internal/figures"
)

// newPools shows the pools of the trees, each below its parent.
func newPools(m *Model) page {
	p := &listPage[Pool]{base: base{page: m.nextPage(), title: "Pools"}, table: newTable(poolID, func(p Pool) []string { return []string{p.Name, p.Tree} }, poolColumns()...)}
	p.first = func() Question { return Question{About: aboutPools, Tree: m.cfg.Tree} }
	p.pick = func(a Answer) []Pool { return a.Pools }
	p.of = func(pool Pool) subject {
		if pool.Name == "" {
			return subject{}
		}
		return subject{tree: pool.Tree, pool: pool.Name, title: "pool " + pool.Name}
	}
	p.tell = tellPool
	p.deeper = func(m *Model, pool Pool) {
		if pool.Name != "" {
			m.push(newOperations(m, pool.Tree, pool.Name))
		}
	}
	return p
}

// tellPool says all of the selected pool in words.
func tellPool(_ *Model, p Pool) cell {
	if p.Name == "" || !p.Known {
		return cell{}
	}
	text := fmt.Sprintf("%s: usage %s, fair share %s, demand %s, guarantee %s of the %s", p.Name, percent(p.Usage, true), percent(p.Fair, true),
		percent(p.Demand, true), percent(p.Guarantee, true), p.Dominant)
	text += figures.When(p.Claimed > 0, ", claims "+percent(p.Claimed, true)+" that others have to leave")
	text += figures.When(p.Capacity > 0, fmt.Sprintf(", volume %s of %s s", figures.Number(p.Volume, 0), figures.Number(p.Capacity, 0)))
	return cell{text + fmt.Sprintf("; %d of at most %d operations run", p.Running, p.MaxRunning), plain}
}

func poolID(p Pool) string { return p.Tree + "/" + p.Name }

func poolColumns() []column[Pool] {
	part := func(title string, rank int, of func(Pool) float64) column[Pool] {
		return column[Pool]{title: title, right: true, width: 7, rank: rank,
			cell:    func(p Pool, _ look, _ int) cell { return cell{percent(of(p), p.Known && p.Name != ""), plain} },
			compare: func(a, b Pool) int { return cmp.Compare(of(a), of(b)) }}
	}
	return []column[Pool]{
		{title: "POOL", width: 14, grow: 2, cell: poolName, compare: func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) }},
		{title: "STATE", width: 10, cell: poolState, compare: func(a, b Pool) int { return cmp.Compare(b.Starvation, a.Starvation) }},
		{title: "SINCE", right: true, width: 6, rank: 1, cell: func(p Pool, at look, _ int) cell {
			return cell{figures.When(!p.Below.IsZero(), figures.Span(at.now.Sub(p.Below))), poolColour(p)}
		}, compare: func(a, b Pool) int { return b.Below.Compare(a.Below) }},
		{title: "SHARES", width: 16, grow: 3, cell: func(p Pool, _ look, n int) cell { return cell{shareBar(p, n), poolColour(p)} }},
		part("USAGE", 0, func(p Pool) float64 { return p.Usage }),
		part("FAIR", 0, func(p Pool) float64 { return p.Fair }),
		part("DEMAND", 2, func(p Pool) float64 { return p.Demand }),
		part("GUAR", 3, func(p Pool) float64 { return p.Guarantee }),
		{title: "RUN", right: true, width: 7, rank: 4, cell: func(p Pool, _ look, _ int) cell {
			return cell{figures.When(p.Name != "", fmt.Sprintf("%d/%d", p.Running, p.MaxRunning)), plain}
		}, compare: func(a, b Pool) int { return cmp.Compare(a.Running, b.Running) }},
		{title: "OPS", right: true, width: 6, rank: 5, cell: func(p Pool, _ look, _ int) cell {
			return cell{figures.When(p.Name != "", fmt.Sprint(p.Operations)), plain}
		}, compare: func(a, b Pool) int { return cmp.Compare(a.Operations, b.Operations) }},
		{title: "WEIGHT", right: true, width: 6, rank: 6, cell: func(p Pool, _ look, _ int) cell {
			return cell{figures.When(p.Name != "", figures.Number(p.Weight, 2)), plain}
		}, compare: func(a, b Pool) int { return cmp.Compare(a.Weight, b.Weight) }},
		{title: "OF", width: 10, rank: 7, cell: func(p Pool, _ look, _ int) cell { return cell{p.Dominant, plain} }},
		{title: "VOLUME", right: true, width: 12, rank: 8, cell: func(p Pool, _ look, _ int) cell {
			return cell{figures.When(p.Capacity > 0, figures.Number(p.Volume, 0)+"/"+figures.Number(p.Capacity, 0)+"s"), plain}
		}, compare: func(a, b Pool) int { return cmp.Compare(a.Volume, b.Volume) }},
	}
}

func poolName(p Pool, at look, _ int) cell {
	if p.Name == "" {
		return cell{"tree " + figures.Printable(p.Tree), bold}
	}
	// Sorted by a column, pools are not below their parents.
	indent := strings.Repeat("  ", max(p.Depth, 0))
	return cell{figures.When(!at.flat, indent) + figures.Printable(p.Name), plain}
}

func poolState(p Pool, _ look, _ int) cell {
	switch {
	case p.Starvation == "aggressively_starving":
		return cell{"STARVING!", red}
	case p.Starvation == "starving":
		return cell{"starving", red}
	case p.BelowFair:
		return cell{"below fair", yellow}
	case p.Claimed > 0:
		return cell{"claiming", yellow}
	default:
		return cell{"", plain}
	}
}

func poolColour(p Pool) style {
	switch c := poolState(p, look{}, 0); {
	case c.style != plain:
		return c.style
	case p.Usage > 0:
		return green
	default:
		return faint
	}
}
