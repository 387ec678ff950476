// Package top is the terminal view of a cluster: its pools, operations, jobs, nodes and events as they
// are now, and why each is so.
//
// Its Model is pure: messages (keys, answers, the time, the size of the screen) go in, and the screen and
// requests come out. Nothing in it waits, and it draws only what fits on the screen, so that it stays
// quick with 10,000 nodes and 100,000 operations. The shell around it reads keys, draws, and carries out
// requests at a Cluster, each in the background.
package top
