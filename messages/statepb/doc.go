// Package statepb holds the records of the replicated state: the content of snapshots and of log
// commands.
package statepb
