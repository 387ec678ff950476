package apipb

// The headers that replicas add to their answers. Clients of other versions know
// them: never change one.
const (
	// HeaderCode has the stable code of an error.
	HeaderCode = "Weir-Code"
	// HeaderLeader has the address of the replica that leads.
	HeaderLeader = "Weir-Leader"
	// HeaderReplica names the replica that answers.
	HeaderReplica = "Weir-Replica"
	// HeaderRetry says after how many milliseconds to retry.
	HeaderRetry = "Weir-Retry-Millis"
)
