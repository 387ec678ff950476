package actorpb

// States of an Instance.
const (
	// InstanceLive: it may be sent work.
	InstanceLive = "live"
	// InstanceDraining: it has been told to go, and ends what it has.
	InstanceDraining = "draining"
	// InstanceGone: it has ended.
	InstanceGone = "gone"
)
