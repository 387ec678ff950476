// Package actorpb holds the messages between actors on different machines.
package actorpb
