package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/api/client"
	"weir/cmd/weir/internal/screen"
	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/raftstore/state"
)

func newNodeDrainCommand(f *clientFlags) *cobra.Command {
	var reason string
	var wait, quiet bool
	var leave time.Duration
	cmd := &cobra.Command{
		Use:   "drain NODE",
		Short: "Stop scheduling jobs on a node; running jobs continue, or are interrupted",
		Long: `Stop scheduling jobs on a node; running jobs continue until they finish. With
--interrupt-timeout they are asked to stop within that time instead; those that
cannot be asked are killed at once.

The node stays drained until weir node undrain, even if its agent restarts
meanwhile. With --wait the command returns when the node has no jobs left; Ctrl-C ends
the wait, and the node stays drained.`,
		Example: `  weir node drain n1 --reason 'new kernel'
  weir node drain n1 --wait --timeout 1h && ssh n1 reboot
  weir node drain n1 --interrupt-timeout 5m --wait`,
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			if err := s.DrainNode(ctx, args[0], reason, leave); err != nil {
				return unknownNode(ctx, s, args[0], err)
			}
			if wait {
				return awaitEmpty(ctx, s, args[0], quiet)
			}
			return showNode(ctx, s, args[0])
		}),
	}
	registerLeaving(cmd, &leave, "interrupt-timeout", "ask its jobs to stop within this time (default: they run until they finish)")
	cmd.Flags().StringVar(&reason, "reason", "", "reason, shown with the node")
	cmd.Flags().BoolVar(&wait, "wait", false, "return when the node has no jobs left")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "with --wait: do not show progress")
	return cmd
}

// drainedNames suggests the nodes that are drained.
func drainedNames(ctx context.Context, s *session) ([]cobra.Completion, error) {
	drained, err := s.Nodes(ctx, &apipb.ListNodesRequest{Drained: true})
	return described(drained.GetNodes(), (*apipb.Node).GetId, func(n *apipb.Node) string { return n.GetDrain().GetReason() }), err
}

// unknownNode adds the nodes with similar names to the error of an unknown node.
func unknownNode(ctx context.Context, s *session, name string, err error) error {
	if client.CodeOf(err) != state.CodeUnknownNode {
		return err
	}
	nodes, listErr := s.ListNodes(ctx, "")
	if listErr != nil {
		return err
	}
	// Cobra finds similar names of verbs: make a verb for each node.
	alike := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, node := range nodes {
		alike.AddCommand(&cobra.Command{Use: node.GetId(), Run: func(*cobra.Command, []string) {}})
	}
	if similar := alike.SuggestionsFor(name); len(similar) > 0 {
		return fmt.Errorf("%w; did you mean %s?", err, strings.Join(similar, " or "))
	}
	return err
}

func showNode(ctx context.Context, s *session, name string) error {
	answer, err := s.GetNode(ctx, name)
	if err != nil {
		return err
	}
	return s.show(drainedView(answer.GetNode()))
}

func drainedView(n *apipb.Node) view {
	return view{message: n, text: func(now time.Time) string { return drainLine(n, now) + "\n" }}
}

// drainLine says whether a node is drained, and how many jobs are left.
func drainLine(n *apipb.Node, now time.Time) string {
	if n.GetDrain() == nil {
		return fmt.Sprintf("node %s is undrained%s", printable(n.GetId()), when(n.GetState() == statepb.NodeOffline, "; it is offline now"))
	}
	return fmt.Sprintf("node %s is drained: %s", printable(n.GetId()), drainText(n, now))
}

// drainText returns how many jobs are left on a drained node, who drained it, when and why.
func drainText(n *apipb.Node, now time.Time) string {
	d := n.GetDrain()
	left := cmp.Or(when(n.GetJobs() > 0, several(n.GetJobs(), "job")+" left"), "empty")
	return fmt.Sprintf("%s, by %s %s%s", left, printable(cmp.Or(d.GetUser(), "an unknown user")), moment(d.GetTime(), now),
		when(d.GetReason() != "", ": "+printable(d.GetReason())))
}

// drainedOffline is the state of a node that was taken out of service.
const drainedOffline = "drained, offline"

// nodeState returns a node's state in words.
func nodeState(n *apipb.Node) string {
	text := n.GetState()
	switch {
	case n.GetDrain() == nil:
	case text == statepb.NodeOffline:
		text = drainedOffline
	default:
		text += ", draining"
	}
	return text + when(n.GetCaveat() != "", " (!)")
}

// awaitEmpty waits until a drained node has no jobs left, and shows progress.
func awaitEmpty(ctx context.Context, s *session, name string, quiet bool) error {
	var left *screen.Bar
	defer func() { left.Close() }()
	// `most` is the number of jobs at the beginning. `last` is the latest number of jobs.
	var most, last int64
	err := watchNode(ctx, s, name, func(node *apipb.Node) (bool, error) {
		switch jobs := node.GetJobs(); {
		case node.GetDrain() == nil:
			return true, fmt.Errorf("node %s is no longer drained: someone has undrained it", name)
		case jobs == 0:
			left.Update(most, "none left")
			return true, s.show(drainedView(node))
		case left == nil && !quiet:
			most = jobs
			left = screen.New(s.err).Bar("jobs", most)
		}
		last = node.GetJobs()
		left.Update(max(most-last, 0), fmt.Sprintf("%d left%s", last, when(node.GetState() == statepb.NodeOffline, ", node offline")))
		return false, nil
	})
	if err != nil && ctx.Err() != nil {
		return drainLeft(ctx, name, last)
	}
	return err
}

// drainLeft returns the error of a wait that ended before the node was empty.
func drainLeft(ctx context.Context, name string, jobs int64) error {
	code, why := exitTimedOut, "not empty within --timeout"
	if errors.Is(ctx.Err(), context.Canceled) {
		code, why = exitInterrupted, "interrupted"
	}
	return &exitError{code, fmt.Errorf("%s: node %s stays drained, with %d jobs left\n  weir node drain %s --wait waits again\n  weir node undrain %s undrains it",
		why, name, jobs, name, name)}
}

func newNodeAllowCommand(f *clientFlags) *cobra.Command {
	request := apipb.EditNodeGrantRequest{Grant: &apipb.NodeGrant{}}
	var cpu float64
	var slots, gpu, network int64
	var memory string
	cmd := &cobra.Command{
		Use:   "allow PATTERN",
		Short: "Allow nodes to register with tags and resources",
		Long: `Allow nodes whose name matches a pattern to register with these tags, and with at most
these resources. The pattern has * for any text, ? for any character and [a-c] for one
of several. It replaces the grant of the same pattern; the grants of several patterns
that match add up.

As soon as there is one grant, a node without one is refused. If registered nodes would
be refused, nothing changes, and they are listed; with --force they are shut out. Their
lease runs out, and their jobs run elsewhere. It needs operator credentials.`,
		Example: `  weir node allow '*'
  weir node allow 'gpu-*' --tags gpu,ssd --max-cpu 128 --max-memory 1TiB --max-gpu 8`,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&request.Grant.Tags, "tags", nil, "tags that the nodes may claim (default: none)")
	flags.Float64Var(&cpu, "max-cpu", 0, "most cores that a node may claim (default: no bound)")
	flags.StringVar(&memory, "max-memory", "", "most memory that a node may claim, such as 1TiB (default: no bound)")
	flags.Int64Var(&slots, "max-user-slots", 0, "most concurrent jobs that a node may claim (default: no bound)")
	flags.Int64Var(&gpu, "max-gpu", 0, "most GPUs that a node may claim (default: no bound)")
	flags.Int64Var(&network, "max-network", 0, "most network capacity that a node may claim (default: no bound)")
	flags.BoolVar(&request.Force, "force", false, "shut out registered nodes that would be refused")
	checked(cmd, func([]string) error {
		most := map[string]float64{}
		for flag, value := range map[string]float64{"cpu": cpu, "user-slots": float64(slots), "gpu": float64(gpu), "network": float64(network)} {
			if isSet(cmd, "max-"+flag) {
				most[strings.ReplaceAll(flag, "-", "_")] = value
			}
			if value < 0 {
				return fmt.Errorf("--max-%s: must not be negative", flag)
			}
		}
		if memory != "" {
			size, err := sizeFlag("max-memory", memory, 0)
			if err != nil {
				return err
			}
			most["memory"] = float64(size)
		}
		request.Grant.Max = most
		return nil
	})
	cmd.RunE = f.verb(func(ctx context.Context, s *session, args []string) error {
		request.Grant.Pattern = args[0]
		return s.said(s.EditNodeGrant(ctx, &request), &apipb.EditNodeGrantResponse{}, "nodes %s may register %s", args[0], claimsText(request.GetGrant()))
	})
	return cmd
}

func newNodeDisallowCommand(f *clientFlags) *cobra.Command {
	request := apipb.EditNodeGrantRequest{Disallow: true, Grant: &apipb.NodeGrant{}}
	cmd := &cobra.Command{
		Use:        "disallow PATTERN",
		SuggestFor: suggestRemove,
		Short:      "Take a grant of nodes away",
		Long: `Take a grant of nodes away. If registered nodes would be refused, nothing changes, and
they are listed; with --force they are shut out. Without any grant, each node may
register again with any tags and resources. It needs operator credentials.`,
		Example: "  weir node disallow 'gpu-*'\n  weir node disallow n7 --force",
		ValidArgsFunction: f.suggest(true, func(ctx context.Context, s *session) ([]cobra.Completion, error) {
			all, err := s.NodeGrants(ctx)
			return described(all.GetGrants(), (*apipb.NodeGrant).GetPattern, claimsText), err
		}),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			request.Grant.Pattern = args[0]
			err := s.EditNodeGrant(ctx, &request)
			if err == nil {
				left, readErr := s.NodeGrants(ctx)
				if readErr == nil && len(left.GetGrants()) == 0 {
					s.note("no grant is left: each node may register with any tags and resources")
				}
			}
			return s.said(err, &apipb.EditNodeGrantResponse{}, "took the grant of nodes %s away", args[0])
		}),
	}
	cmd.Flags().BoolVar(&request.Force, "force", false, "shut out registered nodes that would be refused")
	return cmd
}

func newNodeGrantsCommand(f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "grants",
		Short:   "List which nodes may register with which tags and resources",
		Example: "  weir node grants",
		RunE: f.shows(func(ctx context.Context, s *session, _ []string) (view, error) {
			all, err := s.NodeGrants(ctx)
			return view{
				message: all, rows: true, empty: when(len(all.GetGrants()) == 0, "no grant: each node may register with any tags and resources"),
				text: func(now time.Time) string {
					g := newGrid("nodes", "tags", "at most", "changed")
					for _, grant := range all.GetGrants() {
						g.row(grant.GetPattern(), cmp.Or(strings.Join(grant.GetTags(), ", "), none), cmp.Or(mostText(grant), none), moment(grant.GetModifiedTime(), now))
					}
					return g.String()
				},
			}, err
		}),
	}
}

// mostText says how much of each bounded resource a node may claim.
func mostText(g *apipb.NodeGrant) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(g.GetMax())) {
		amount := number(g.GetMax()[name], 2)
		if name == "memory" {
			amount = size(int64(g.GetMax()[name]))
		}
		parts = append(parts, name+" "+amount)
	}
	return strings.Join(parts, ", ")
}

// claimsText says what nodes may claim.
func claimsText(g *apipb.NodeGrant) string {
	tags := cmp.Or(when(len(g.GetTags()) > 0, "with tags "+strings.Join(g.GetTags(), ", ")), "without tags")
	return joined(", ", tags, cmp.Or(when(len(g.GetMax()) > 0, "at most "+mostText(g)), "any resources"))
}
