package apipb

// The headers that replicas add to their answers, and gateways to their calls. Clients of other
// versions know them: never change one.
const (
	// HeaderCode has the stable code of an error.
	HeaderCode = "Weir-Code"
	// HeaderLeader has the address of the replica that leads.
	HeaderLeader = "Weir-Leader"
	// HeaderReplica names the replica that answers. A browser may name the one that a gateway is to ask.
	HeaderReplica = "Weir-Replica"
	// HeaderOnBehalfOf names the user for whom a gateway makes a call, and HeaderGroups the user's
	// groups, separated by commas. Only gateways may send them.
	HeaderOnBehalfOf = "Weir-On-Behalf-Of"
	HeaderGroups     = "Weir-Groups"
	// HeaderRequest has the id of a request: the one that the client gave, else a new one. Lines of the
	// audit log have it.
	HeaderRequest = "Weir-Request-Id"
	// HeaderRetry says after how many milliseconds to retry.
	HeaderRetry = "Weir-Retry-Millis"
)
