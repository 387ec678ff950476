package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/poolfile"
	"weir/messages/apipb"
	"weir/scheduling"
	"weir/scheduling/pooltree"
)

// applyFlags holds the flags of weir pool apply.
type applyFlags struct {
	file               string
	dryRun, yes, prune bool
}

func newPoolApplyCommand(f *poolFlags) *cobra.Command {
	var apply applyFlags
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Change a pool tree to match a file",
		Long: `Change a pool tree to match a file.

The plan is shown first: + added, - removed, ~ changed, with old and new values. It is
applied as one revision, after confirmation: nothing is applied if the tree has changed
meanwhile, or if part of it is rejected. Options that the file does not have are
reset to their defaults; pools that it does not have stay, unless --prune is given.
Ephemeral pools are left alone.

weir pool export writes such a file.`,
		Example: `  weir pool export > pools.yaml
  weir pool apply -f pools.yaml --dry-run
  weir pool apply -f pools.yaml --prune --yes`,
	}
	var file poolfile.File
	checked(cmd, func([]string) (err error) {
		if err := require(cmd, "file"); err != nil {
			return err
		}
		if file, err = readAs("pools", apply.file, cmd.InOrStdin(), poolfile.Read); err != nil {
			return err
		}
		if f.tree != "" && file.Tree != "" && string(file.Tree) != f.tree {
			return fmt.Errorf("%s is for tree %s, but --tree is %s: give only one of them", apply.file, file.Tree, f.tree)
		}
		return nil
	})
	cmd.RunE = f.verb(func(ctx context.Context, s *session, _ []string) error {
		return applyFile(ctx, s, file, cmp.Or(f.tree, string(file.Tree)), &apply, cmd.InOrStdin())
	})
	flags := cmd.Flags()
	flags.StringVarP(&apply.file, "file", "f", "", "file with the tree, - for standard input")
	flags.BoolVar(&apply.dryRun, "dry-run", false, "show the plan, and the rights for it that you lack; change nothing")
	flags.BoolVarP(&apply.yes, "yes", "y", false, "apply without asking")
	flags.BoolVar(&apply.prune, "prune", false, "remove pools that are not in the file")
	return cmd
}

// applyFile shows the plan, asks for confirmation and applies it.
func applyFile(ctx context.Context, s *session, file poolfile.File, tree string, f *applyFlags, stdin io.Reader) error {
	now, err := s.ListPools(ctx, tree)
	if err != nil {
		return err
	}
	pools, err := treeOf(now.GetTreeOptions(), now.GetPools())
	if err != nil {
		return err
	}
	plan, err := poolfile.Compare(pools, file, f.prune)
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("%s: %w", f.file, err)}
	}
	if plan.Empty() {
		return s.show(view{message: &apipb.EditTreeResponse{Tree: now.GetTree(), Revision: now.GetRevision()},
			text: func(time.Time) string { return planText(now, plan) }})
	}
	request, err := editsOf(plan, now)
	if err != nil {
		return err
	}
	if f.dryRun {
		may, err := s.MayI(ctx, &apipb.MayIRequest{Edit: request})
		if err != nil {
			return err
		}
		err = s.show(view{message: request, text: func(time.Time) string { return planText(now, plan) + lackingText(may) }})
		if err == nil && !may.GetAllowed() {
			return &exitError{exitRefused, errors.New("this plan would be refused: it needs rights that you do not have")}
		}
		return err
	}
	if s.format.forPeople() {
		if err := s.write(planText(now, plan)); err != nil {
			return err
		}
	}
	if f.file == "-" {
		stdin = nil
	}
	if !f.yes {
		if err := agreed(s.err, stdin, "apply?", "nothing changed", "give --yes, or --dry-run to only see the plan"); err != nil {
			return err
		}
	}
	answer, err := s.EditTree(ctx, request)
	return s.said(err, answer, "tree %s now matches the file: revision %d", answer.GetTree(), answer.GetRevision())
}

// lackingText lists the rights that a plan needs and its reader lacks.
func lackingText(may *apipb.MayIResponse) string {
	var b strings.Builder
	for i, why := range may.GetLacking() {
		if i == 0 {
			b.WriteString("you may not apply it:\n")
		}
		b.WriteString("  " + printable(why) + "\n")
	}
	return b.String()
}

// treeOf returns the tree that messages describe.
func treeOf(tree *structpb.Struct, described []*apipb.Pool) (pooltree.Tree, error) {
	options, err := pooltree.ReadTreeOptions(tree.AsMap())
	if err != nil {
		return pooltree.Tree{}, err
	}
	pools := make([]pooltree.Pool, len(described))
	for i, p := range described {
		read, err := pooltree.ReadPoolOptions(p.GetOptions().AsMap())
		if err != nil {
			return pooltree.Tree{}, fmt.Errorf("pool %s: %w", p.GetName(), err)
		}
		pools[i] = pooltree.Pool{
			Name: scheduling.PoolName(p.GetName()), Parent: scheduling.PoolName(p.GetParent()), Options: read, Ephemeral: scheduling.User(p.GetEphemeralUser()),
		}
	}
	return pooltree.FromPools(options, pools)
}

// planText shows a plan.
func planText(now *apipb.ListPoolsResponse, plan poolfile.Plan) string {
	var b strings.Builder
	if plan.Empty() {
		fmt.Fprintf(&b, "tree %s matches the file: nothing to do (revision %d)\n", now.GetTree(), now.GetRevision())
	} else {
		fmt.Fprintf(&b, "tree %s, revision %d:\n", now.GetTree(), now.GetRevision())
		for _, line := range plan.Lines() {
			b.WriteString("  " + printable(line) + "\n")
		}
	}
	if len(plan.Left) > 0 {
		names := make([]string, len(plan.Left))
		for i, name := range plan.Left {
			names[i] = string(name)
		}
		fmt.Fprintf(&b, "not in the file, kept: %s (--prune removes them)\n", strings.Join(names, ", "))
	}
	return b.String()
}

// editsOf returns the plan as a request that applies only to the current revision.
func editsOf(plan poolfile.Plan, now *apipb.ListPoolsResponse) (*apipb.EditTreeRequest, error) {
	request := &apipb.EditTreeRequest{Tree: now.GetTree(), ExpectedRevision: now.GetRevision()}
	for _, c := range plan.Changes {
		values := make([]assigned, len(c.Values))
		for i, v := range c.Values {
			values[i] = assigned{v.Path, v.New}
		}
		edit, err := editOf(c, values)
		if err != nil {
			return nil, fmt.Errorf("pool %s: %w", c.Pool, err)
		}
		request.Edits = append(request.Edits, edit)
	}
	return request, nil
}

func editOf(c poolfile.Change, values []assigned) (*apipb.TreeEdit, error) {
	options, err := structOf(values)
	if c.Create {
		var object map[string]any
		if object, err = objectOf[pooltree.PoolOptions](values); err == nil {
			options, err = structpb.NewStruct(object)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case c.Pool == "":
		return &apipb.TreeEdit{Edit: &apipb.TreeEdit_TreeOptions{TreeOptions: options}}, nil
	case c.Remove:
		return &apipb.TreeEdit{Edit: &apipb.TreeEdit_Remove{Remove: string(c.Pool)}}, nil
	case c.Create:
		return &apipb.TreeEdit{Edit: &apipb.TreeEdit_Create{Create: &apipb.Pool{Name: string(c.Pool), Parent: string(c.Parent), Options: options}}}, nil
	}
	change := &apipb.PoolChange{Name: string(c.Pool), Options: options}
	if c.OldParent != c.Parent {
		parent := string(c.Parent)
		change.Parent = &parent
	}
	return &apipb.TreeEdit{Edit: &apipb.TreeEdit_Change{Change: change}}, nil
}

// agreed asks for agreement on a terminal; elsewhere there is another way than to ask. Without an agreement its error
// begins with what that means.
func agreed(out io.Writer, stdin io.Reader, question, without, elsewhere string) error {
	terminal, ok := stdin.(*os.File)
	if !ok || !term.IsTerminal(int(terminal.Fd())) {
		return &exitError{exitUsage, fmt.Errorf("%s: no terminal to confirm on: %s", without, elsewhere)}
	}
	fmt.Fprint(out, question+" [y/N] ")
	answer, err := bufio.NewReader(terminal).ReadString('\n')
	if err != nil && answer == "" {
		return &exitError{exitInterrupted, fmt.Errorf("%s: no answer", without)}
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &exitError{exitInterrupted, errors.New(without)}
}

func newPoolExportCommand(f *poolFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: "Write a pool tree as a file for weir pool apply",
		Long: `Write a pool tree as a file for weir pool apply. Ephemeral pools are left
out: they exist only as long as their operations.`,
		Example: "  weir pool export > pools.yaml\n  weir pool export --tree gpu -o json",
		RunE: f.verb(func(ctx context.Context, s *session, _ []string) error {
			now, err := s.ListPools(ctx, f.tree)
			if err != nil {
				return err
			}
			pools, err := treeOf(now.GetTreeOptions(), now.GetPools())
			if err != nil {
				return err
			}
			data, err := poolfile.Of(scheduling.TreeName(now.GetTree()), pools).Write()
			if err != nil {
				return err
			}
			if s.format == formatJSON {
				if data, err = yaml.YAMLToJSON(data); err != nil {
					return fmt.Errorf("print as json: %w", err)
				}
			}
			return s.write(string(data))
		}),
	}
}
