// Package explainpb holds explanations of what the scheduler does: what clients read, and what the
// leader's scheduler sends to other replicas.
package explainpb
