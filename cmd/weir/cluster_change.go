package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"weir/api/client"
	"weir/cluster/identity"
	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/messages/versions"
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
		Short:   "Show and change the replicas, back up and restore, upgrade",
		Example: "  weir cluster members\n  weir cluster transfer r2\n  weir cluster add r4 --address host4:7701\n  weir cluster backup -f weir.backup",
	}, newAddCommand(f), newRemoveCommand(f), newDemoteCommand(f), newBackupCommand(f), newRestoreCommand(), newUpgradeCommand(f), &cobra.Command{
		Use:     "members",
		Short:   "List the replicas, as known to the one that answers",
		Example: "  weir cluster members",
		RunE: f.shows(func(ctx context.Context, s *session, _ []string) (view, error) {
			members, err := s.Members(ctx)
			return view{
				message: &apipb.MembersResponse{Members: members}, rows: true,
				text: func(time.Time) string { return membersText(members, false) },
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

// membersText shows replicas, and if asked for also how far each is in the log, which each knows of itself only.
func membersText(members []*apipb.Member, indexes bool) string {
	titles := []string{"replica", "address", "state", "role", "operations>", "version"}
	if indexes {
		titles = append(titles, "log index>")
	}
	g := newGrid(titles...)
	for _, m := range members {
		state := cmp.Or(when(m.GetAlive(), "up"), "down")
		role := cmp.Or(when(m.GetLeader(), "leader"), m.GetSuffrage(), "not a member")
		row := []any{m.GetId(), m.GetAddress(), state, role, m.GetOperationsControlled(), m.GetVersion()}
		if indexes {
			row = append(row, cmp.Or(when(m.GetAppliedIndex() > 0, fmt.Sprint(m.GetAppliedIndex())), none))
		}
		g.row(row...)
	}
	return g.String()
}

func newUpgradeCommand(f *clientFlags) *cobra.Command {
	shows := func(use, short, long string, text func(*apipb.UpgradeStatusResponse, time.Time) string) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Long: long, Example: "  weir cluster upgrade " + use,
			RunE: f.shows(func(ctx context.Context, s *session, _ []string) (view, error) {
				st, err := upgradeStatus(ctx, s)
				return view{message: st, text: func(now time.Time) string { return text(st, now) }}, err
			}),
		}
	}
	return group(&cobra.Command{
		Use:     "upgrade",
		Short:   "Upgrade a cluster that works, process by process",
		Example: "  weir cluster upgrade plan\n  weir cluster upgrade status\n  weir cluster upgrade finish",
	}, shows("status", "Show which process has which version, and what is in the way", `Show the version of the cluster, the version of each process, the newest version of the
cluster that it works with, and what keeps the cluster from being raised to that.`, upgradeText),
		shows("plan", "Show in which order to restart processes with this version of weir", `Show in which order to restart the processes of the cluster with the version of this
program: agents, then replicas that do not lead, then the leader. Nothing is changed.
Until the upgrade is finished, each process can go back to the version before.`, planOfUpgrade),
		newFinishCommand(f))
}

func newFinishCommand(f *clientFlags) *cobra.Command {
	var yes, without bool
	cmd := &cobra.Command{
		Use:   "finish",
		Short: "Raise the version of the cluster; there is no way back",
		Long: `Raise the version of the cluster, once every process works with it. From then on what is
new in it is used, and programs that are older no longer start: there is no way back.
It is refused while a replica or an agent is too old, or is down. The command needs
operator credentials.`,
		Example: "  weir cluster upgrade finish\n  weir cluster upgrade finish --yes --without-offline-agents",
	}
	cmd.RunE = f.verb(func(ctx context.Context, s *session, _ []string) error {
		st, err := upgradeStatus(ctx, s)
		if err != nil {
			return err
		}
		done := &apipb.FinishUpgradeResponse{Version: st.GetClusterVersion()}
		if st.GetClusterVersion() >= st.GetTarget() {
			return s.said(nil, done, "the cluster has version %d already: nothing to do", st.GetClusterVersion())
		}
		if st.GetReplica() == "" {
			return &exitError{exitRefused, fmt.Errorf("finish upgrade: all replicas that answer are older than %s: see weir cluster upgrade plan", versions.ProgramNow())}
		}
		ask := &apipb.FinishUpgradeRequest{Version: st.GetTarget(), WithoutOfflineAgents: without, DryRun: true}
		if _, err := s.FinishUpgrade(ctx, ask); err != nil {
			return err
		}
		if !yes {
			question := fmt.Sprintf("raise the cluster from version %d to %d? Programs older than %s will no longer work with it, and there is no way back.",
				st.GetClusterVersion(), st.GetTarget(), versions.ProgramNow())
			if err := agreed(s.err, cmd.InOrStdin(), question, "the version stays", "give --yes"); err != nil {
				return err
			}
		}
		ask.DryRun = false
		done, err = s.FinishUpgrade(ctx, ask)
		return s.said(err, done, "the cluster has version %d: there is no way back to programs older than %s", done.GetVersion(), versions.ProgramNow())
	})
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "raise the version without asking")
	cmd.Flags().BoolVar(&without, "without-offline-agents", false, "also if agents that are offline are too old: they are refused until they are upgraded")
	return cmd
}

// upgradeStatus returns the status of the upgrade. If all replicas are older than the call, it is what they say of
// themselves.
func upgradeStatus(ctx context.Context, s *session) (*apipb.UpgradeStatusResponse, error) {
	st, err := s.UpgradeStatus(ctx)
	if older, ok := errors.AsType[*client.Error](err); !ok || older.Kind != connect.CodeUnimplemented {
		return st, err
	}
	members, err := s.Members(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := s.ListNodes(ctx, "")
	if err != nil {
		return nil, err
	}
	st = &apipb.UpgradeStatusResponse{ClusterVersion: versions.Oldest, Target: versions.Current}
	for _, m := range members {
		state := cmp.Or(when(!m.GetAlive(), "down"), when(m.GetLeader(), "leader"), m.GetSuffrage())
		st.Processes = append(st.Processes, &apipb.UpgradeProcess{Role: identity.Replica.String(), Names: []string{m.GetId()}, Count: 1, Version: m.GetVersion(), State: state, InTheWay: tooOld})
	}
	var agents []*apipb.UpgradeProcess
	for _, n := range nodes {
		agents = withAgent(agents, n)
	}
	st.Processes = append(st.Processes, agents...)
	return st, nil
}

const (
	tooOld = "its program is too old"
	// namedAgents is how many agents that are alike are named, as replicas do.
	namedAgents = 20
)

// withAgent adds the agent of a node to agents, of which those that are alike are together. One of this version can what
// this program can.
func withAgent(agents []*apipb.UpgradeProcess, n *apipb.Node) []*apipb.UpgradeProcess {
	for _, p := range agents {
		if p.GetVersion() == n.GetVersion() && p.GetState() == n.GetState() {
			if p.Count++; len(p.Names) < namedAgents {
				p.Names = append(p.Names, n.GetId())
			}
			return agents
		}
	}
	p := &apipb.UpgradeProcess{Role: identity.Agent.String(), Names: []string{n.GetId()}, Count: 1, Version: n.GetVersion(), State: n.GetState(), InTheWay: tooOld}
	if n.GetVersion() == version {
		p.Can, p.InTheWay = versions.Current, ""
	}
	return append(agents, p)
}

// namesOf returns the names of processes that are alike.
func namesOf(p *apipb.UpgradeProcess) string {
	names := printable(strings.Join(p.GetNames(), " "))
	if more := int(p.GetCount()) - len(p.GetNames()); more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return names
}

// upgradeText shows how far an upgrade is.
func upgradeText(st *apipb.UpgradeStatusResponse, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster version %d", st.GetClusterVersion())
	blocked := 0
	g := newGrid("process", "count>", "state", "version", "works with", "in the way", "names")
	for _, p := range st.GetProcesses() {
		can := "unknown"
		if p.GetCan() > 0 {
			can = fmt.Sprintf("cluster version %d", p.GetCan())
		}
		if p.GetInTheWay() != "" {
			blocked++
		}
		g.row(p.GetRole(), p.GetCount(), stateCell(p.GetState()), p.GetVersion(), can, when(p.GetInTheWay() != "", "yes"), namesOf(p))
	}
	switch {
	case st.GetClusterVersion() >= st.GetTarget():
		b.WriteString(": the newest that these programs work with\n")
	case blocked == 0:
		fmt.Fprintf(&b, "; it can be raised to %d: weir cluster upgrade finish\n", st.GetTarget())
	default:
		fmt.Fprintf(&b, "; in the way of version %d:\n", st.GetTarget())
	}
	for _, p := range st.GetProcesses() {
		if p.GetInTheWay() != "" {
			fmt.Fprintf(&b, "  ! %s %s: %s\n", p.GetRole(), namesOf(p), printable(p.GetInTheWay()))
		}
	}
	if since := st.GetMixedSince(); since != nil {
		fmt.Fprintf(&b, "mixed or unfinished since %s, as replica %s has seen it\n", moment(since, now), printable(st.GetReplica()))
	}
	return b.String() + "\n" + g.String()
}

// planOfUpgrade shows in which order to restart processes that do not have the version of this program.
func planOfUpgrade(st *apipb.UpgradeStatusResponse, _ time.Time) string {
	var agents, followers, leader []string
	for _, p := range st.GetProcesses() {
		line := fmt.Sprintf("%s (%s)", namesOf(p), cmp.Or(printable(p.GetVersion()), "unknown"))
		switch {
		case p.GetVersion() == version && p.GetState() != "down":
		case p.GetRole() == identity.Agent.String():
			agents = append(agents, line+when(p.GetState() == statepb.NodeOffline, ", offline"))
		case p.GetState() == "leader":
			leader = append(leader, line)
		default:
			followers = append(followers, line+when(p.GetState() == "down", ", down"))
		}
	}
	var b strings.Builder
	step := 0
	say := func(what string, lines ...string) {
		step++
		fmt.Fprintf(&b, "%d. %s\n", step, what)
		for _, line := range lines {
			b.WriteString("     " + line + "\n")
		}
	}
	fmt.Fprintf(&b, "to weir %s, the version of this program; cluster version %d of %d\n", version, st.GetClusterVersion(), st.GetTarget())
	if len(agents)+len(followers)+len(leader) > 0 {
		say("install weir and weir-jobproxy "+version+" on all machines, and keep those before; processes that run go on with what they have", "weir version                                 # on each machine")
	}
	if len(agents) > 0 {
		say("restart the agents, one after the other; their jobs go on", append(agents,
			"systemctl restart weir-agent                 # on its machine, then wait until it is online:",
			"weir node get NODE")...)
	}
	if len(followers) > 0 {
		say("restart the replicas that do not lead, one after the other", append(followers,
			"systemctl restart weir-server                # on its machine, then wait until weir status shows no problem with it:",
			"weir status")...)
	}
	if len(leader) > 0 {
		say("hand leadership over, and restart the replica that led", append(leader,
			"weir cluster transfer",
			"systemctl restart weir-server                # on its machine")...)
	}
	if st.GetClusterVersion() < st.GetTarget() {
		say("finish; until then each process can go back to the version before, in the same way",
			"weir cluster upgrade status",
			"weir cluster upgrade finish                  # no way back")
	}
	if step == 0 {
		b.WriteString("nothing to do\n")
	}
	return b.String()
}
