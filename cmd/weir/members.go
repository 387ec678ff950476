package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"weir/messages/apipb"
)

func newClusterCommand(f *clientFlags) *cobra.Command {
	return group(&cobra.Command{
		Use:     "cluster",
		Short:   "Show and change the replicas, back up and restore",
		Example: "  weir cluster members\n  weir cluster transfer r2\n  weir cluster add r4 --address host4:7701\n  weir cluster backup -f weir.backup",
	}, newMembersCommand(f), newTransferCommand(f), newAddCommand(f), newRemoveCommand(f), newPromoteCommand(f), newDemoteCommand(f),
		newBackupCommand(f), newRestoreCommand())
}

func newMembersCommand(f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "members",
		Short:   "List the replicas, as known to the one that answers",
		Example: "  weir cluster members",
		Args:    takes(),
		RunE: f.verb(func(ctx context.Context, s *session, _ []string) error {
			members, err := s.Members(ctx)
			if err != nil {
				return err
			}
			return s.show(view{
				message: &apipb.MembersResponse{Members: members}, rows: true,
				text: func(time.Time) string { return membersText(members) },
			})
		}),
	}
}

func newTransferCommand(f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "transfer [REPLICA]",
		Short: "Move leadership to another replica",
		Long: `Move leadership to another replica: the given one, or the most up-to-date one.
Jobs keep running. It needs operator credentials.`,
		Example:           "  weir cluster transfer r2\n  weir cluster transfer      # before this replica is stopped",
		Args:              takes("[REPLICA]"),
		ValidArgsFunction: f.suggest(true, replicaNames),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			to := ""
			if len(args) > 0 {
				to = args[0]
			}
			leader, err := s.Transfer(ctx, to)
			if err != nil {
				return err
			}
			return s.said(&apipb.TransferResponse{Leader: leader}, "replica %s leads", leader)
		}),
	}
}

func membersText(members []*apipb.Member) string {
	g := newGrid("replica", "address", "state", "role", "operations>", "version")
	for _, m := range members {
		state, role := "down", m.GetSuffrage()
		if m.GetAlive() {
			state = "up"
		}
		switch {
		case m.GetLeader():
			role = "leader"
		case role == "":
			role = "not a member"
		}
		g.row(m.GetId(), m.GetAddress(), state, role, m.GetOperationsControlled(), m.GetVersion())
	}
	return g.String()
}
