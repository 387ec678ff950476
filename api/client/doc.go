// Package client calls a cluster through its public API.
//
// A Client knows several replicas and hides the failure of any of them. Each try of a
// call has a short timeout; if it is not answered, the next try goes to another replica.
// Tries follow hints at the leader. A call is retried until it is answered, the context is
// done, or Config.Deadline has passed; then it returns an *UnreachableError, which lists
// the replicas that were asked and why each failed. Waits and watches of operations last as
// long as their context. A refusal is not retried: it is returned as an *Error with the
// replica's code and message.
//
// An operation is started once, however many tries that takes: all tries carry the same
// mutation id. Other changes are idempotent: repeating one has no further effect. If a try
// gets no answer and a later one is refused, the client checks whether the earlier try has
// already made the change.
package client
