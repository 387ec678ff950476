package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/api/client"
	"weir/messages/apipb"
	"weir/raftstore/state"
)

func newExplainCommand(f *clientFlags) *cobra.Command {
	var tree string
	cmd := group(&cobra.Command{
		Use:   "explain",
		Short: "Explain why jobs wait, how a share was computed, why a job was preempted",
		Long: `Explain why jobs wait, how a share was computed, why a job was preempted.

The first line is the answer, the lines below are its reasons, recorded by the
leader's scheduler as it decided, and read from the replicated state. In json and
yaml each fact has a stable code and its numbers.`,
		Example: "  weir explain op '*nightly'\n  weir explain job 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4a\n  weir explain pool ads -o json",
	},
		newExplainVerb(f, &tree, "op OPERATION", "Explain why the jobs of an operation wait, and how its share was computed", operationNames(false),
			func(name string) *apipb.ExplainRequest { return &apipb.ExplainRequest{Operation: name} }),
		newExplainVerb(f, &tree, "job JOB", "Explain whether a job can be preempted, and why it was", jobNames(false),
			func(name string) *apipb.ExplainRequest { return &apipb.ExplainRequest{Job: name} }),
		newExplainVerb(f, &tree, "pool POOL", "Explain how the share of a pool was computed, and which of its limits are reached", poolNames,
			func(name string) *apipb.ExplainRequest { return &apipb.ExplainRequest{Pool: name} }))
	cmd.PersistentFlags().StringVar(&tree, "tree", "", "pool tree (default: all trees of an operation, the default tree of a pool)")
	mustComplete(cmd, "tree", f.suggest(false, treeNames))
	return cmd
}

func newExplainVerb(f *clientFlags, tree *string, use, short string, names func(context.Context, *session) ([]cobra.Completion, error), request func(name string) *apipb.ExplainRequest) *cobra.Command {
	var watch bool
	verb, what, _ := strings.Cut(use, " ")
	cmd := &cobra.Command{
		Use:               use,
		Short:             short,
		Example:           fmt.Sprintf("  weir explain %s %s --watch", verb, what),
		Args:              takes(what),
		ValidArgsFunction: f.suggest(true, names),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			return s.repeat(ctx, watch, func(ctx context.Context) (view, error) {
				m := request(args[0])
				m.Tree = *tree
				said, err := s.Explain(ctx, m)
				if err != nil {
					return view{}, explainedElsewhere(ctx, s, args[0], err)
				}
				return view{
					message: &apipb.ExplainResponse{Explanations: said},
					text:    func(now time.Time) string { return explanationsText(said, now) },
				}, nil
			})
		}),
	}
	cmd.Flags().BoolVar(&watch, "watch", false, watchUsage)
	return cmd
}

// explainedElsewhere says of an unknown operation or job if it is the other.
func explainedElsewhere(ctx context.Context, s *session, id string, err error) error {
	switch client.CodeOf(err) {
	case state.CodeUnknownOperation:
		if _, known := s.GetJob(ctx, id); known == nil {
			return fmt.Errorf("%w; %s is a job: weir explain job %s", err, id, id)
		}
	case apipb.CodeNoSuchJob:
		if _, known := s.GetOperation(ctx, id); known == nil {
			return fmt.Errorf("%w; %s is an operation: weir explain op %s", err, id, id)
		}
	}
	return err
}
