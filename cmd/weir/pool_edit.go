package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/apipb"
	"weir/scheduling"
	"weir/scheduling/access"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

// edits makes cmd call `edit`, apply the tree edit that it returns, and print the text `done`.
func (p *poolFlags) edits(cmd *cobra.Command, edit func(args []string) (done string, edit *apipb.TreeEdit)) *cobra.Command {
	registerRevision(cmd, &p.revision)
	cmd.RunE = p.verb(func(ctx context.Context, s *session, args []string) error {
		done, edit := edit(args)
		answer, err := s.EditTree(ctx, &apipb.EditTreeRequest{Tree: p.tree, Edits: []*apipb.TreeEdit{edit}, ExpectedRevision: p.revision})
		return s.said(err, answer, "%s (tree %s, revision %d)", done, answer.GetTree(), answer.GetRevision())
	})
	return cmd
}

// registerRevision adds the flag that guards a change against concurrent ones.
func registerRevision(cmd *cobra.Command, revision *uint64) {
	cmd.Flags().Uint64Var(revision, "expected-revision", 0, "change nothing unless the tree has this revision (default: any)")
}

var poolOptionsHelp = `Options are name=value; names in groups are joined by a dot or a slash, and
an empty value means the default. Values are written in YAML:

  weight=3  resource_limits.cpu=10  resource_limits='{cpu: 10, memory: 4GiB}'

` + optionsHelp[pooltree.PoolOptions]()

func newPoolCreateCommand(f *poolFlags) *cobra.Command {
	pool := &apipb.Pool{}
	cmd := f.edits(&cobra.Command{
		Use:   "create POOL [OPTION=VALUE...]",
		Short: "Create a pool",
		Long:  "Create a pool.\n\n" + poolOptionsHelp,
		Example: `  weir pool create ads weight=2
  weir pool create ads-prod --parent ads max_running_operation_count=8 strong_guarantee_resources.cpu=10
  weir pool create nightly mode=fifo fifo_sort_parameters='[start_time]'`,
		ValidArgsFunction: f.completeOptions(nil, option.Fields(pooltree.PoolOptions{}), "parent"),
	}, func(args []string) (string, *apipb.TreeEdit) {
		pool.Name = args[0]
		return "created pool " + args[0], &apipb.TreeEdit{Edit: &apipb.TreeEdit_Create{Create: pool}}
	})
	checked(cmd, func(args []string) error {
		parent, given, err := takeOut("parent", args[1:])
		if err != nil {
			return err
		}
		if parent != nil {
			pool.Parent = *parent
		}
		pool.Options, err = newOptions(given, pooltree.ReadPoolOptions)
		return err
	})
	cmd.Flags().StringVar(&pool.Parent, "parent", "", "parent pool (default: the root of the tree)")
	return cmd
}

func newPoolSetCommand(f *poolFlags) *cobra.Command {
	var unset []string
	var done string
	change := &apipb.PoolChange{}
	cmd := f.edits(&cobra.Command{
		Use:   "set POOL OPTION=VALUE...",
		Short: "Change options of a pool",
		Long: `Change options of a pool: only those given. parent=POOL moves it.

--expected-revision guards against concurrent changes: nothing is changed
unless the tree is still at the revision that weir pool get showed.

` + poolOptionsHelp,
		Example: `  weir pool set ads weight=3 strong_guarantee_resources.cpu=10
  weir pool set ads max_operation_count= --unset resource_limits
  weir pool set ads-prod parent=batch --expected-revision 7`,
		ValidArgsFunction: f.completeOptions(poolNamesOfTree, option.Fields(pooltree.PoolOptions{}), "parent"),
	}, func(args []string) (string, *apipb.TreeEdit) {
		change.Name = args[0]
		return fmt.Sprintf("changed pool %s: %s", args[0], done), &apipb.TreeEdit{Edit: &apipb.TreeEdit_Change{Change: change}}
	})
	checked(cmd, func(args []string) (err error) {
		change.Parent, change.Options, done, err = changeOf[pooltree.PoolOptions]("parent", args[1:], unset)
		return err
	})
	registerUnset(cmd, &unset, pooltree.PoolOptions{})
	return cmd
}

// registerUnset adds the flag that resets options of schema to their defaults.
func registerUnset(cmd *cobra.Command, unset *[]string, schema any) {
	cmd.Flags().StringSliceVar(unset, "unset", nil, "options to reset to their defaults")
	var names []cobra.Completion
	for _, field := range option.Fields(schema) {
		names = append(names, field.Path)
	}
	must(cmd.RegisterFlagCompletionFunc("unset", fixed(names...)))
}

// grants are rights to give or to take away, as SUBJECT=RIGHT,RIGHT.
type grants []string

// each calls visit for each subject and right.
func (g grants) each(flag string, visit func(subject access.Subject, right access.Right)) error {
	for _, grant := range g {
		name, rights, ok := strings.Cut(grant, "=")
		if !ok {
			return fmt.Errorf("--%s %q: must be SUBJECT=RIGHT, such as user:ann=use", flag, grant)
		}
		subject, err := access.ParseSubject(name)
		if err != nil {
			return fmt.Errorf("--%s %q: %w", flag, grant, err)
		}
		for name := range strings.SplitSeq(rights, ",") {
			right, err := access.ParseRight(name)
			if err != nil {
				return fmt.Errorf("--%s %q: %w", flag, grant, err)
			}
			visit(subject, right)
		}
	}
	return nil
}

func newPoolACLCommand(f *poolFlags) *cobra.Command {
	var allow, revoke []string
	cmd := &cobra.Command{
		Use:   "acl POOL",
		Short: "Show and change who may do what in a pool",
		Long: `Show and change who may do what in a pool and in all pools below it:

  read        see specifications, output, statistics and events of operations
  use         start operations, and move operations here
  manage      abort, suspend, resume, complete and update operations of others, and
              interrupt and abort their jobs
  administer  create, change, move and remove the pools below, and give rights on these

Subjects are user:NAME, group:NAME, or * for everyone. Those who administer a pool above
can change its rights; for '<Root>', only operators can. Rights are options of a pool
too (acl.use and so on), in pool files and in weir pool set.`,
		Example: `  weir pool acl ads
  weir pool acl ads --allow group:ads=use,read --allow user:bob=manage
  weir pool acl '<Root>' --revoke '*=use'`,
		ValidArgsFunction: f.suggest(true, poolNamesOfTree),
	}
	registerRevision(cmd, &f.revision)
	cmd.Flags().StringArrayVar(&allow, "allow", nil, "give rights: SUBJECT=RIGHT[,RIGHT...]; can be repeated")
	cmd.Flags().StringArrayVar(&revoke, "revoke", nil, "take rights away: SUBJECT=RIGHT[,RIGHT...]; can be repeated")
	checked(cmd, func([]string) error {
		check := func(access.Subject, access.Right) {}
		return errors.Join(grants(allow).each("allow", check), grants(revoke).each("revoke", check))
	})
	cmd.RunE = f.verb(func(ctx context.Context, s *session, args []string) error {
		now, err := s.ListPools(ctx, f.tree)
		if err != nil {
			return err
		}
		pool := scheduling.PoolName(args[0])
		tree, err := treeOf(now.GetTreeOptions(), now.GetPools())
		if err != nil {
			return err
		}
		if !tree.Has(pool) {
			return fmt.Errorf("there is no pool %q in tree %s", pool, now.GetTree())
		}
		if len(allow)+len(revoke) == 0 {
			list := rightsOn(tree, pool)
			return s.show(view{message: list, rows: true, text: func(time.Time) string { return rightsText(list) }})
		}
		acl, err := changedRights(tree.Rights(pool), pool, allow, revoke)
		if err != nil {
			return err
		}
		return f.give(ctx, s, now, pool, acl)
	})
	return cmd
}

// give changes the rights that a pool gives, unless somebody else changes its tree meanwhile.
func (p *poolFlags) give(ctx context.Context, s *session, now *apipb.ListPoolsResponse, pool scheduling.PoolName, acl map[string]any) error {
	options, err := structpb.NewStruct(map[string]any{"acl": nil})
	if acl != nil {
		options, err = structpb.NewStruct(map[string]any{"acl": acl})
	}
	if err != nil {
		return err
	}
	revision := cmp.Or(p.revision, now.GetRevision())
	if pool == scheduling.RootPool {
		revision, err = s.SetTree(ctx, &apipb.SetTreeRequest{Tree: now.GetTree(), Options: options, ExpectedRevision: revision})
	} else {
		change := &apipb.TreeEdit_Change{Change: &apipb.PoolChange{Name: string(pool), Options: options}}
		var answer *apipb.EditTreeResponse
		answer, err = s.EditTree(ctx, &apipb.EditTreeRequest{Tree: now.GetTree(), Edits: []*apipb.TreeEdit{{Edit: change}}, ExpectedRevision: revision})
		revision = answer.GetRevision()
	}
	return s.said(err, &apipb.EditTreeResponse{Tree: now.GetTree(), Revision: revision}, "changed the rights on pool %s (tree %s, revision %d)", pool, now.GetTree(), revision)
}

// changedRights returns the rights on a pool after some are taken away and some are given; nil if none
// are left.
func changedRights(rights *access.List, pool scheduling.PoolName, allow, revoke grants) (acl map[string]any, err error) {
	given := make(map[access.Right][]access.Subject)
	for _, right := range access.Rights() {
		given[right] = slices.Clone(rights.Subjects(right))
	}
	var missing error
	err = revoke.each("revoke", func(subject access.Subject, right access.Right) {
		i := slices.Index(given[right], subject)
		if i < 0 {
			missing = fmt.Errorf("pool %q does not give the right %s to %s (weir pool acl shows which pool does)", pool, right, subject)
			return
		}
		given[right] = slices.Delete(given[right], i, i+1)
	})
	if err = cmp.Or(err, missing); err != nil {
		return nil, err
	}
	err = allow.each("allow", func(subject access.Subject, right access.Right) {
		if !slices.Contains(given[right], subject) {
			given[right] = append(given[right], subject)
		}
	})
	acl = make(map[string]any)
	for right, subjects := range given {
		// An empty list takes away what the root gives by default.
		if len(subjects) > 0 || pool == scheduling.RootPool && right == access.Use {
			acl[string(right)] = anys(subjects)
		}
	}
	if len(acl) == 0 {
		return nil, err
	}
	return acl, err
}

func anys(subjects []access.Subject) []any {
	out := make([]any, len(subjects))
	for i, subject := range subjects {
		out[i] = string(subject)
	}
	return out
}

// rightsOn returns the rights that a pool and the pools above it give.
func rightsOn(tree pooltree.Tree, pool scheduling.PoolName) *apipb.PoolACL {
	list := &apipb.PoolACL{}
	path, _ := tree.Path(pool)
	for _, giver := range path {
		for _, right := range access.Rights() {
			for _, subject := range tree.Rights(giver).Subjects(right) {
				list.Rights = append(list.Rights, &apipb.SubjectRight{Subject: string(subject), Right: string(right), Pool: string(giver)})
			}
		}
	}
	return list
}

func rightsText(list *apipb.PoolACL) string {
	g := newGrid("subject", "right", "given on pool")
	for _, r := range list.GetRights() {
		g.row(r.GetSubject(), r.GetRight(), r.GetPool())
	}
	return g.String()
}
