package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"connectrpc.com/connect"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// changePatience is added to the time of a try to change the members: a majority has to commit the
// change, and the leader may transfer leadership first.
const changePatience = 3 * time.Second

func (c clusterCalls) memberTask(what string) *task {
	t := c.task(what)
	t.longer = changePatience
	return t
}

// AddReplica makes a replica a member without a vote. It is promoted automatically once it
// has caught up.
func (c clusterCalls) AddReplica(ctx context.Context, id, address string) error {
	return do(ctx, c.memberTask("add replica"), apipbconnect.ClusterServiceClient.Add, &apipb.AddReplicaRequest{Id: id, Address: address})
}

// RemoveReplica ends a replica's membership; with force even if the remaining live voters
// are no majority.
func (c clusterCalls) RemoveReplica(ctx context.Context, id string, force bool) error {
	t := c.memberTask("remove replica")
	t.settled = func(ctx context.Context) bool {
		members, err := c.Members(ctx)
		return err == nil && !slices.ContainsFunc(members, func(m *apipb.Member) bool { return m.GetId() == id && m.GetSuffrage() != "" })
	}
	return do(ctx, t, apipbconnect.ClusterServiceClient.Remove, &apipb.RemoveReplicaRequest{Id: id, Force: force})
}

// PromoteReplica gives a member a vote.
func (c clusterCalls) PromoteReplica(ctx context.Context, id string) error {
	return do(ctx, c.memberTask("promote replica"), apipbconnect.ClusterServiceClient.Promote, &apipb.PromoteReplicaRequest{Id: id})
}

// DemoteReplica makes a voting member a nonvoter; force is as for RemoveReplica.
func (c clusterCalls) DemoteReplica(ctx context.Context, id string, force bool) error {
	return do(ctx, c.memberTask("demote replica"), apipbconnect.ClusterServiceClient.Demote, &apipb.DemoteReplicaRequest{Id: id, Force: force})
}

// UpgradeStatus returns which process has which version, and what is in the way of the next version of the
// cluster.
func (c clusterCalls) UpgradeStatus(ctx context.Context) (*apipb.UpgradeStatusResponse, error) {
	return call(ctx, c.task("upgrade status"), apipbconnect.ClusterServiceClient.UpgradeStatus, &apipb.UpgradeStatusRequest{})
}

// FinishUpgrade raises the cluster to a version, or only says whether it can be raised. It is refused while a process
// cannot work with the version, or nobody knows whether it can.
func (c clusterCalls) FinishUpgrade(ctx context.Context, m *apipb.FinishUpgradeRequest) (*apipb.FinishUpgradeResponse, error) {
	return call(ctx, c.memberTask("finish upgrade"), apipbconnect.ClusterServiceClient.FinishUpgrade, m)
}

// backupSilence is how long a replica may take for the next part of a backup.
const backupSilence = 20 * time.Second

// Backup writes the state of the cluster to w. It calls begin before each try, and begin has
// to empty w: if a replica fails midway, the next try starts from the beginning.
func (c clusterCalls) Backup(ctx context.Context, w io.Writer, begin func() error) error {
	t := c.task("cluster backup")
	t.longer = backupSilence
	var local error
	err := t.run(ctx, func(_ context.Context, r replica) error {
		if local = begin(); local != nil {
			return connect.NewError(connect.CodeAborted, local)
		}
		local = nil
		err := receive(ctx, r, func(data []byte) error {
			_, local = w.Write(data)
			return local
		})
		if local != nil {
			return connect.NewError(connect.CodeAborted, local)
		}
		return err
	})
	if local != nil {
		return fmt.Errorf("cluster backup: %w", local)
	}
	return err
}

// receive reads a backup from one replica and calls part for each part.
func receive(ctx context.Context, r replica, part func([]byte) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(backupSilence, func() { cancel(context.DeadlineExceeded) })
	defer silence.Stop()
	stream, err := service[apipbconnect.ClusterServiceClient](r).Backup(ctx, connect.NewRequest(&apipb.BackupRequest{}))
	if err != nil {
		return overdue(ctx, err)
	}
	for stream.Receive() {
		silence.Reset(backupSilence)
		if err := part(stream.Msg().GetData()); err != nil {
			return errors.Join(err, stream.Close())
		}
	}
	err = stream.Err()
	_ = stream.Close()
	return overdue(ctx, err)
}
