package main

import (
	"context"

	"github.com/spf13/cobra"

	"weir/messages/apipb"
)

func newAddCommand(f *clientFlags) *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "add REPLICA --address HOST:PORT",
		Short: "Add a replica to the cluster",
		Long: `Add a replica to the cluster: it gets a copy of the state, and becomes a voter
once it has caught up, unless it was started with --non-voter. Start its
process before or after, with --join and the addresses of other replicas. It needs
operator credentials.`,
		Example: "  weir cluster add r4 --address host4:7701",
		Args:    takes("REPLICA"),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			if err := s.AddReplica(ctx, args[0], address); err != nil {
				return err
			}
			return s.said(&apipb.AddReplicaResponse{}, "replica %s at %s added; it becomes a voter once it has caught up", args[0], address)
		}),
	}
	cmd.Flags().StringVar(&address, "address", "", "host:port where the other replicas reach it")
	needs(cmd, "address")
	return cmd
}

func newRemoveCommand(f *clientFlags) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:        "remove REPLICA",
		SuggestFor: suggestRemove,
		Short:      "Remove a replica from the cluster",
		Long: `Remove a replica from the cluster. Its process logs this and stops. It is refused if
the remaining live voters would not be a majority. It needs
operator credentials.`,
		Example:           "  weir cluster remove r4\n  weir cluster remove r2 && weir cluster add r2 --address new2:7701   # replace a dead one",
		Args:              takes("REPLICA"),
		ValidArgsFunction: f.suggest(true, replicaNames),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			if err := s.RemoveReplica(ctx, args[0], force); err != nil {
				return err
			}
			return s.said(&apipb.RemoveReplicaResponse{}, "replica %s removed", args[0])
		}),
	}
	registerForce(cmd, &force)
	return cmd
}

func newPromoteCommand(f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "promote REPLICA",
		Short: "Give a replica a vote",
		Long: `Give a replica a vote: one that was demoted, or was started with --non-voter. It must
have caught up. It needs operator credentials.`,
		Example:           "  weir cluster promote r4",
		Args:              takes("REPLICA"),
		ValidArgsFunction: f.suggest(true, replicaNames),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			if err := s.PromoteReplica(ctx, args[0]); err != nil {
				return err
			}
			return s.said(&apipb.PromoteReplicaResponse{}, "replica %s is a voter", args[0])
		}),
	}
}

func newDemoteCommand(f *clientFlags) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "demote REPLICA",
		Short: "Take a replica's vote",
		Long: `Take a replica's vote. It keeps a copy of the state and answers clients until
it is promoted. It is refused if the remaining live voters would not be a majority.
It needs operator credentials.`,
		Example:           "  weir cluster demote r4",
		Args:              takes("REPLICA"),
		ValidArgsFunction: f.suggest(true, replicaNames),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			if err := s.DemoteReplica(ctx, args[0], force); err != nil {
				return err
			}
			return s.said(&apipb.DemoteReplicaResponse{}, "replica %s is no longer a voter", args[0])
		}),
	}
	registerForce(cmd, &force)
	return cmd
}

func registerForce(cmd *cobra.Command, force *bool) {
	cmd.Flags().BoolVar(force, "force", false, "even if the remaining live voters are not a majority; the cluster then stops until others are back")
}

// needs has a verb refuse to run without the flags.
func needs(cmd *cobra.Command, names ...string) {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return require(cmd, names...) }
}
