package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"weir/api/client"
	"weir/messages/statepb"
)

// killedAtOnce is what jobs have to leave on a node that is removed by force.
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
		Args:              takes("NODE"),
		ValidArgsFunction: f.suggest(true, offlineNames),
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

// empty has a node that is online lose its jobs, and waits until it has none.
func empty(ctx context.Context, s *session, name string) error {
	ticker := time.NewTicker(s.period)
	defer ticker.Stop()
	drained := false
	for {
		answer, err := s.GetNode(ctx, name)
		node := answer.GetNode()
		switch {
		case ctx.Err() != nil && !drained:
			return fmt.Errorf("drain node %s: %w", name, context.Cause(ctx))
		case ctx.Err() != nil:
			return fmt.Errorf("node %s is drained and has jobs that have not ended: weir node remove %s --force waits again: %w", name, name, context.Cause(ctx))
		case err != nil && !errors.Is(err, client.ErrUnreachable):
			return err
		case err == nil && node.GetState() == statepb.NodeOffline:
			return nil
		case err == nil && !drained:
			if err := s.DrainNode(ctx, name, "being removed", killedAtOnce); err != nil {
				return err
			}
			drained = true
			continue
		case err == nil && node.GetJobs() == 0:
			return nil
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// offlineNames suggests the nodes that are offline.
func offlineNames(ctx context.Context, s *session) ([]cobra.Completion, error) {
	nodes, err := s.ListNodes(ctx, statepb.NodeOffline)
	var out []cobra.Completion
	for _, node := range nodes {
		out = append(out, cobra.CompletionWithDesc(node.GetId(), nodeState(node)))
	}
	return out, err
}
