package statepb

// The states of a Node.
const (
	// NodeOnline: the node's lease has not expired.
	NodeOnline = "online"
	// NodeOffline: the node's lease has expired; the node gets no jobs.
	NodeOffline = "offline"
)
