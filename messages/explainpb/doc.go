// Package explainpb holds explanations of what the scheduler does: what clients read,
// and what the leader's scheduler tells other replicas.
package explainpb
