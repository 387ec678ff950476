// Package client speaks with a cluster through its public API.
//
// A Client knows several replicas and hides that any of them may be gone: each
// try of a call has a short time of its own, goes to another replica when it is
// not answered, and follows hints at the leader. Calls are tried again until they
// are answered, the context is done, or Config.Deadline has passed; then there is an
// *UnreachableError, which names who was asked and why each failed. Waits and
// watches of operations last as long as their context. What a replica refuses is
// not tried again: it is an *Error with the replica's code and words.
//
// Operations are started once, however many tries it takes: all carry one mutation
// id, by which the cluster knows them. Other changes lead to the same when they
// are repeated; a refusal of a later try is looked into when an earlier one may
// have been carried out unheard.
package client
