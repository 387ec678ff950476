package api

import (
	"context"
	"io"

	"weir/raftstore"
)

func (r *replicaFake) AddReplica(context.Context, string, string) error { return nil }

func (r *replicaFake) RemoveReplica(context.Context, string, bool) error { return nil }

func (r *replicaFake) PromoteReplica(context.Context, string) error { return nil }

func (r *replicaFake) DemoteReplica(context.Context, string, bool) error { return nil }

func (r *replicaFake) Admit(context.Context, raftstore.Applicant) (raftstore.Suffrage, error) {
	return raftstore.Voter, nil
}

func (r *replicaFake) Backup(io.Writer) error { return nil }
