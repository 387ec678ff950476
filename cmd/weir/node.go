package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"weir/api/client"
	"weir/cmd/poll"
	"weir/cmd/weir/internal/figures"
	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

func newNodeCommand(f *clientFlags) *cobra.Command {
	return group(&cobra.Command{
		Use:     "node",
		Short:   "Show, drain, remove and allow nodes",
		Example: "  weir node list\n  weir node get n1\n  weir node drain n1 --reason 'new kernel' --wait",
	}, newNodeListCommand(f), newNodeDrainCommand(f), newNodeRemoveCommand(f), newNodeAllowCommand(f), newNodeDisallowCommand(f), newNodeGrantsCommand(f), &cobra.Command{
		Use:     "get NODE",
		Short:   "Show one node and its jobs",
		Example: "  weir node get n1",
		RunE: f.shows(func(ctx context.Context, s *session, args []string) (view, error) {
			node, err := s.GetNode(ctx, args[0])
			ids := s.named(ctx, node)
			return view{message: node, text: func(now time.Time) string { return nodeText(node, ids, now) }}, err
		}),
	}, &cobra.Command{
		Use:               "undrain NODE",
		Short:             "Schedule jobs on a node again",
		Example:           "  weir node undrain n1",
		ValidArgsFunction: f.suggest(true, drainedNames),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			before, err := s.GetNode(ctx, args[0])
			if err == nil {
				err = s.UndrainNode(ctx, args[0])
			}
			if err != nil {
				return unknownNode(ctx, s, args[0], err)
			}
			if before.GetNode().GetDrain() == nil {
				s.note("node %s was not drained", args[0])
			}
			return showNode(ctx, s, args[0])
		}),
	})
}

func newNodeListCommand(f *clientFlags) *cobra.Command {
	var req apipb.ListNodesRequest
	var free map[string]string
	cmd := watchable(&cobra.Command{
		Use:   "list",
		Short: "List nodes with their resources and usage",
		Example: `  weir node list
  weir node list --state offline
  weir node list --tags 'gpu & !spot' --free gpu=1,memory=64GiB
  weir node list --limit 40 --watch`,
		RunE: f.shows(func(ctx context.Context, s *session, _ []string) (view, error) {
			all, err := s.Nodes(ctx, &req)
			return nodesView(all, &req), err
		}),
	})
	flags := cmd.Flags()
	flags.StringVar(&req.State, "state", "", "only nodes in this state: online or offline")
	flags.BoolVar(&req.Drained, "drained", false, "only nodes that are drained")
	flags.StringVar(&req.Prefix, "prefix", "", "only nodes whose name begins with this")
	flags.StringVar(&req.Tags, "tags", "", "only nodes whose tags match this expression, as in the option nodes_filter: 'gpu & !spot'")
	flags.StringToStringVar(&free, "free", nil, "only nodes that take new jobs and have at least this free, such as cpu=4,memory=8GiB")
	flags.StringVar(&req.Filter, "filter", "", "only nodes whose name or tags contain this text, in upper or lower case")
	flags.Int32Var(&req.Limit, "limit", 0, "maximum number to list (default: all)")
	flags.StringVar(&req.After, "after", "", "where to continue: what the list before says at its end")
	must(cmd.RegisterFlagCompletionFunc("state", fixed(statepb.NodeOnline, statepb.NodeOffline)))
	must(cmd.RegisterFlagCompletionFunc("free", fixed()))
	checked(cmd, func([]string) error {
		if _, err := pooltree.ParseFilter(req.GetTags()); err != nil {
			return fmt.Errorf("--tags: %w", err)
		}
		var err error
		req.Free, err = freeFlag(free)
		return err
	})
	return cmd
}

// freeFlag reads amounts of resources.
func freeFlag(texts map[string]string) (map[string]float64, error) {
	free := map[string]float64{}
	for name, text := range texts {
		var err error
		if name == resource.Memory.String() {
			var size int64
			size, err = sizeFlag("free memory", text, 0)
			free[name] = float64(size)
		} else if free[name], err = strconv.ParseFloat(text, 64); err != nil {
			err = fmt.Errorf("--free %s=%s: not a number", name, text)
		}
		if err != nil {
			return nil, err
		}
	}
	if _, err := resource.FromMap(free); err != nil {
		return nil, fmt.Errorf("--free: %w", err)
	}
	return free, nil
}

// nodesView shows a list of nodes: those that a request selects.
func nodesView(all *apipb.ListNodesResponse, req *apipb.ListNodesRequest) view {
	nodes := all.GetNodes()
	calm := proto.CloneOf(all)
	for _, r := range calm.GetRefused() {
		r.Time = nil
	}
	for _, n := range calm.GetNodes() {
		n.LastHeartbeat, n.MemoryUsed = nil, 0
	}
	chosen := !proto.Equal(req, &apipb.ListNodesRequest{Limit: req.GetLimit()})
	empty := cmp.Or(when(chosen, "no such node: weir node list shows all"), "no node yet: weir agent adds this machine as one")
	more := when(all.GetNext() != "", fmt.Sprintf("\nmore: %s; --after %s continues\n", several(int64(all.GetLeftOut()), "node"), printable(all.GetNext())))
	return view{
		message: all, calm: calm, rows: true, empty: when(len(nodes) == 0 && len(all.GetRefused()) == 0, empty),
		fit: func(now time.Time, screen int) string {
			return nodesText(nodes, now, screen) + more + refusedText(all.GetRefused(), now)
		},
	}
}

// refusedText lists the agents that were refused: what each claimed, what grants give it, and what allows it.
func refusedText(refused []*apipb.RefusedAgent, now time.Time) string {
	var b strings.Builder
	for i, r := range refused {
		if i == 0 {
			b.WriteString("\nrefused agents:\n")
		}
		given := "no grant"
		if r.GetGiven() != nil {
			given = "grants give it: " + claimsText(r.GetGiven())
		}
		line := fmt.Sprintf("%s on host %s, %s: it claims %s; %s: %s", r.GetNode(), cmp.Or(r.GetHost(), none), age(r.GetTime(), now),
			joined(", ", when(len(r.GetTags()) > 0, "tags "+strings.Join(r.GetTags(), ", ")), amounts(r.GetResources())), given, r.GetReason())
		b.WriteString("  " + printable(line) + "\n")
	}
	return b.String()
}

func nodesText(nodes []*apipb.Node, now time.Time, screen int) string {
	g := newGrid("node", "state", "jobs>", "slots>?4", "cpu>", "memory>?1", "gpu>?5", "tags?3", "heartbeat?2", "host?6")
	for _, n := range nodes {
		has, used := n.GetResources(), n.GetUsage()
		g.row(n.GetId(), stateCell(nodeState(n)), n.GetJobs(), limited(used.GetUserSlots(), has.GetUserSlots()),
			number(used.GetCpu(), 2)+"/"+number(has.GetCpu(), 2), size(used.GetMemory())+"/"+size(has.GetMemory()),
			limited(used.GetGpu(), has.GetGpu()), strings.Join(n.GetTags(), ","), age(n.GetLastHeartbeat(), now), n.GetHost())
	}
	return g.within(screen)
}

// nodeMemory returns how much of a node's memory is used, how much is reserved, and how
// much the limits of its jobs allow.
func nodeMemory(n *apipb.Node) string {
	var parts []string
	has := n.GetResources().GetMemory()
	if n.GetMemoryUsed() > 0 {
		parts = append(parts, fmt.Sprintf("%s used", size(n.GetMemoryUsed())))
	}
	if n.GetMemoryLimits() > 0 {
		parts = append(parts, fmt.Sprintf("%s reserved", size(n.GetUsage().GetMemory())))
		limits := size(n.GetMemoryLimits()) + " if its jobs reached their limits"
		if n.GetMemoryLimits() > has && has > 0 {
			limits += fmt.Sprintf(", %s times what it has", number(float64(n.GetMemoryLimits())/float64(has), 1))
		}
		parts = append(parts, limits)
	}
	return strings.Join(parts, "; ")
}

func nodeText(answer *apipb.GetNodeResponse, ids figures.IDs, now time.Time) string {
	n := answer.GetNode()
	page := newFacts()
	page.add("node", n.GetId())
	page.addState("state", n.GetState())
	page.add("drained", when(n.GetDrain() != nil, drainText(n, now)))
	page.add("caveat", n.GetCaveat())
	page.add("host", n.GetHost())
	page.add("version", n.GetVersion())
	page.add("pool tree", n.GetTree())
	page.add("tags", strings.Join(n.GetTags(), ", "))
	page.add("resources", amounts(n.GetResources()))
	page.add("held by jobs", amounts(n.GetUsage()))
	page.add("memory", nodeMemory(n))
	files := n.GetFileCache()
	page.add("file cache", when(files != nil, fmt.Sprintf("%s used of %s", size(files.GetBytes()), size(files.GetLimit()))))
	page.add("registered", moment(n.GetRegisteredTime(), now))
	page.add("heartbeat", moment(n.GetLastHeartbeat(), now))
	hidden := ""
	if n := answer.GetHidden(); n > 0 {
		hidden = fmt.Sprintf("jobs of others that you may not see: %d (it takes the right read: weir whoami)\n", n)
	}
	if len(answer.GetJobs()) == 0 {
		return page.String() + "\n" + cmp.Or(hidden, "no jobs\n")
	}
	g := newGrid("job", "operation", "title", "user", "pool", "task", "cookie>", "state", "age>", "memory>")
	for _, j := range answer.GetJobs() {
		of := j.GetOperationId()
		g.row(ids.ID(j.GetId()), ids.ID(of), ids.Title(of), ids.User(of), ids.Pool(of), j.GetTask(), j.GetCookie(), stateCell(jobState(j)), lasted(j.GetStartTime(), j.GetFinishTime(), now),
			jobMemory(j))
	}
	return page.String() + "\n" + g.String() + hidden
}

// killedAtOnce is how long jobs have to stop on a node that is removed by force.
const killedAtOnce = time.Millisecond

func newNodeRemoveCommand(f *clientFlags) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "remove NODE",
		Short: "Remove a node that is gone for good",
		Long: `Remove a node that is gone for good: it is no longer listed. It must be
offline: drain it, stop its agent, and remove it a few seconds later.

With --force an online node is removed too: it is drained, its jobs are killed and
rerun elsewhere, and it is removed once it has none. Then stop its agent: a node whose
agent reconnects registers as a new node, which is not drained.`,
		Example: `  weir node drain n1 --wait && ssh n1 systemctl stop weir-agent && sleep 10 && weir node remove n1
  weir node remove n1 --force`,
		ValidArgsFunction: f.suggest(true, nodeNames(statepb.NodeOffline, nodeState)),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			node := args[0]
			if force {
				if err := empty(ctx, s, node); err != nil {
					return unknownNode(ctx, s, node, err)
				}
			}
			if err := s.RemoveNode(ctx, node, force); err != nil {
				return unknownNode(ctx, s, node, err)
			}
			s.note("node %s is removed", printable(node))
			return nil
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "drain the node and kill its jobs if it is online")
	return cmd
}

// empty drains an online node, kills its jobs, and waits until no job is left.
func empty(ctx context.Context, s *session, name string) error {
	offline := func(n *apipb.Node) bool { return n.GetState() == statepb.NodeOffline }
	gone := false
	err := watchNode(ctx, s, name, func(n *apipb.Node) (bool, error) {
		if gone = offline(n); gone {
			return true, nil
		}
		return true, s.DrainNode(ctx, name, "being removed", killedAtOnce)
	})
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("drain node %s: %w", name, context.Cause(ctx))
	case err != nil || gone:
		return err
	}
	err = watchNode(ctx, s, name, func(n *apipb.Node) (bool, error) { return offline(n) || n.GetJobs() == 0, nil })
	if ctx.Err() != nil {
		return fmt.Errorf("node %s is drained, but some of its jobs have not ended: weir node remove %s --force waits again: %w", name, name, context.Cause(ctx))
	}
	return err
}

// watchNode reads a node every period until `look` is done or fails, or ctx is done. It retries
// while the cluster is unreachable.
func watchNode(ctx context.Context, s *session, name string, look func(*apipb.Node) (done bool, err error)) error {
	return poll.Every(ctx, s.period, func() (bool, error) {
		answer, err := s.GetNode(ctx, name)
		switch {
		case err == nil:
			return look(answer.GetNode())
		case errors.Is(err, client.ErrUnreachable):
			return false, nil
		}
		return true, err
	})
}
