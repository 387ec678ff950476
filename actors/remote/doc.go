// Package remote carries actor messages between machines.
//
// Two processes, the peers, share one long-lived stream, which either side may
// have opened and both use. A peer is called role/name, as in replica/r1; its
// actors are reached by the names that it published, and by no other:
//
//	inbox := r.NewInbox(nil)
//	pid := system.Root.Spawn(props.Configure(inbox.Mailbox()))
//	r.Publish("gateway", pid, inbox, identity.Agent, identity.Replica)
//
//	err := r.Send("replica/r1", "gateway", message)
//	reply, err := r.Request(ctx, "replica/r1", "gateway", message)
//
// The receiving actor gets an *Inbound, which names the sender as its
// certificate does, and answers with ctx.Respond. An actor that wants a reply
// uses RequestAsync, which does not block.
//
// What is promised:
//   - At most once, in order while a stream lasts. A message is queued for one
//     life of its peer and is never delivered to another.
//   - Nothing blocks an actor and no queue grows without bound: what cannot be
//     queued fails at once.
//   - Every request ends: with a reply, or with an error that says why.
//   - Nobody watches the actors of another machine: who tries is told at once
//     that there is none. Config.OnPeer tells of peers.
//   - A peer that falls silent is lost after Limits.KeepAliveTimeout.
//
// The files handshake.go, roster.go and outbox.go decide, from plain values and without locks; the others act.
package remote
