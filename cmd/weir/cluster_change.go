package main

import (
	"cmp"
	"context"
	"strings"
	"time"

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
		Example:           "  weir cluster add r4 --address host4:7701",
		ValidArgsFunction: fixed(),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			err := s.AddReplica(ctx, args[0], address)
			return s.said(err, &apipb.AddReplicaResponse{}, "replica %s at %s added; it becomes a voter once it has caught up", args[0], address)
		}),
	}
	cmd.Flags().StringVar(&address, "address", "", "host:port at which other replicas reach the new one")
	needs(cmd, "address")
	return cmd
}

func newRemoveCommand(f *clientFlags) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:        "remove REPLICA",
		SuggestFor: suggestRemove,
		Short:      "Remove a replica from the cluster",
		Long: `Remove a replica from the cluster. Its process logs this and stops. The request is refused if
the remaining live voters would not be a majority. It needs
operator credentials.`,
		Example: "  weir cluster remove r4\n  weir cluster remove r2 && weir cluster add r2 --address new2:7701   # replace a dead one",
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			return s.said(s.RemoveReplica(ctx, args[0], force), &apipb.RemoveReplicaResponse{}, "replica %s removed", args[0])
		}),
	}
	registerForce(cmd, &force)
	return cmd
}

func newDemoteCommand(f *clientFlags) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "demote REPLICA",
		Short: "Make a voter a non-voter",
		Long: `Make a voter a non-voter: it keeps a copy of the state and answers clients until
it is promoted. The request is refused if the remaining live voters would not be a majority.
The command needs operator credentials.`,
		Example: "  weir cluster demote r4",
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			return s.said(s.DemoteReplica(ctx, args[0], force), &apipb.DemoteReplicaResponse{}, "replica %s is no longer a voter", args[0])
		}),
	}
	registerForce(cmd, &force)
	return cmd
}

func registerForce(cmd *cobra.Command, force *bool) {
	cmd.Flags().BoolVar(force, "force", false, "proceed even if the remaining live voters are not a majority; the cluster then stops until enough voters are back")
}

// needs makes a verb fail unless the named flags are set.
func needs(cmd *cobra.Command, names ...string) {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return require(cmd, names...) }
}

func newClusterCommand(f *clientFlags) *cobra.Command {
	return group(&cobra.Command{
		Use:     "cluster",
		Short:   "Show and change the replicas, back up and restore",
		Example: "  weir cluster members\n  weir cluster transfer r2\n  weir cluster add r4 --address host4:7701\n  weir cluster backup -f weir.backup",
	}, newAddCommand(f), newRemoveCommand(f), newDemoteCommand(f), newBackupCommand(f), newRestoreCommand(), &cobra.Command{
		Use:     "members",
		Short:   "List the replicas, as known to the one that answers",
		Example: "  weir cluster members",
		RunE: f.shows(func(ctx context.Context, s *session, _ []string) (view, error) {
			members, err := s.Members(ctx)
			return view{
				message: &apipb.MembersResponse{Members: members}, rows: true,
				text: func(time.Time) string { return membersText(members) },
			}, err
		}),
	}, &cobra.Command{
		Use:   "transfer [REPLICA]",
		Short: "Move leadership to another replica",
		Long: `Move leadership to another replica: the given one, or the most up-to-date one.
Jobs keep running. The command needs operator credentials.`,
		Example: "  weir cluster transfer r2\n  weir cluster transfer      # before this replica is stopped",
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			leader, err := s.Transfer(ctx, strings.Join(args, ""))
			return s.said(err, &apipb.TransferResponse{Leader: leader}, "replica %s is now the leader", leader)
		}),
	}, &cobra.Command{
		Use:   "promote REPLICA",
		Short: "Give a replica a vote",
		Long: `Give a replica a vote: one that was demoted, or was started with --non-voter. It must
have caught up. The command needs operator credentials.`,
		Example: "  weir cluster promote r4",
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			return s.said(s.PromoteReplica(ctx, args[0]), &apipb.PromoteReplicaResponse{}, "replica %s is a voter", args[0])
		}),
	})
}

func membersText(members []*apipb.Member) string {
	g := newGrid("replica", "address", "state", "role", "operations>", "version")
	for _, m := range members {
		state := cmp.Or(when(m.GetAlive(), "up"), "down")
		role := cmp.Or(when(m.GetLeader(), "leader"), m.GetSuffrage(), "not a member")
		g.row(m.GetId(), m.GetAddress(), state, role, m.GetOperationsControlled(), m.GetVersion())
	}
	return g.String()
}
