package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	clocks "weir/cluster/clock"
	"weir/cluster/identity"
	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/messages/versions"
	"weir/raftstore"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/access"
)

// Health is what a replica knows about itself beyond the replicated state.
type Health struct {
	Store raftstore.Stats
	// Leading is set while this replica's actors lead. SharesFound is when they last
	// computed fair shares.
	Leading     bool
	SharesFound time.Time
	// Holds is what the replica holds of the cluster's certificates; zero without certificates.
	Holds identity.Standing
	// Agents is what agents hold, by node, as far as they have told this replica as their leader.
	Agents map[string]*actorpb.HeldCredentials
	// MixedSince is since when the replica has seen that versions are mixed (Mixed); zero if they are not.
	MixedSince time.Time
	// Clock is how the clock of the replica compares.
	Clock clocks.Report
}

// The thresholds beyond which Status reports a problem.
const (
	// lagEntries is how many committed entries a replica may have left to apply: a few
	// full batches.
	lagEntries = 5000
	// silentLeader is how long a follower may be without contact with its leader.
	silentLeader = 5 * time.Second
	// slowWrite is how long a write to the log may take.
	slowWrite = 500 * time.Millisecond
	// staleShares is how old the fair shares may be: they are computed several times a
	// second.
	staleShares = 5 * time.Second
	// soonExpires is how long before it expires a certificate is a problem.
	soonExpires = 30 * 24 * time.Hour
)

// health returns the health of this replica; nothing of it without Config.Health.
func (s *server) health() Health {
	if s.cfg.Health == nil {
		return Health{}
	}
	return s.cfg.Health()
}

// troubles lists the problems of this replica. Each begins with the replica's name, or with
// "clock of" and its name, because clients merge the lists of all replicas.
func (s *server) troubles(now time.Time, h Health) []string {
	var out []string
	add := func(format string, args ...any) {
		out = append(out, "replica "+s.cfg.Replica+" "+fmt.Sprintf(format, args...))
	}
	if n := s.refusals.since(now); n > 0 {
		add("rejected %d calls for overload in the last minute: clients retry; reduce the load, or spread it over all replicas", n)
	}
	if s.cfg.Health == nil {
		return out
	}
	if trouble := h.Clock.Trouble(s.cfg.Replica); trouble != "" {
		out = append(out, trouble)
	}
	// Raft's own entries are never applied to the state, so a small difference is no lag.
	if behind := int64(h.Store.Commit) - int64(h.Store.Applied); behind > lagEntries {
		add("lags: %d committed log entries are not applied yet, of %d: is its machine overloaded?", behind, h.Store.Commit)
	}
	if h.Store.LastContact > silentLeader {
		add("has had no contact with a leader for %s: is it connected to the others?", h.Store.LastContact.Round(time.Second))
	}
	if worst := h.Store.Disk.RecentWorst; worst > slowWrite {
		add("has a slow disk: a log write took %s within the last two minutes, and every change waits for log writes", worst.Round(time.Millisecond))
	}
	if left := h.Holds.Expires.Sub(now); !h.Holds.Expires.IsZero() && left < soonExpires {
		add("has a certificate that expires in %d days, on %s: renew it (weir tls renew)", int(left.Hours()/24), h.Holds.Expires.UTC().Format(time.DateOnly))
	}
	if n := h.Store.Tally.Breaches; n > 0 {
		add("found %d operations with inconsistent job counters: see its log, and report it", n)
	}
	if h.Store.Checks.Dispute != "" {
		add("sees states that differ, and cannot tell which is right, %s: see running.md (States that differ)", h.Store.Checks.Dispute)
	}
	if age := s.cfg.Now().Sub(h.SharesFound); h.Leading && !h.SharesFound.IsZero() && age > staleShares {
		add("is the leader, but its scheduler has computed no fair shares for %s: see its log", age.Round(time.Second))
	}
	return out
}

// ownCredentials lists what this replica holds of the cluster's certificates; nothing without any.
func (s *server) ownCredentials(holds identity.Standing) []*apipb.HeldCredentials {
	if holds.Issuer == "" {
		return nil
	}
	return []*apipb.HeldCredentials{{
		Role: identity.Replica.String(), Name: s.cfg.Replica, Issuer: holds.Issuer, Roots: holds.Roots, GossipKeys: holds.GossipKeys,
		ExpireTime: timestamppb.New(holds.Expires),
	}}
}

// logHealth says how the log of this replica fares.
func logHealth(of raftstore.Stats) *apipb.LogHealth {
	return &apipb.LogHealth{
		CommitIndex: of.Commit, SnapshotIndex: of.Snapshot, SlowWrites: of.Disk.Doubts,
		WorstWriteMillis: float64(of.Disk.RecentWorst.Microseconds()) / 1000,
	}
}

// addChecks says when the states of replicas were compared.
func addChecks(out *apipb.StatusResponse, checks raftstore.CheckStats) {
	if checks.Agreed > 0 {
		out.CheckedIndex, out.CheckedTime = checks.Agreed, timestamppb.New(checks.AgreedAt)
	}
	if checks.Hashed.Index > 0 {
		out.HashedIndex, out.StateHash = checks.Hashed.Index, checks.Hashed.Hash[:]
	}
}

// addCredentials adds to the status of a leader what the agent of a node holds of the cluster's certificates, unless
// that is what the leader holds; only its name if it is not connected.
func (t *nodeTroubles) addCredentials(out *apipb.StatusResponse, n *statepb.Node, h Health, now time.Time) {
	if h.Holds.Issuer == "" || !h.Leading {
		return
	}
	told := h.Agents[n.GetId()]
	if n.GetState() != statepb.NodeOnline {
		told = nil
	}
	if until := told.GetExpireTime(); until != nil && until.AsTime().Sub(now) < soonExpires {
		t.expiring.add(n.GetId(), "on "+until.AsTime().Format(time.DateOnly)+": renew it (weir tls renew)")
	}
	if told.GetIssuer() == h.Holds.Issuer && slices.Equal(told.GetRoots(), h.Holds.Roots) {
		return
	}
	// The replica itself is the first one.
	if t.agents > 0 && len(out.GetCredentials()) > t.agents {
		out.AgentsLeftOut++
		return
	}
	out.Credentials = append(out.Credentials, &apipb.HeldCredentials{
		Role: identity.Agent.String(), Name: n.GetId(), Issuer: told.GetIssuer(), Roots: told.GetRoots(), ExpireTime: told.GetExpireTime(),
	})
}

// problems lists the problems of the cluster, worst first. offline are the names of the
// offline nodes, and open is how many online nodes are not drained.
func problems(st *apipb.StatusResponse, offline []string, open int64) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch {
	case st.GetLeader() == "":
		add("no leader is known to replica %s: nothing can be started or changed; is a majority of the replicas running and connected?", st.GetReplica())
	case !st.GetQuorum():
		add("leader %s has no majority of the replicas: nothing can be started or changed", st.GetLeader())
	}
	voters, up := 0, 0
	for _, m := range st.GetMembers() {
		if m.GetSuffrage() == string(raftstore.Voter) {
			voters++
			if m.GetAlive() {
				up++
			}
		}
		switch {
		case !m.GetAlive() && m.GetSuffrage() == string(raftstore.Stranger):
			// It was removed from the cluster, so it may be down.
		case !m.GetAlive():
			add("replica %s at %s is down: restart it", m.GetId(), m.GetAddress())
		case m.GetVersion() != st.GetVersion():
			runs := fmt.Sprintf("replica %s runs version %s, %s runs %s", m.GetId(), m.GetVersion(), st.GetReplica(), st.GetVersion())
			if m.GetCan() > 0 && m.GetCan() < st.GetClusterVersion() {
				runs += "; " + versions.TooOld("it", m.GetCan(), st.GetClusterVersion()).Error()
			}
			add("%s", runs)
		}
	}
	if majority := voters/2 + 1; up < voters && up == majority && st.GetQuorum() {
		add("%d of %d voting replicas are up, the minimum: if one more fails, nothing can be started or changed", up, voters)
	}
	switch {
	case st.GetNodesOnline() == 0:
		add("no node is online: jobs wait until an agent registers")
	case open == 0 && st.GetJobsPending() > 0:
		add("every online node is drained, and %d jobs are waiting: see weir node undrain", st.GetJobsPending())
	}
	switch n := len(offline); n {
	case 0:
	case 1:
		add("node %s is offline: is its agent running and connected?", offline[0])
	default:
		add("%d of %d nodes are offline (%s): see weir node list --state offline", n, int64(n)+st.GetNodesOnline(), some(offline))
	}
	switch n := st.GetOperationsPending(); n {
	case 0:
	case 1:
		add("1 operation is waiting for the running limit of its pool: see weir op list --state pending")
	default:
		add("%d operations are waiting for the running limit of their pool: see weir op list --state pending", n)
	}
	return out
}

// some lists the first few names, and how many more there are.
func some(names []string) string {
	const few = 5
	if more := len(names) - few; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), more)
	}
	return strings.Join(names, ", ")
}

// alike counts things that have the same problem, and holds the first as an example.
type alike struct {
	count int
	// The field first is the name of the example. The field why is its problem.
	first, why string
}

func (a *alike) add(name, why string) {
	if a.count++; a.count == 1 {
		a.first, a.why = name, why
	}
}

// problem says how many things have the problem, with the example; it is empty if none has it.
func (a *alike) problem(what string) []string {
	if a.count == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d %s, such as %s: %s", a.count, what, a.first, a.why)}
}

// nodeTroubles collects the problems of nodes.
type nodeTroubles struct {
	// offline are the names of the offline nodes, without drained ones.
	offline []string
	// open counts the online nodes that are not drained.
	open int64
	// caveats counts the nodes with a caveat. The field others counts the nodes that run another
	// version.
	caveats, others alike
	// shared are the nodes whose jobs share a user, by that user.
	shared map[string][]string
	// agents is how many are told of at most, with what they hold; 0: all.
	agents int
	// expiring counts the nodes whose agent has a certificate that expires soon.
	expiring alike
	// refused counts the nodes that claim more than they may, and known has their names.
	refused alike
	known   map[string]bool
}

func (t *nodeTroubles) refuse(node, why string) {
	if t.known == nil {
		t.known = map[string]bool{}
	}
	if !t.known[node] {
		t.known[node] = true
		t.refused.add(node, why)
	}
}

// addAgents adds nodes that have not registered, or with other claims.
func (t *nodeTroubles) addAgents(refused []*apipb.RefusedAgent) {
	for _, agent := range refused {
		t.refuse(agent.GetNode(), agent.GetReason())
	}
}

// mostNamed is how many nodes a problem names.
const mostNamed = 3

// sharing returns the problem that anyone may submit jobs that share a user with the jobs of others;
// empty: not everyone may use the pools of any tree, or no node's jobs share a user.
func (t *nodeTroubles) sharing(st *state.State) (problems []string) {
	open := slices.ContainsFunc(st.Trees(), func(tree *statepb.PoolTree) bool {
		pools, _, found := st.Pools(scheduling.TreeName(tree.GetName()))
		return found && slices.Contains(pools.Rights(scheduling.RootPool).Subjects(access.Use), access.Everyone)
	})
	if !open {
		return nil
	}
	for _, user := range slices.Sorted(maps.Keys(t.shared)) {
		nodes := t.shared[user]
		named := strings.Join(nodes[:min(len(nodes), mostNamed)], ", ")
		if more := len(nodes) - mostNamed; more > 0 {
			named += fmt.Sprintf(" and %d more", more)
		}
		problems = append(problems, fmt.Sprintf("anyone may submit while agents %s run all jobs as user %s: run agents as root, without --job-user, or give use to fewer (weir pool acl)", named, user))
	}
	return problems
}

// addDraining shows a drained node in a status if there are bytes left for it, and returns how many are then.
func addDraining(out *apipb.StatusResponse, st *state.State, n *statepb.Node, left int) int {
	if out.GetDrainingLeftOut() > 0 {
		out.DrainingLeftOut++
		return left
	}
	shown := nodeOf(st, n)
	if left -= proto.Size(shown); left < 0 && len(out.GetDraining()) > 0 {
		out.DrainingLeftOut++
		return left
	}
	out.Draining = append(out.Draining, shown)
	return left
}

// addNode counts a node in a status and collects its problems. It reports whether the node is
// online.
func addNode(out *apipb.StatusResponse, n *statepb.Node, troubles *nodeTroubles) (online bool) {
	if n.GetState() != statepb.NodeOnline {
		// A drained node was taken out of service on purpose.
		if out.NodesOffline++; n.GetDrain() == nil {
			troubles.offline = append(troubles.offline, n.GetId())
		}
		return false
	}
	out.NodesOnline++
	if n.GetDrain() == nil {
		troubles.open++
	}
	if user := n.GetSharedUser(); user != "" {
		if troubles.shared == nil {
			troubles.shared = map[string][]string{}
		}
		troubles.shared[user] = append(troubles.shared[user], n.GetId())
	}
	if n.GetCaveat() != "" {
		troubles.caveats.add(n.GetId(), n.GetCaveat())
	}
	if n.GetVersion() != out.GetVersion() {
		troubles.others.add(n.GetId(), n.GetVersion())
	}
	return true
}
