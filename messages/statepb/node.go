package statepb

// The states of a Node.
const (
	// NodeOnline: the node's lease has not run out.
	NodeOnline = "online"
	// NodeOffline: the node's lease has expired; it is given no jobs.
	NodeOffline = "offline"
)
