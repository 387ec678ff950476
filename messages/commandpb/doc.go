// Package commandpb holds the commands of the replicated log and their results.
package commandpb
