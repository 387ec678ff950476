package actorpb

// The names by which actors are published to other machines.
const (
	// GatewayName is the name of a replica's gateway.
	GatewayName = "gateway"
	// AgentName is the name of a node's agent.
	AgentName = "agent"
)
