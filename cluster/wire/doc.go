// Package wire carries every protocol of a replica over one port.
//
// Listen opens one TCP port, and UDP under the same number. Each TCP
// connection is mutual TLS 1.3; ALPN chooses the protocol, which admits only
// peers of certain roles:
//
//	weir-raft/1       Mux.Raft     replicas
//	weir-gossip/1     Mux.Gossip   replicas
//	h2, http/1.1      Mux.HTTP     every role; routes check for themselves
//	none              Mux.HTTP     as http/1.1: old clients have no ALPN
//
// Raft and gossip connections start with one byte from the replica that
// accepted them, so that Dialer returns only connections that were accepted.
//
// With Insecure, which must be chosen explicitly, nothing is encrypted or
// verified: the first byte of a connection chooses the protocol, and any
// claimed identity is accepted.
//
// Whoever reaches the port can open connections, so those that have not shown a certificate are bounded by
// address, by subnet and in all, and their handshakes take turns: see door.
//
// UDP packets are passed on unchanged: gossip encrypts them itself.
package wire
