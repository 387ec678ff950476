// Package statepb holds the records of the replicated state: what snapshots
// are made of and what log commands carry.
package statepb
