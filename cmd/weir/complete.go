package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"weir/messages/apipb"
	"weir/scheduling/lifecycle"
)

// completionPatience bounds how long a shell waits for suggestions.
const completionPatience = 2 * time.Second

// suggest returns a completion of a verb's first argument, or of a flag, by what
// the cluster has. A cluster that does not answer has no suggestions.
func (f *clientFlags) suggest(first bool, list func(ctx context.Context, s *session) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if first && len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := f.open(nil)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
		defer cancel()
		found, err := list(ctx, &session{Client: c})
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// operationNames suggests the aliases and ids of operations, latest first.
func operationNames(inProgress bool) func(context.Context, *session) ([]cobra.Completion, error) {
	return func(ctx context.Context, s *session) ([]cobra.Completion, error) {
		page, err := s.ListOperations(ctx, &apipb.ListOperationsRequest{InProgress: inProgress})
		var out []cobra.Completion
		aliases := make(map[string]bool)
		for _, op := range page.GetOperations() {
			about := printable(op.GetState() + " " + op.GetTitle())
			if op.GetAlias() != "" && !aliases[op.GetAlias()] {
				aliases[op.GetAlias()] = true
				out = append(out, cobra.CompletionWithDesc(op.GetAlias(), about))
			}
			out = append(out, cobra.CompletionWithDesc(op.GetId(), about))
		}
		return out, err
	}
}

func poolNames(ctx context.Context, s *session) ([]cobra.Completion, error) {
	page, err := s.ListPools(ctx, "")
	var out []cobra.Completion
	for _, pool := range page.GetPools() {
		out = append(out, pool.GetName())
	}
	return out, err
}

func nodeNames(ctx context.Context, s *session) ([]cobra.Completion, error) {
	nodes, err := s.ListNodes(ctx, "")
	var out []cobra.Completion
	for _, node := range nodes {
		out = append(out, cobra.CompletionWithDesc(node.GetId(), node.GetState()))
	}
	return out, err
}

func replicaNames(ctx context.Context, s *session) ([]cobra.Completion, error) {
	members, err := s.Members(ctx)
	var out []cobra.Completion
	for _, member := range members {
		out = append(out, cobra.CompletionWithDesc(member.GetId(), member.GetAddress()))
	}
	return out, err
}

// operationStates returns the names of all states of operations.
func operationStates() []cobra.Completion {
	var out []cobra.Completion
	for _, state := range lifecycle.States() {
		if state != lifecycle.None {
			out = append(out, state.String())
		}
	}
	return out
}

// mustComplete sets the completion of a flag that is there.
func mustComplete(cmd *cobra.Command, flag string, by cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, by); err != nil {
		panic(err)
	}
}

// fixed suggests the same everywhere.
func fixed(values ...cobra.Completion) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}
