// Package eventpb holds the events of a cluster: what clients read, and what the
// event log of a replica keeps on disk.
package eventpb
