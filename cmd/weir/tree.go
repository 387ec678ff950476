package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/poolfile"
	"weir/messages/apipb"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

func newTreeCommand(f *clientFlags) *cobra.Command {
	return group(&cobra.Command{
		Use:   "tree",
		Short: "Show and change pool trees",
		Long: `Show and change pool trees.

Each tree has its own nodes and pools: a node belongs to the tree whose nodes_filter
matches its tags, and to at most one. Operations name the trees that they run in; those
that name none run in the default tree. Changes need operator credentials.`,
		Example: "  weir tree list\n  weir tree create gpu nodes_filter=gpu\n  weir tree set default nodes_filter='!gpu'",
	}, newTreeCreateCommand(f), newTreeSetCommand(f), &cobra.Command{
		Use:     "list",
		Short:   "List pool trees with their nodes and operations",
		Example: "  weir tree list\n  weir tree list -o json",
		RunE: f.shows(func(ctx context.Context, s *session, _ []string) (view, error) {
			all, err := s.ListTrees(ctx)
			return view{message: all, rows: true, text: func(time.Time) string { return treesText(all.GetTrees()) }}, err
		}),
	}, &cobra.Command{
		Use:   "get [TREE]",
		Short: "Show one pool tree (default: the default tree)",
		Long: `Show one pool tree (default: the default tree). In json and yaml it has
all of its settings, with their defaults.`,
		Example: "  weir tree get\n  weir tree get gpu -o yaml",
		RunE: f.shows(func(ctx context.Context, s *session, args []string) (view, error) {
			t, err := s.GetTree(ctx, strings.Join(args, ""))
			return view{message: t, text: func(now time.Time) string { return treeText(t, now) }}, err
		}),
	}, &cobra.Command{
		Use:        "remove TREE",
		SuggestFor: suggestRemove,
		Short:      "Remove a pool tree that has no operations and no jobs",
		Example:    "  weir tree remove gpu",
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			return s.said(s.RemoveTree(ctx, args[0]), &apipb.RemoveTreeResponse{}, "removed tree %s", args[0])
		}),
	}, &cobra.Command{
		Use:     "set-default TREE",
		Short:   "Set the tree of operations that name none",
		Example: "  weir tree set-default cpu",
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			return s.said(s.SetDefaultTree(ctx, args[0]), &apipb.SetDefaultTreeResponse{}, "tree %s is the default", args[0])
		}),
	})
}

func treesText(trees []*apipb.Tree) string {
	g := newGrid("tree", "default", "nodes>", "resources", "filter", "pools>", "running>", "operations>", "revision>")
	for _, t := range trees {
		g.row(t.GetName(), when(t.GetDefault(), "yes"), limited(t.GetNodesOnline(), t.GetNodes()), amounts(t.GetResources()),
			cmp.Or(t.GetEffective().GetFields()["nodes_filter"].GetStringValue(), "all nodes"), t.GetPools(), t.GetRunningOperationCount(),
			t.GetOperationCount(), t.GetRevision())
	}
	return g.String()
}

func treeText(t *apipb.Tree, now time.Time) string {
	page := newFacts()
	page.add("tree", t.GetName())
	page.add("default", when(t.GetDefault(), "yes: operations that name no tree run here"))
	page.add("filter", cmp.Or(t.GetEffective().GetFields()["nodes_filter"].GetStringValue(), "all nodes"))
	page.add("nodes", fmt.Sprintf("%d online of %d", t.GetNodesOnline(), t.GetNodes()))
	page.add("resources", amounts(t.GetResources()))
	page.add("pools", fmt.Sprint(t.GetPools()))
	page.add("operations", fmt.Sprintf("%d, %d running", t.GetOperationCount(), t.GetRunningOperationCount()))
	page.add("changed", moment(t.GetModifiedTime(), now))
	page.add("revision", fmt.Sprint(t.GetRevision()))
	return page.String() + optionsText(t.GetOptions())
}

var treeOptionsHelp = "Options are name=value; an empty value means the default.\n\n" + optionsHelp[pooltree.TreeOptions]()

func newTreeCreateCommand(f *clientFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create TREE [OPTION=VALUE...]",
		Short: "Create a pool tree with a pool named default",
		Long: `Create a pool tree with a pool named default. Its nodes_filter must not match nodes that
another tree has.

` + treeOptionsHelp,
		Example:           "  weir tree create gpu nodes_filter=gpu main_resource=gpu",
		ValidArgsFunction: f.completeOptions(nil, option.Fields(pooltree.TreeOptions{})),
	}
	var options *structpb.Struct
	checked(cmd, func(args []string) (err error) {
		options, err = newOptions(args[1:], pooltree.ReadTreeOptions)
		return err
	})
	cmd.RunE = f.verb(func(ctx context.Context, s *session, args []string) error {
		revision, err := s.CreateTree(ctx, args[0], options)
		return s.said(err, &apipb.CreateTreeResponse{Revision: revision}, "created tree %s (revision %d)", args[0], revision)
	})
	return cmd
}

func newTreeSetCommand(f *clientFlags) *cobra.Command {
	var req apipb.SetTreeRequest
	var unset []string
	cmd := &cobra.Command{
		Use:               "set TREE OPTION=VALUE...",
		Short:             "Change options of a pool tree",
		Long:              "Change options of a pool tree: only those given.\n\n" + treeOptionsHelp,
		Example:           "  weir tree set default max_running_operation_count=500\n  weir tree set gpu --unset main_resource",
		ValidArgsFunction: f.completeOptions(treeNames, option.Fields(pooltree.TreeOptions{})),
	}
	var done string
	checked(cmd, func(args []string) (err error) {
		_, req.Options, done, err = changeOf[pooltree.TreeOptions]("", args[1:], unset)
		return err
	})
	cmd.RunE = f.verb(func(ctx context.Context, s *session, args []string) error {
		req.Tree = args[0]
		now, err := s.SetTree(ctx, &req)
		return s.said(err, &apipb.SetTreeResponse{Revision: now}, "changed tree %s: %s (revision %d)", args[0], done, now)
	})
	registerRevision(cmd, &req.ExpectedRevision)
	registerUnset(cmd, &unset, pooltree.TreeOptions{})
	return cmd
}

func newGetCommand(f *clientFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get [PATH]",
		Short: "Show scheduler attributes by path",
		Long: `Show scheduler attributes by path:

  scheduler/pool_trees/<tree>/pools/<pool>/<attribute>
  scheduler/pool_trees/<tree>/operations/<operation>/<attribute>
  scheduler/pool_trees/<tree>/nodes/<node>/<attribute>
  scheduler/<attribute>

A shorter path shows what is below it: names in a folder, all attributes of
a pool, an operation or a node.`,
		Example: `  weir get scheduler/pool_trees/default/pools/ads/fair_share_ratio
  weir get scheduler/pool_trees/default/pools/ads/detailed_fair_share/total/cpu
  weir get scheduler/pool_trees/default/nodes/n1 -o json`,
		ValidArgsFunction: f.completePath,
		RunE: f.shows(func(ctx context.Context, s *session, args []string) (view, error) {
			value, err := s.Attribute(ctx, strings.Join(args, ""))
			return view{message: value, text: func(time.Time) string { return attributeText(value) }}, err
		}),
	}
	return cmd
}

// attributeText formats a value: a scalar on one line, a list of names one per line,
// anything else as YAML.
func attributeText(value *structpb.Value) string {
	switch v := value.AsInterface().(type) {
	case map[string]any:
		return yamlText(value)
	case []any:
		var b strings.Builder
		for _, item := range v {
			text, ok := item.(string)
			if !ok {
				return yamlText(value)
			}
			b.WriteString(printable(text) + "\n")
		}
		return b.String()
	case nil:
		return none + "\n"
	default:
		return printable(poolfile.Text("", v)) + "\n"
	}
}

func yamlText(value *structpb.Value) string {
	data, err := encode(value, formatYAML)
	if err != nil {
		return err.Error() + "\n"
	}
	return string(data)
}

// completePath suggests the names below the last folder of a path.
func (f *clientFlags) completePath(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	folder := typed[:strings.LastIndexByte(typed, '/')+1]
	found, directive := f.suggest(true, func(ctx context.Context, s *session) ([]cobra.Completion, error) {
		value, err := s.Attribute(ctx, folder)
		var out []cobra.Completion
		for _, item := range value.GetListValue().GetValues() {
			out = append(out, folder+item.GetStringValue())
		}
		for name := range value.GetStructValue().GetFields() {
			out = append(out, folder+name)
		}
		return out, err
	})(cmd, args, typed)
	return found, directive | cobra.ShellCompDirectiveNoSpace
}
