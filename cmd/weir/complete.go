package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/messages/apipb"
	"weir/scheduling"
	"weir/scheduling/access"
	"weir/scheduling/lifecycle"
)

// completionPatience bounds how long a shell waits for suggestions.
const completionPatience = 2 * time.Second

// lister returns suggestions from the cluster. The session has the flags and the arguments
// given so far.
type lister func(ctx context.Context, s *session) ([]cobra.Completion, error)

// listers maps the name of a verb's first argument, or of a flag, to its suggestions,
// unless the verb sets its own. nil means no suggestions: only the user knows the value.
var listers = map[string]lister{
	"OPERATION": operationNames(false), "JOB": jobNames(false), "NODE": nodeNames("", (*apipb.Node).GetState), "POOL": poolNamesOfTree, "[POOL]": poolNamesOfTree,
	"TREE": treeNames, "[TREE]": treeNames, "REPLICA": replicaNames, "GROUP": groupNames, "STORE": storeNames, "[REPLICA]": replicaNames, "[KEY]": profileKeys,
	"operation": operationNames(false), "task": taskNames, "user": userNames, "node": nodeNames("", (*apipb.Node).GetState), "pool": poolNames, "parent": poolNamesOfTree,
	"tree": treeNames, "forget": profileKeys, "allow": grantNames, "revoke": grantNames, "remove-pool": poolNames, "remove-operation": operationNames(true),
	"label": labelNames, "title": nil, "started-before": nil, "finished-since": nil, "finished-before": nil,
	"addresses": nil, "reason": nil, "filter": nil, "after": nil, "since": nil, "tail": nil, "set": nil, "add-pool": nil, "add-operation": nil, "nodes": nil,
	"object": nil, "as": nil, "tags": nil, "max-memory": nil, "access-key": nil, "endpoint": nil, "prefix": nil, "region": nil, "group": nil,
}

// complete sets the completions of cmd and of the verbs below it, by the names of arguments
// and flags.
func (f *clientFlags) complete(cmd *cobra.Command) {
	if names := operands(cmd); len(names) > 0 && cmd.ValidArgsFunction == nil {
		if list := listers[names[0]]; list != nil {
			cmd.ValidArgsFunction = f.suggest(true, list)
		}
	}
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		list, known := listers[flag.Name]
		if _, own := cmd.GetFlagCompletionFunc(flag.Name); !known || own {
			return
		}
		by := fixed()
		if list != nil {
			by = f.suggest(false, list)
		}
		must(cmd.RegisterFlagCompletionFunc(flag.Name, by))
	})
	for _, below := range cmd.Commands() {
		f.complete(below)
	}
}

// suggest returns a completion of a verb's first argument, or of a flag, from the cluster.
// If the cluster does not answer, there are no suggestions.
func (f *clientFlags) suggest(first bool, list lister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
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
		found, err := list(ctx, &session{Client: c, cmd: cmd, args: args, begun: begun})
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// offered returns what an id is suggested as: short, unless the user has begun to write the whole id.
func (s *session) offered(id string) string {
	if s.begun != "" && strings.HasPrefix(id, s.begun) {
		return id
	}
	return scheduling.ShortID(id)
}

// operationNames suggests the aliases and ids of operations, latest first.
func operationNames(inProgress bool) lister {
	return func(ctx context.Context, s *session) ([]cobra.Completion, error) {
		page, err := s.ListOperations(ctx, &apipb.ListOperationsRequest{InProgress: inProgress})
		var out []cobra.Completion
		aliases := make(map[string]bool)
		for _, op := range page.GetOperations() {
			about := strings.TrimRight(printable(op.GetState()+" "+op.GetTitle()), " ") + when(op.GetUser() != "", " of "+printable(op.GetUser()))
			if op.GetAlias() != "" && !aliases[op.GetAlias()] {
				aliases[op.GetAlias()] = true
				out = append(out, cobra.CompletionWithDesc(op.GetAlias(), about))
			}
			out = append(out, cobra.CompletionWithDesc(s.offered(op.GetId()), about))
		}
		return out, err
	}
}

// labelNames suggests the labels of the latest operations, as NAME=VALUE.
func labelNames(ctx context.Context, s *session) ([]cobra.Completion, error) {
	page, err := s.ListOperations(ctx, &apipb.ListOperationsRequest{})
	seen := make(map[string]bool)
	for _, op := range page.GetOperations() {
		for name, value := range op.GetLabels() {
			seen[printable(name+"="+value)] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), err
}

// jobNames suggests jobs of the latest operations. For each operation it lists the jobs that
// have not ended and, unless inProgress is set, also the latest of those that have ended.
func jobNames(inProgress bool) lister {
	const operations, jobs = 10, 50
	return func(ctx context.Context, s *session) ([]cobra.Completion, error) {
		page, err := s.ListOperations(ctx, &apipb.ListOperationsRequest{InProgress: inProgress, Limit: operations})
		var out []cobra.Completion
		for _, op := range page.GetOperations() {
			if op.GetHidden() != "" {
				continue
			}
			found, err := s.ListJobs(ctx, &apipb.ListJobsRequest{Operation: op.GetId(), Limit: jobs})
			if err != nil {
				return out, err
			}
			for _, job := range found.GetJobs() {
				if !inProgress || job.GetFinishTime() == nil {
					out = append(out, cobra.CompletionWithDesc(s.offered(job.GetId()),
						printable(fmt.Sprintf("%s of task %s on %s", jobState(job), job.GetTask(), job.GetNode()))))
				}
			}
		}
		return out, err
	}
}

// taskNames suggests the tasks of the operation that is the first argument.
func taskNames(ctx context.Context, s *session) ([]cobra.Completion, error) {
	if len(s.args) == 0 {
		return nil, nil
	}
	op, err := s.GetOperation(ctx, s.args[0])
	return described(op.GetTasks(), (*apipb.TaskProgress).GetName, progressText), err
}

// userNames suggests the users of the operations that were started last.
func userNames(ctx context.Context, s *session) ([]cobra.Completion, error) {
	page, err := s.ListOperations(ctx, &apipb.ListOperationsRequest{Limit: 1000})
	var out []cobra.Completion
	for _, op := range page.GetOperations() {
		out = append(out, op.GetUser())
	}
	slices.Sort(out)
	return slices.Compact(out), err
}

// poolNames suggests the pools of all trees, those of the default tree first.
func poolNames(ctx context.Context, s *session) ([]cobra.Completion, error) {
	all, err := s.ListTrees(ctx)
	if err != nil {
		return nil, err
	}
	var out []cobra.Completion
	for _, tree := range append([]string{""}, named(all.GetTrees())...) {
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

// poolNamesOfTree suggests the pools of the tree that --tree names, or of the default tree.
func poolNamesOfTree(ctx context.Context, s *session) ([]cobra.Completion, error) {
	tree := ""
	if flag := s.cmd.Flags().Lookup("tree"); flag != nil {
		tree = flag.Value.String()
	}
	page, err := s.ListPools(ctx, tree)
	return named(page.GetPools()), err
}

// treeNames suggests the names of pool trees.
func treeNames(ctx context.Context, s *session) ([]cobra.Completion, error) {
	all, err := s.ListTrees(ctx)
	return named(all.GetTrees()), err
}

// namesOffered is how many nodes are suggested at most.
const namesOffered = 1000

// nodeNames suggests the nodes in the given state; all nodes if `state` is empty.
func nodeNames(state string, about func(*apipb.Node) string) lister {
	return func(ctx context.Context, s *session) ([]cobra.Completion, error) {
		all, err := s.Nodes(ctx, &apipb.ListNodesRequest{State: state, Prefix: s.begun, Limit: namesOffered})
		return described(all.GetNodes(), (*apipb.Node).GetId, about), err
	}
}

func replicaNames(ctx context.Context, s *session) ([]cobra.Completion, error) {
	members, err := s.Members(ctx)
	return described(members, (*apipb.Member).GetId, (*apipb.Member).GetAddress), err
}

// profileKeys suggests the keys of memory profiles.
func profileKeys(ctx context.Context, s *session) ([]cobra.Completion, error) {
	page, err := s.MemoryProfiles(ctx, &apipb.MemoryProfilesRequest{Limit: 1000})
	return described(page.GetProfiles(), (*apipb.MemoryProfile).GetKey, (*apipb.MemoryProfile).GetTask), err
}

// groupNames suggests the names of groups.
func groupNames(ctx context.Context, s *session) ([]cobra.Completion, error) {
	all, err := s.Groups(ctx, "")
	return named(all), err
}

// storeNames suggests the names of object stores.
func storeNames(ctx context.Context, s *session) ([]cobra.Completion, error) {
	all, err := s.Stores(ctx)
	return named(all.GetStores()), err
}

// grantNames suggests each right of each group.
func grantNames(ctx context.Context, s *session) ([]cobra.Completion, error) {
	all, err := s.Groups(ctx, "")
	var out []cobra.Completion
	for _, group := range all {
		for _, right := range access.Rights() {
			out = append(out, "group:"+group.GetName()+"="+string(right))
		}
	}
	return out, err
}

// named suggests things by their names.
func named[T interface{ GetName() string }](all []T) []cobra.Completion {
	out := make([]cobra.Completion, len(all))
	for i, one := range all {
		out[i] = one.GetName()
	}
	return out
}

// described suggests things by their names, with a few words on each.
func described[T any](all []T, name, about func(T) string) []cobra.Completion {
	out := make([]cobra.Completion, len(all))
	for i, one := range all {
		out[i] = cobra.CompletionWithDesc(name(one), printable(about(one)))
	}
	return out
}

// operationStates returns the names of all operation states except the first, which means no
// state.
func operationStates() []cobra.Completion {
	var out []cobra.Completion
	for _, state := range lifecycle.States()[1:] {
		out = append(out, state.String())
	}
	return out
}

// must panics if a flag's completion could not be set: the flag has to exist.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// fixed always suggests the same values, without asking the cluster.
func fixed(values ...cobra.Completion) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}
