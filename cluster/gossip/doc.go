// Package gossip finds out which replicas are alive, and spreads advice among
// them within a fraction of a second.
//
// It wraps memberlist (SWIM with Lifeguard) and is the only package that knows
// it. Packets travel over UDP, streams over the replica's own TCP port, both
// encrypted with the cluster's key; streams have mutual TLS below that.
//
// Three things are carried. Member facts are each replica's own (address,
// version, claim of leadership) and bounded to 512 bytes. Messages, from
// Broadcast, are sent to all members at once where these are few, and in any
// case by rounds of gossip, each pass being re-queued by its receivers; a newer
// message replaces an older one of the same topic, key and sender. Full state,
// asked of each Handler, is exchanged with a random member every few seconds and
// at joining, so that what was lost or missed arrives after all.
//
// Whoever holds the key can claim anything, and messages may be lost,
// repeated or late: gossip is advice. What must be true is decided in raft.
package gossip
