// Package actorpb holds what actors on different machines say to each other.
package actorpb
