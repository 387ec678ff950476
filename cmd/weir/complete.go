package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/messages/apipb"
	"weir/scheduling/lifecycle"
)

// completionPatience bounds how long a shell waits for suggestions.
const completionPatience = 2 * time.Second

// suggest returns a completion of a verb's first argument, or of a flag, by what
// the cluster has. A cluster that does not answer has no suggestions.
func (f *clientFlags) suggest(first bool, list func(ctx context.Context, s *session) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if first && len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f.suggestBy(func(ctx context.Context, s *session, _ []string) ([]cobra.Completion, error) { return list(ctx, s) })(cmd, args, typed)
	}
}

// suggestBy does that by what the cluster has and by the arguments given so far.
func (f *clientFlags) suggestBy(list func(ctx context.Context, s *session, args []string) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, err := f.open(nil)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
		defer cancel()
		found, err := list(ctx, &session{Client: c}, args)
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

// jobNames suggests jobs of the operations that were started last; for each those that
// have not ended, then the latest that have, unless only the former are asked for.
func jobNames(inProgress bool) func(context.Context, *session) ([]cobra.Completion, error) {
	const operations, jobs = 10, 50
	return func(ctx context.Context, s *session) ([]cobra.Completion, error) {
		page, err := s.ListOperations(ctx, &apipb.ListOperationsRequest{InProgress: inProgress, Limit: operations})
		var out []cobra.Completion
		for _, op := range page.GetOperations() {
			found, err := s.ListJobs(ctx, &apipb.ListJobsRequest{Operation: op.GetId(), Limit: jobs})
			if err != nil {
				return out, err
			}
			for _, job := range found.GetJobs() {
				if !inProgress || job.GetFinishTime() == nil {
					out = append(out, cobra.CompletionWithDesc(job.GetId(),
						printable(fmt.Sprintf("%s of task %s on %s", jobState(job), job.GetTask(), job.GetNode()))))
				}
			}
		}
		return out, err
	}
}

// taskNames suggests the tasks of the operation that is the first argument.
func taskNames(ctx context.Context, s *session, args []string) ([]cobra.Completion, error) {
	if len(args) == 0 {
		return nil, nil
	}
	op, err := s.GetOperation(ctx, args[0])
	var out []cobra.Completion
	for _, task := range op.GetTasks() {
		out = append(out, cobra.CompletionWithDesc(task.GetName(), progressText(task)))
	}
	return out, err
}

// userNames suggests the users of the operations that were started last.
func userNames(ctx context.Context, s *session) ([]cobra.Completion, error) {
	page, err := s.ListOperations(ctx, &apipb.ListOperationsRequest{Limit: 1000})
	var out []cobra.Completion
	for _, op := range page.GetOperations() {
		if !slices.Contains(out, op.GetUser()) {
			out = append(out, op.GetUser())
		}
	}
	slices.Sort(out)
	return out, err
}

// poolNames suggests the pools of all trees, those of the default tree first.
func poolNames(ctx context.Context, s *session) ([]cobra.Completion, error) {
	all, err := s.ListTrees(ctx)
	if err != nil {
		return nil, err
	}
	var out []cobra.Completion
	for _, tree := range append([]string{""}, treesOf(all)...) {
		page, err := s.ListPools(ctx, tree)
		if err != nil {
			return out, err
		}
		for _, pool := range page.GetPools() {
			if !slices.Contains(out, pool.GetName()) {
				out = append(out, pool.GetName())
			}
		}
	}
	return out, nil
}

func treesOf(all *apipb.ListTreesResponse) []string {
	var out []string
	for _, tree := range all.GetTrees() {
		out = append(out, tree.GetName())
	}
	return out
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

// areFolders has the shell suggest folders for flags that are there.
func areFolders(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		if err := cobra.MarkFlagDirname(flags, name); err != nil {
			panic(err)
		}
	}
}
