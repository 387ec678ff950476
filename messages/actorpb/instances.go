package actorpb

import (
	"cmp"

	"google.golang.org/protobuf/proto"

	"weir/messages/changes"
)

// States of an Instance.
const (
	// InstanceLive: the instance may be sent work.
	InstanceLive = "live"
	// InstanceDraining: the instance is about to leave, by order or by itself, and finishes its work.
	InstanceDraining = "draining"
	// InstanceGone: the instance has ended.
	InstanceGone = "gone"
)

// Words of an InstanceWord.
const (
	// WordReady: the instance accepts requests.
	WordReady = "ready"
	// WordNotReady: the instance accepts no requests for now.
	WordNotReady = "not_ready"
	// WordDraining: the instance accepts no further requests, and is about to leave by itself.
	WordDraining = "draining"
)

// MaxWordReason bounds the reason of an InstanceWord, in bytes: a replica that joins is sent the words of
// thousands of instances.
const MaxWordReason = 80

// InstanceChanges finds and applies changes of lists of instances, ordered by task, cookie and job.
var InstanceChanges = changes.Kind[*Instance]{
	ID: (*Instance).GetJobId,
	Compare: func(a, b *Instance) int {
		return cmp.Or(cmp.Compare(a.GetTask(), b.GetTask()), cmp.Compare(a.GetCookie(), b.GetCookie()), cmp.Compare(a.GetJobId(), b.GetJobId()))
	},
	Equal: func(a, b *Instance) bool { return a == b || proto.Equal(a, b) },
}

// ChangedSince returns i as changes relative to an earlier version. It returns i itself if i or the
// earlier version has no version id, or if the changes would list as many instances. The result
// shares instances with i.
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

// After returns all instances: i itself if it has all of them, or else the earlier version with the
// changes of i applied. ok is false if the changes are relative to another version. The result
// shares instances with both.
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
