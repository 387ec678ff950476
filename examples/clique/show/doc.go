// Package show runs a service on a cluster of this machine, under ordinary and under
// graceful preemption, while a heavy operation comes into its pool and goes again; and
// shows what became of its requests and of its share of the cluster.
package show
