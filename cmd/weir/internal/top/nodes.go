package top

import (
	"cmp"
	"fmt"

	"weir/cmd/weir/internal/figures"
)

// newNodes shows the nodes by name.
func newNodes(m *Model) page {
	p := &listPage[Node]{base: base{page: m.nextPage(), title: "Nodes"}, table: newTable(func(n Node) string { return n.ID }, func(n Node) []string {
		return []string{n.ID, n.Host, n.Tree, n.Tags, n.condition().text}
	}, nodeColumns()...)}
	p.first = func() Question { return Question{About: aboutNodes} }
	p.pick = func(a Answer) []Node { return a.Nodes }
	p.of = func(n Node) subject { return subject{node: n.ID, title: "node " + n.ID, drained: n.Drained} }
	p.tell = func(m *Model, n Node) cell {
		text := fmt.Sprintf("%s at %s, tree %s, version %s", n.ID, cmp.Or(n.Host, figures.None), cmp.Or(n.Tree, figures.None), cmp.Or(n.Version, figures.None)) +
			figures.When(n.Tags != "", ", tags "+n.Tags) + figures.When(n.Drain != "", "; "+n.Drain) + figures.When(n.Caveat != "", "; "+n.Caveat)
		if n.State != "online" && !n.Heartbeat.IsZero() {
			text += "; last heard at " + n.Heartbeat.In(m.now.Location()).Format("15:04:05")
		}
		return cell{text, plain}
	}
	p.deeper = func(m *Model, n Node) { m.push(newNodeJobs(m, n.ID)) }
	return p
}

// newNodeJobs shows the jobs of a node.
func newNodeJobs(m *Model, node string) page {
	p := &listPage[Job]{base: base{page: m.nextPage(), title: "Jobs on node " + node}, table: newJobTable(nodeJobColumns()...)}
	p.first = func() Question { return Question{About: aboutNodeJobs, Node: node} }
	p.pick = func(a Answer) []Job { return a.Jobs }
	p.of = subjectOfJob
	p.head = func(*Model) []string {
		if p.note == "" {
			return nil
		}
		return []string{faint.on(p.note)}
	}
	p.tell = tellJob
	p.deeper = func(m *Model, j Job) { m.push(newOutput(m, subjectOfJob(j))) }
	return p
}

// nodeNameMost is the width up to which names of nodes are shown whole: those of a fleet differ at their ends.
const nodeNameMost = 20

// condition is the state of a node in a word.
func (n Node) condition() cell {
	switch {
	case n.State != "online":
		return cell{n.State, red}
	case n.Drained:
		return cell{"drained", yellow}
	case n.Caveat != "":
		return cell{"limited", yellow}
	default:
		return cell{n.State, green}
	}
}

func nodeColumns() []column[Node] {
	text := func(title string, width, grow, rank int, of func(Node) string) column[Node] {
		return column[Node]{title: title, width: width, grow: grow, rank: rank,
			cell:    func(n Node, _ look, _ int) cell { return cell{figures.Printable(of(n)), plain} },
			compare: func(a, b Node) int { return cmp.Compare(of(a), of(b)) }}
	}
	part := func(of, all float64) float64 { return of / max(all, 1) }
	meters := func(title string, rank int, of func(Node) float64) column[Node] {
		return column[Node]{title: title, width: 8, grow: 1, rank: rank,
			cell: func(n Node, _ look, w int) cell {
				if n.State != "online" {
					return cell{"", plain}
				}
				return cell{meter(of(n), w), map[bool]style{true: yellow, false: green}[of(n) > 0.95]}
			}}
	}
	percents := func(title string, rank int, of func(Node) float64) column[Node] {
		return column[Node]{title: title, right: true, width: 5, rank: rank,
			cell: func(n Node, _ look, _ int) cell {
				return cell{figures.When(n.State == "online", fmt.Sprintf("%.0f%%", 100*of(n))), plain}
			},
			compare: func(a, b Node) int { return cmp.Compare(of(a), of(b)) }}
	}
	cpu := func(n Node) float64 { return part(n.CPU, n.CPUTotal) }
	memory := func(n Node) float64 { return part(n.Memory, n.MemoryTotal) }
	name := text("NODE", 10, 1, 0, func(n Node) string { return n.ID })
	name.most = nodeNameMost
	return []column[Node]{
		name,
		{title: "STATE", width: 8, cell: func(n Node, _ look, _ int) cell { return n.condition() },
			compare: func(a, b Node) int { return cmp.Compare(a.condition().text, b.condition().text) }},
		{title: "JOBS", right: true, width: 5, cell: func(n Node, _ look, _ int) cell {
			return cell{figures.When(n.Jobs > 0, fmt.Sprint(n.Jobs)), plain}
		}, compare: func(a, b Node) int { return cmp.Compare(a.Jobs, b.Jobs) }},
		meters("CPU", 5, cpu), percents("CPU%", 0, cpu),
		{title: "CORES", right: true, width: 6, rank: 7, cell: func(n Node, _ look, _ int) cell { return cell{figures.Number(n.CPUTotal, 1), plain} },
			compare: func(a, b Node) int { return cmp.Compare(a.CPUTotal, b.CPUTotal) }},
		meters("MEMORY", 6, memory), percents("MEM%", 0, memory),
		percents("USED%", 3, func(n Node) float64 { return part(n.MemoryUsed, n.MemoryTotal) }),
		{title: "OF", right: true, width: 8, rank: 7, cell: func(n Node, _ look, _ int) cell { return cell{figures.Size(int64(n.MemoryTotal)), plain} },
			compare: func(a, b Node) int { return cmp.Compare(a.MemoryTotal, b.MemoryTotal) }},
		{title: "GPU", right: true, width: 5, rank: 8, cell: func(n Node, _ look, _ int) cell {
			return cell{figures.When(n.GPUTotal > 0, fmt.Sprintf("%d/%d", n.GPU, n.GPUTotal)), plain}
		}, compare: func(a, b Node) int { return cmp.Compare(a.GPU, b.GPU) }},
		text("TREE", 8, 0, 8, func(n Node) string { return n.Tree }),
		{title: "HEARD", right: true, width: 6, rank: 4, cell: func(n Node, at look, _ int) cell {
			if n.Heartbeat.IsZero() {
				return cell{figures.None, plain}
			}
			return cell{figures.Span(at.now.Sub(n.Heartbeat)), plain}
		}, compare: func(a, b Node) int { return b.Heartbeat.Compare(a.Heartbeat) }},
		text("TAGS", 10, 1, 9, func(n Node) string { return n.Tags }),
		text("NOTE", 10, 3, 2, func(n Node) string { return cmp.Or(n.Drain, n.Caveat) }),
	}
}
