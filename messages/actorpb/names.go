package actorpb

// The names by which actors are published to other machines.
const (
	// GatewayName is that of a replica's gateway.
	GatewayName = "gateway"
	// AgentName is that of a node's agent.
	AgentName = "agent"
)
