package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"

	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/messages/versions"
	"weir/raftstore"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// quorumPatience is how long Status waits to learn whether the cluster can write.
const quorumPatience = 500 * time.Millisecond

// clusters implements ClusterService.
type clusters struct{ *server }

// Members lists the replicas that this one knows.
func (s clusters) Members(context.Context, *connect.Request[apipb.MembersRequest]) (*connect.Response[apipb.MembersResponse], error) {
	current, _ := s.cfg.Store.Leadership()
	members, err := s.members(current.LeaderID)
	return answer(&apipb.MembersResponse{Members: members}, err)
}

func (s clusters) members(leader string) ([]*apipb.Member, error) {
	configured, err := s.cfg.Store.Members()
	if err != nil {
		return nil, s.unavailable("cluster members", err)
	}
	suffrage := map[string]string{}
	for _, m := range configured {
		suffrage[m.ID] = string(m.Suffrage)
	}
	controlled := map[string]int64{}
	s.inProgress(func(_ *state.State, op *statepb.Operation) { controlled[op.GetAssignment().GetReplica()]++ })
	var members []*apipb.Member
	for _, r := range s.cfg.Directory.View().Replicas {
		id := string(r.ID)
		member := &apipb.Member{
			Id: id, Address: r.Address, Leader: id == leader, Suffrage: suffrage[id], Alive: r.Live, Version: r.Version, Can: r.Can,
			OperationsControlled: controlled[id],
		}
		if id == s.cfg.Replica {
			member.AppliedIndex = s.cfg.Store.Applied()
		}
		members = append(members, member)
	}
	return members, nil
}

// operationsCounted is how many operations one View counts.
const operationsCounted = 256

// inProgress calls a function for the operations that have not ended, the latest first.
func (s *server) inProgress(each func(*state.State, *statepb.Operation)) {
	s.latestFirst(0, operationsCounted, true, func(st *state.State, some []*statepb.Operation) bool {
		for _, op := range some {
			each(st, op)
		}
		return true
	})
}

// quorum reports whether there is a quorum. An error ends the call.
func (s *server) quorum(ctx context.Context, what string) (bool, error) {
	asking, cancel := context.WithTimeout(ctx, quorumPatience)
	defer cancel()
	reached := s.cfg.Log.ReadBarrier(asking)
	if errors.Is(reached, errNoTurn) {
		return false, s.unavailable(what, reached)
	}
	// A user with too many requests of its own does not see a cluster without a quorum.
	return reached == nil || errors.Is(reached, raftstore.ErrOverloaded), nil
}

// drainingPart is the part of Limits.AnswerBytes, one of so many, that the drained nodes of a status may have.
const drainingPart = 8

// Status answers from this replica alone.
func (s clusters) Status(ctx context.Context, req *connect.Request[apipb.StatusRequest]) (*connect.Response[apipb.StatusResponse], error) {
	quorum, err := s.quorum(ctx, "cluster status")
	if err != nil {
		return nil, err
	}
	// Read once, or the answer could name two leaders.
	current, _ := s.cfg.Store.Leadership()
	out := &apipb.StatusResponse{
		ClusterId: s.cfg.Cluster, Replica: s.cfg.Replica, Leader: current.LeaderID, Term: current.Term, Quorum: quorum,
		AppliedIndex: s.cfg.Store.Applied(), Version: s.cfg.Version,
	}
	if out.Members, err = s.members(current.LeaderID); err != nil {
		return nil, err
	}
	health := s.health()
	out.Credentials, out.Log = s.ownCredentials(health.Holds), logHealth(health.Store)
	out.Can, out.MixedSince = versions.Current, momentOf(health.MixedSince)
	addChecks(out, health.Store.Checks)
	var total, usage resource.Amounts
	ofNodes := nodeTroubles{agents: int(req.Msg.GetAgents())}
	var stuck misfits
	var sharing []string
	left := s.cfg.Limits.AnswerBytes / drainingPart
	s.cfg.Store.View(func(st *state.State) {
		out.ClusterVersion = st.Version()
		if pace := state.PaceOf(st); pace != nil {
			out.Pace = &apipb.Pace{HeartbeatMillis: pace.GetHeartbeatMillis(), LeaseMillis: pace.GetLeaseMillis()}
		}
		for _, n := range st.Nodes() {
			ofNodes.addCredentials(out, n, health, time.Now())
			if n.GetDrain() != nil {
				left = addDraining(out, st, n, left)
			}
			if addNode(out, n, &ofNodes) {
				total = total.Add(n.GetResources().Amounts())
			}
			usage = usage.Add(st.NodeUsage(scheduling.NodeID(n.GetId())))
		}
		sharing = ofNodes.sharing(st)
		rights := state.RightsIn(st)
		out.NodeGrants = int32(len(rights.NodeGrants()))
		for _, node := range rights.RefusedNodes() {
			ofNodes.refuse(string(node.ID), node.Reason)
		}
		out.JobsRunning = int64(st.Counts().Allocations)
	})
	s.inProgress(func(st *state.State, op *statepb.Operation) {
		countOperation(out, op)
		stuck.note(st, op)
	})
	// This takes long if there are many nodes and many filters.
	stuck.trees.survey(stuck.nodes)
	s.inProgress(func(st *state.State, op *statepb.Operation) { stuck.judge(st, op) })
	if out.Refused, err = s.refusedAgents(ctx, "cluster status"); err != nil {
		return nil, err
	}
	ofNodes.addAgents(out.GetRefused())
	out.Total, out.Usage = resourcesOf(total), resourcesOf(usage)
	out.Problems = slices.Concat(problems(out, ofNodes.offline, ofNodes.open), s.troubles(time.Now(), health), unfinished(out, time.Now()),
		ofNodes.others.problem("nodes run a version other than "+s.cfg.Version), ofNodes.caveats.problem("nodes lack features"),
		ofNodes.expiring.problem("nodes have agents whose certificate expires soon"),
		ofNodes.refused.problem("nodes are refused because they claim what no grant gives them (weir node list)"), sharing)
	if stuck.count == 1 {
		out.Problems = append(out.Problems, fmt.Sprintf("operation %s waits: %s", stuck.first, stuck.why))
	} else {
		out.Problems = append(out.Problems, stuck.problem("operations have jobs that no node of their pool trees can hold")...)
	}
	return connect.NewResponse(out), nil
}

// countOperation adds an operation in progress to the figures of a status.
func countOperation(to *apipb.StatusResponse, op *statepb.Operation) {
	to.OperationsInProgress++
	switch op.GetState() {
	case lifecycle.Running.String():
		to.OperationsRunning++
	case lifecycle.Pending.String():
		to.OperationsPending++
	}
	for _, task := range op.GetTasks() {
		to.JobsPending += task.GetCounters().GetPending()
	}
}

// Transfer moves leadership to another replica and waits until it leads.
func (s clusters) Transfer(ctx context.Context, req *connect.Request[apipb.TransferRequest]) (*connect.Response[apipb.TransferResponse], error) {
	current, _ := s.cfg.Store.Leadership()
	if !current.Leader {
		err := fail(connect.CodeUnavailable, apipb.CodeNotLeader, "transfer leadership: replica %s does not lead: ask %s", s.cfg.Replica, current.LeaderID)
		s.hint(err.Meta().Set)
		return nil, err
	}
	to := req.Msg.GetTo()
	if to == current.LeaderID {
		return connect.NewResponse(&apipb.TransferResponse{Leader: to}), nil
	}
	if to != "" {
		if _, known := s.cfg.Directory.View().Replica(scheduling.ReplicaID(to)); !known {
			return nil, fail(connect.CodeNotFound, apipb.CodeUnknownReplica, "transfer leadership: there is no replica %q: see weir cluster members", to)
		}
	}
	if err := s.cfg.Store.Transfer(ctx, to); err != nil {
		return nil, fail(connect.CodeFailedPrecondition, apipb.CodeNotTransferred, "transfer leadership: %v", err)
	}
	for {
		now, changed := s.cfg.Store.Leadership()
		if now.LeaderID != "" && now.LeaderID != current.LeaderID {
			return connect.NewResponse(&apipb.TransferResponse{Leader: now.LeaderID}), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, s.unavailable("transfer leadership: no new leader is known yet", ctx.Err())
		}
	}
}
