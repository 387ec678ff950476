package client

import (
	"context"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// ListNodes returns the nodes in a state by name, however many answers that takes; an empty state means
// all nodes.
func (c clusterCalls) ListNodes(ctx context.Context, state string) ([]*apipb.Node, error) {
	all, err := c.Nodes(ctx, &apipb.ListNodesRequest{State: state})
	return all.GetNodes(), err
}

// Nodes returns the nodes that a request selects by name, as many as it asks for or all, however many answers that
// takes, and the agents that were refused. It fails if a replica is too old to select nodes by more than their state.
func (c clusterCalls) Nodes(ctx context.Context, m *apipb.ListNodesRequest) (*apipb.ListNodesResponse, error) {
	const what = "list nodes"
	all, next := &apipb.ListNodesResponse{}, proto.CloneOf(m)
	plain := proto.Equal(m, &apipb.ListNodesRequest{State: m.GetState(), After: m.GetAfter(), Limit: m.GetLimit()})
	for {
		part, err := call(ctx, c.task(what), apipbconnect.NodeServiceClient.List, next)
		switch {
		case err != nil:
			return nil, err
		case part.GetSums() == nil && !plain:
			return nil, &Error{What: what, Kind: connect.CodeUnimplemented, Message: "the replica that answered is too old to select nodes by more than their state: weir cluster members shows versions"}
		}
		part.Nodes, part.Refused = append(all.GetNodes(), part.GetNodes()...), append(all.GetRefused(), part.GetRefused()...)
		all = part
		if n := int(m.GetLimit()); n > 0 && len(all.GetNodes()) > n {
			// An older replica knows of no limit.
			all.Nodes, all.Next, all.LeftOut = all.GetNodes()[:n], all.GetNodes()[n-1].GetId(), all.GetLeftOut()+int32(len(all.GetNodes())-n)
		}
		if next.After = all.GetNext(); next.GetAfter() == "" || m.GetLimit() > 0 && len(all.GetNodes()) >= int(m.GetLimit()) {
			return all, nil
		}
		next.Limit = max(m.GetLimit()-int32(len(all.GetNodes())), 0)
	}
}

// GetNode returns a node and its jobs.
func (c clusterCalls) GetNode(ctx context.Context, node string) (*apipb.GetNodeResponse, error) {
	return call(ctx, c.task("get node"), apipbconnect.NodeServiceClient.Get, &apipb.GetNodeRequest{Node: node})
}

// Members returns the replicas that are known to the replica that answers.
func (c clusterCalls) Members(ctx context.Context) ([]*apipb.Member, error) {
	res, err := call(ctx, c.task("cluster members"), apipbconnect.ClusterServiceClient.Members, &apipb.MembersRequest{})
	return res.GetMembers(), err
}

// Status returns the status of the cluster as the first replica that answers sees it. It
// needs no leader.
func (c clusterCalls) Status(ctx context.Context) (*apipb.StatusResponse, error) {
	t := c.task("status")
	t.longer, t.anyone = statusPatience, true
	return call(ctx, t, apipbconnect.ClusterServiceClient.Status, &apipb.StatusRequest{})
}

// statusPatience is added to the time of a try for the status: a replica without a leader looks
// for one first.
const statusPatience = time.Second

// ReplicaStatus is the status of the cluster as one replica sees it, or the error of the
// request.
type ReplicaStatus struct {
	Address string
	Status  *apipb.StatusResponse
	Err     error
}

// StatusAll asks all known replicas concurrently, each only once.
func (c clusterCalls) StatusAll(ctx context.Context) []ReplicaStatus {
	return c.StatusAt(ctx, c.book.all()...)
}

// StatusAt asks the replicas at addresses concurrently, each only once.
func (c clusterCalls) StatusAt(ctx context.Context, addresses ...string) []ReplicaStatus {
	all := make([]ReplicaStatus, len(addresses))
	var asking sync.WaitGroup
	for i, address := range addresses {
		asking.Go(func() {
			status, err := c.statusOf(ctx, address)
			all[i] = ReplicaStatus{Address: address, Status: status, Err: err}
		})
	}
	asking.Wait()
	return all
}

func (c clusterCalls) statusOf(ctx context.Context, address string) (*apipb.StatusResponse, error) {
	t := c.task("status")
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Try+statusPatience)
	defer cancel()
	res, err := service[apipbconnect.ClusterServiceClient](c.at(address)).Status(ctx, connect.NewRequest(&apipb.StatusRequest{}))
	if err == nil {
		return res.Msg, nil
	}
	if !judge(err).again {
		return nil, t.refused(ctx, address, err)
	}
	t.note(address, err, false)
	return nil, t.unreached()
}

// Transfer moves leadership to a replica, or, if to is empty, to the most up-to-date one,
// and returns the new leader.
func (c clusterCalls) Transfer(ctx context.Context, to string) (leader string, err error) {
	t := c.task("transfer leadership")
	t.longer = transferPatience
	res, err := call(ctx, t, apipbconnect.ClusterServiceClient.Transfer, &apipb.TransferRequest{To: to})
	return res.GetLeader(), err
}

// transferPatience is added to the time of a try to move leadership: the next leader catches up
// first.
const transferPatience = 5 * time.Second
