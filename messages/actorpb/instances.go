package actorpb

import (
	"cmp"

	"google.golang.org/protobuf/proto"

	"weir/messages/changes"
)

// States of an Instance.
const (
	// InstanceLive: it may be sent work.
	InstanceLive = "live"
	// InstanceDraining: it has been told to go, and ends what it has.
	InstanceDraining = "draining"
	// InstanceGone: it has ended.
	InstanceGone = "gone"
)

// Words of an InstanceWord.
const (
	// WordReady: it takes requests.
	WordReady = "ready"
	// WordNotReady: it takes none for now.
	WordNotReady = "not_ready"
	// WordDraining: it takes none any more, and is about to leave by itself.
	WordDraining = "draining"
)

// InstanceChanges are those of instances, by task, cookie and job.
var InstanceChanges = changes.Kind[*Instance]{
	ID: (*Instance).GetJobId,
	Compare: func(a, b *Instance) int {
		return cmp.Or(cmp.Compare(a.GetTask(), b.GetTask()), cmp.Compare(a.GetCookie(), b.GetCookie()), cmp.Compare(a.GetJobId(), b.GetJobId()))
	},
	Equal: func(a, b *Instance) bool { return a == b || proto.Equal(a, b) },
}

// ChangedSince returns all instances as what has changed since others, or as they are where there is
// nothing before them (nil), or changes say no less. It shares what is in them.
func (i *Instances) ChangedSince(before *Instances) *Instances {
	if before.GetVersion() == "" || i.GetVersion() == "" {
		return i
	}
	put, gone := InstanceChanges.Between(before.GetInstances(), i.GetInstances())
	if len(put)+len(gone) >= max(len(i.GetInstances()), 1) {
		return i
	}
	return &Instances{OperationId: i.GetOperationId(), Version: i.GetVersion(), Over: i.GetOver(), Since: before.GetVersion(), Instances: put, Forgotten: gone}
}

// After returns all instances, where i may be changes since before. ok is false if it is
// changes since others. It shares what is in both.
func (i *Instances) After(before *Instances) (all *Instances, ok bool) {
	if i.GetSince() == "" {
		return i, true
	}
	if i.GetSince() != before.GetVersion() {
		return nil, false
	}
	return &Instances{
		OperationId: i.GetOperationId(), Version: i.GetVersion(), Over: i.GetOver(),
		Instances: InstanceChanges.Apply(before.GetInstances(), i.GetInstances(), i.GetForgotten()),
	}, true
}
