package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/messages/apipb"
)

// poolSettings are the flags that say how a pool shall be. Each is named like its
// field of a pool, with - for _.
type poolSettings struct {
	parent               string
	weight               float64
	maxRunning, maxCount int32
}

// poolFields are the settings of a pool that can be given.
var poolFields = []string{"parent", "weight", "max_running_operation_count", "max_operation_count"}

func (p *poolSettings) register(cmd *cobra.Command, f *clientFlags) {
	flags := cmd.Flags()
	flags.StringVar(&p.parent, "parent", "", "pool that it is below (default: the top of the tree)")
	flags.Float64Var(&p.weight, "weight", 0, "its part of its parent's share, relative to the pools beside it (default: the tree's)")
	flags.Int32Var(&p.maxRunning, "max-running-operation-count", 0, "how many operations in it may run at once (default: the tree's)")
	flags.Int32Var(&p.maxCount, "max-operation-count", 0, "how many operations in progress it may have (default: the tree's)")
	mustComplete(cmd, "parent", f.suggest(false, poolNames))
}

// pool returns the named pool with the settings that were given, and their names.
func (p *poolSettings) pool(name string, flags *pflag.FlagSet) (pool *apipb.Pool, given []string, err error) {
	pool = &apipb.Pool{Name: name}
	for _, field := range poolFields {
		flag := strings.ReplaceAll(field, "_", "-")
		if !flags.Changed(flag) {
			continue
		}
		given = append(given, field)
		switch field {
		case "parent":
			pool.Parent = p.parent
		case "weight":
			if !(p.weight > 0) || math.IsInf(p.weight, 0) {
				return nil, nil, &exitError{exitUsage, fmt.Errorf("--weight %v: must be above 0", p.weight)}
			}
			pool.Weight = &p.weight
		case "max_running_operation_count":
			pool.MaxRunningOperationCount = &p.maxRunning
		case "max_operation_count":
			pool.MaxOperationCount = &p.maxCount
		}
	}
	if p.maxRunning < 0 || p.maxCount < 0 {
		return nil, nil, &exitError{exitUsage, errors.New("--max-running-operation-count, --max-operation-count: must not be negative")}
	}
	return pool, given, nil
}

func newPoolCreateCommand(f *clientFlags) *cobra.Command {
	var settings poolSettings
	cmd := &cobra.Command{
		Use:   "create POOL",
		Short: "Make a pool",
		Example: `  weir pool create ads --weight 2
  weir pool create ads-prod --parent ads --max-running-operation-count 8`,
		Args: takes("POOL"),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		pool, _, err := settings.pool(args[0], cmd.Flags())
		if err != nil {
			return err
		}
		return f.verb(func(ctx context.Context, s *session, _ []string) error {
			revision, err := s.CreatePool(ctx, pool)
			if err != nil {
				return err
			}
			return s.said(&apipb.CreatePoolResponse{Revision: revision}, "created pool %s (tree revision %d)", pool.GetName(), revision)
		})(cmd, args)
	}
	settings.register(cmd, f)
	return cmd
}

func newPoolSetCommand(f *clientFlags) *cobra.Command {
	var settings poolSettings
	var unset []string
	var revision uint64
	cmd := &cobra.Command{
		Use:   "set POOL",
		Short: "Change settings of a pool",
		Long: `Change settings of a pool: those that are given, the others stay.

--revision is for two that change pools at the same time: nothing is changed unless
the tree still is as it was when weir pool get showed that revision.`,
		Example: `  weir pool set ads --weight 3
  weir pool set ads --unset max_operation_count
  weir pool set ads-prod --parent batch --revision 7`,
		Args:              takes("POOL"),
		ValidArgsFunction: f.suggest(true, poolNames),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		pool, fields, err := settings.pool(args[0], cmd.Flags())
		if err != nil {
			return err
		}
		if fields, err = withUnset(fields, unset); err != nil {
			return &exitError{exitUsage, err}
		}
		return f.verb(func(ctx context.Context, s *session, _ []string) error {
			now, err := s.SetPool(ctx, &apipb.SetPoolRequest{Pool: pool, Fields: fields, ExpectedRevision: revision})
			if err != nil {
				return err
			}
			return s.said(&apipb.SetPoolResponse{Revision: now}, "changed pool %s: %s (tree revision %d)", pool.GetName(), strings.Join(fields, ", "), now)
		})(cmd, args)
	}
	settings.register(cmd, f)
	cmd.Flags().StringSliceVar(&unset, "unset", nil, "settings that go back to their default: "+strings.Join(poolFields, ", "))
	cmd.Flags().Uint64Var(&revision, "revision", 0, "change nothing unless the tree has this revision (default: any)")
	mustComplete(cmd, "unset", fixed(poolFields...))
	return cmd
}

// withUnset returns the fields of a change: those that are given and those that go
// back to their default.
func withUnset(given, unset []string) ([]string, error) {
	fields := given
	for _, name := range unset {
		field := strings.ReplaceAll(name, "-", "_")
		switch {
		case !slices.Contains(poolFields, field):
			return nil, fmt.Errorf("--unset %s: there is no such setting: one of %s", name, strings.Join(poolFields, ", "))
		case slices.Contains(fields, field):
			return nil, fmt.Errorf("--unset %s: it is given as well, or twice", name)
		}
		fields = append(fields, field)
	}
	if len(fields) == 0 {
		return nil, errors.New("nothing to change: give settings, or --unset (see weir pool set --help)")
	}
	return fields, nil
}
