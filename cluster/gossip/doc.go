// Package gossip finds out which replicas are alive, and spreads advice among
// them within a fraction of a second.
//
// It wraps memberlist (SWIM with Lifeguard) and is the only package that uses it. Packets travel
// over UDP, and streams over the replica's own TCP port. Both are encrypted with the cluster's key;
// streams also use mutual TLS.
//
// It carries three things. Each replica announces its Member (address, version, claim of
// leadership), which is at most 512 bytes. Messages, from Broadcast, are pushed directly to all
// members if there are few members. They also spread by rounds of gossip, in which receivers pass
// them on. A newer message replaces an older one of the same topic, key and sender. The full state
// of each Handler is exchanged with a random member every few seconds and at joining, which repairs
// lost messages.
//
// A process with the key can claim anything, and messages may be lost,
// repeated or late: gossip is advice. What must be true is decided in raft.
package gossip
