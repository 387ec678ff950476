// Package show runs a service on a cluster on this machine, under ordinary and under graceful
// preemption, while a heavy operation runs in its pool for a time. It reports what happened to
// the requests and to the service's share of the cluster.
package show
