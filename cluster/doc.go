// Package cluster knows who is here: which replicas there are, which live,
// who leads, and which replica each key belongs to.
//
// Directory joins what gossip hears with what raft knows into one View that
// is cheap to read. Assign spreads keys over live replicas by rendezvous
// hashing. ParsePeers and Bootstrap decide how a replica with an empty log
// begins, such that replicas may be started in any order, at once, or twice.
//
// The packages below carry the bytes: identity for certificates, wire for the
// port, gossip for membership.
package cluster
