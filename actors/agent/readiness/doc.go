// Package readiness finds out whether an instance, a job that answers requests, takes any,
// and tells that to those who send them.
//
// An instance says so itself, or is asked by a probe on its node: see Finding for what counts.
// What is told is the latest word, as often as it changes, but no more often than twenty times
// a second, and again from time to time, for replicas forget what they hear when all of them
// are started anew. It is advice, in no replicated log.
package readiness
