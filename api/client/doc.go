// Package client speaks with a cluster through its public API.
//
// A Client knows several replicas and hides that any of them may be gone: each
// try of a call has a short time of its own, goes to another replica when it is
// not answered, and follows hints at the leader. Calls are tried again until they
// are answered, the context is done, or Config.Deadline has passed. What a replica
// refuses is not tried again: it is an *Error with the replica's code and words.
//
// No call is carried out twice. Operations are started with a mutation id, by
// which the cluster knows a second try; for other changes, a refusal of a later
// try is looked into when an earlier one may have been carried out unheard.
package client
