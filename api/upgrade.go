package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/cluster"
	"weir/cluster/identity"
	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/messages/versions"
	"weir/raftstore"
	"weir/raftstore/state"
	"weir/scheduling"
)

// namedProcesses is how many agents of a group are named.
const namedProcesses = 20

// UpgradeStatus says which process has which version, and what is in the way of the next version of the cluster.
func (s clusters) UpgradeStatus(ctx context.Context, _ *connect.Request[apipb.UpgradeStatusRequest]) (*connect.Response[apipb.UpgradeStatusResponse], error) {
	now, err := s.upgrade(ctx, "upgrade status")
	if err != nil {
		return nil, err
	}
	out := &apipb.UpgradeStatusResponse{Replica: s.cfg.Replica, ClusterVersion: now.version, Target: versions.Current, MixedSince: momentOf(s.health().MixedSince)}
	for _, p := range now.all() {
		if now.version >= versions.Current {
			p.inTheWay = ""
		}
		names := p.names[:min(len(p.names), namedProcesses)]
		out.Processes = append(out.Processes, &apipb.UpgradeProcess{
			Role: p.role.String(), Names: names, Count: int32(len(p.names)), Version: p.version, Can: p.can, State: p.state, InTheWay: p.inTheWay,
		})
	}
	return connect.NewResponse(out), nil
}

// FinishUpgrade raises the version of the cluster, if all processes can work with it. A repeated call is answered
// like the first.
func (s clusters) FinishUpgrade(ctx context.Context, req *connect.Request[apipb.FinishUpgradeRequest]) (*connect.Response[apipb.FinishUpgradeResponse], error) {
	const what = "finish upgrade"
	version := req.Msg.GetVersion()
	now, err := s.upgrade(ctx, what)
	switch {
	case err != nil:
		return nil, err
	case version == now.version:
		return connect.NewResponse(&apipb.FinishUpgradeResponse{Version: version}), nil
	case version != versions.Current:
		return nil, fail(connect.CodeFailedPrecondition, apipb.CodeUpgradeBlocked, "%s: replica %s, weir %s, raises the cluster to version %d, not %d: see weir cluster upgrade status",
			what, s.cfg.Replica, s.cfg.Version, versions.Current, version)
	}
	if blocked := now.blocked(req.Msg.GetWithoutOfflineAgents()); blocked != "" {
		return nil, fail(connect.CodeFailedPrecondition, apipb.CodeUpgradeBlocked, "%s: %s", what, blocked)
	}
	if req.Msg.GetDryRun() {
		return connect.NewResponse(&apipb.FinishUpgradeResponse{Version: version}), nil
	}
	if _, err := s.propose(ctx, what, &commandpb.RaiseVersion{Version: version, User: userOf(ctx)}); err != nil {
		return nil, err
	}
	return connect.NewResponse(&apipb.FinishUpgradeResponse{Version: version}), nil
}

// upgrade reads what there is to know for a decision to raise the version of the cluster.
func (s clusters) upgrade(ctx context.Context, what string) (upgrade, error) {
	var now upgrade
	view, _, err := s.seen(ctx, what, &actorpb.SchedulerViewRequest{Agents: true})
	if err != nil {
		return now, err
	}
	told := map[string]uint32{}
	for _, agent := range view.GetAgents() {
		told[agent.GetNode()] = agent.GetCan()
	}
	current, _ := s.cfg.Store.Leadership()
	directory := s.cfg.Directory.View()
	leader, _ := directory.Replica(scheduling.ReplicaID(current.LeaderID))
	learns := current.LeaderID == s.cfg.Replica || leader.Can >= versions.Current
	err = s.read(ctx, what, func(st *state.State) error {
		now.version = st.Version()
		for _, n := range st.Nodes() {
			now.addAgent(n, told[n.GetId()], s.cfg.Version, learns)
		}
		return nil
	})
	if err != nil {
		return now, err
	}
	// After the read, with which this replica knows those that were added before the call.
	members, err := s.cfg.Store.Members()
	if err != nil {
		return now, s.unavailable(what, err)
	}
	directory = s.cfg.Directory.View()
	for _, m := range members {
		known, _ := directory.Replica(scheduling.ReplicaID(m.ID))
		if m.ID == s.cfg.Replica {
			known.Version, known.Can, known.Live = s.cfg.Version, versions.Current, true
		}
		now.addReplica(m, known, m.ID == current.LeaderID)
	}
	return now, nil
}

// process is a replica, or the agents that are alike.
type process struct {
	role    identity.Role
	names   []string
	version string
	// can is the highest version of the cluster that the program works with; 0: not known.
	can   uint32
	state string
	// inTheWay says why the version cannot be raised; empty: it can, as far as this process is concerned. away
	// is set for agents that are offline: the version can be raised without them.
	inTheWay string
	away     bool
}

// upgrade is what there is to know for a decision to raise the version of the cluster.
type upgrade struct {
	version          uint32
	replicas, agents []process
}

// all returns the processes, replicas first, each by name.
func (u *upgrade) all() []process {
	slices.SortFunc(u.replicas, func(a, b process) int { return cmp.Compare(a.names[0], b.names[0]) })
	for _, group := range u.agents {
		slices.Sort(group.names)
	}
	slices.SortFunc(u.agents, func(a, b process) int { return cmp.Compare(a.names[0], b.names[0]) })
	return slices.Concat(u.replicas, u.agents)
}

func (u *upgrade) addReplica(m raftstore.Member, known cluster.Replica, leads bool) {
	p := process{role: identity.Replica, names: []string{m.ID}, version: known.Version, can: known.Can, state: string(m.Suffrage)}
	switch {
	case !known.Live:
		p.state, p.can = "down", 0
		p.inTheWay = fmt.Sprintf("it is down, so nobody knows with which program it comes back: start it, or remove it (weir cluster remove %s)", m.ID)
	case leads:
		p.state = "leader"
	}
	if known.Live && p.can < versions.Current {
		p.inTheWay = "its program is too old: install " + versions.ProgramNow() + " or later there, and restart it"
	}
	u.replicas = append(u.replicas, p)
}

// addAgent adds the agent of a node, which has told the leader what it can, if that is not 0. Own is the version of
// this program: an agent of the same version can the same. A leader that is too old never learns what agents can.
func (u *upgrade) addAgent(n *statepb.Node, can uint32, own string, learns bool) {
	online := n.GetState() == statepb.NodeOnline
	if !online {
		can = 0
	}
	if can == 0 && n.GetVersion() == own {
		can = versions.Current
	}
	p := process{role: identity.Agent, names: []string{n.GetId()}, version: n.GetVersion(), can: can, state: n.GetState(), away: !online}
	switch {
	case can >= versions.Current:
	case !online:
		p.inTheWay = "offline, and its last program was too old: start it with " + versions.ProgramNow() + " or later, remove it (weir node remove), or finish with --without-offline-agents"
	case can == 0 && !learns:
		p.inTheWay = "the leader is too old to know what its program can: upgrade the replicas first"
	case can == 0:
		p.inTheWay = "the leader does not know yet what its program can: try again in a few seconds"
	default:
		p.inTheWay = "its program is too old: install " + versions.ProgramNow() + " or later there, and restart the agent"
	}
	for i, group := range u.agents {
		if group.version == p.version && group.can == p.can && group.state == p.state {
			u.agents[i].names = append(u.agents[i].names, p.names...)
			return
		}
	}
	u.agents = append(u.agents, p)
}

// blocked says what is in the way, with each process; empty if nothing is. Without agents that are offline these
// are not.
func (u *upgrade) blocked(withoutOffline bool) string {
	var why []string
	for _, p := range u.all() {
		if p.inTheWay == "" || p.away && withoutOffline {
			continue
		}
		names := strings.Join(p.names[:min(len(p.names), namedProcesses)], ", ")
		if more := len(p.names) - namedProcesses; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		why = append(why, fmt.Sprintf("%s %s (weir %s): %s", p.role, names, cmp.Or(p.version, "unknown"), p.inTheWay))
	}
	return strings.Join(why, "; ")
}

// tooOld returns an error for a replica that is alive, and whose program does not know the version of the cluster.
func (s clusters) tooOld(what, id string) error {
	var version uint32
	s.cfg.Store.View(func(st *state.State) { version = st.Version() })
	known, _ := s.cfg.Directory.View().Replica(scheduling.ReplicaID(id))
	if !known.Live || known.Can >= version {
		return nil
	}
	return fail(connect.CodeFailedPrecondition, apipb.CodeMembersNotChanged, "%s: %v", what, versions.TooOld("replica "+id, known.Can, version))
}

// Mixed reports whether processes have different versions, or could work with a later version of the cluster.
func Mixed(view *cluster.View, st *state.State) bool {
	seen := ""
	differs := func(version string) bool {
		before := seen
		seen = version
		return before != "" && before != version
	}
	return st.Version() < versions.Current ||
		slices.ContainsFunc(view.Replicas, func(r cluster.Replica) bool { return r.Live && differs(r.Version) }) ||
		slices.ContainsFunc(st.Nodes(), func(n *statepb.Node) bool { return n.GetState() == statepb.NodeOnline && differs(n.GetVersion()) })
}

// unfinished returns the problem that versions are mixed, as this replica has seen it since then; none if they are not.
func unfinished(st *apipb.StatusResponse, now time.Time) []string {
	since := st.GetMixedSince()
	if since == nil {
		return nil
	}
	what := "processes have different versions"
	if st.GetClusterVersion() < st.GetCan() {
		what = fmt.Sprintf("the upgrade to cluster version %d is not finished", st.GetCan())
	}
	return []string{fmt.Sprintf("%s, for %s at least (since %s, as %s has seen it): see weir cluster upgrade status",
		what, now.Sub(since.AsTime()).Round(time.Second), since.AsTime().UTC().Format(time.DateTime+" UTC"), st.GetReplica())}
}

// momentOf returns a time for a message; nil if it is zero.
func momentOf(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
