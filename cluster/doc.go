// Package cluster knows which replicas there are, which are alive, which one
// leads, and which replica each key belongs to.
//
// Directory merges the members of gossip with the voters and leader of raft
// into one View that is cheap to read. Assign spreads keys over live replicas
// by rendezvous hashing. ParsePeers and Bootstrap decide how a replica with an
// empty log begins, such that replicas may be started in any order, at once,
// or twice. Agree checks the list of peers of a cluster that exists.
//
// The packages below do the communication: identity for certificates, wire for
// the port, gossip for membership.
package cluster
