// Package remote carries actor messages between machines.
//
// Two processes, called peers, share one long-lived stream. Either side may open it, and both use
// it. A peer is called role/name, as in replica/r1; its actors are reachable only by the names
// under which it published them:
//
//	inbox := r.NewInbox(nil)
//	pid := system.Root.Spawn(props.Configure(inbox.Mailbox()))
//	r.Publish("gateway", pid, inbox, identity.Agent, identity.Replica)
//
//	err := r.Send("replica/r1", "gateway", message)
//	reply, err := r.Request(ctx, "replica/r1", "gateway", message)
//
// The receiving actor gets an *Inbound, which holds the identity in the sender's certificate, and
// answers with ctx.Respond. An actor that wants a reply uses RequestAsync, which does not block.
//
// Guarantees:
//   - Delivery is at most once, and in order while a stream lasts. A message is
//     queued for one incarnation of its peer and never delivered to another.
//   - Actors are never blocked and every queue is bounded: sending fails at once
//     if the queue is full.
//   - Every request ends, with a reply or with an error that says why.
//   - Actors of another machine cannot be watched: a watcher gets Terminated at
//     once. Config.OnPeer reports peers that connect and disconnect.
//   - A silent peer counts as lost after Limits.KeepAliveTimeout; it is pinged before.
//
// The files handshake.go, roster.go and outbox.go make decisions on plain values, without locks;
// the other files carry out the decisions.
package remote
