// Package remotepb holds the frames that carry actor messages between
// machines. Only actors/remote speaks them.
package remotepb
