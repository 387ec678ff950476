// Package playground is a cluster of this machine for as long as an example takes: it starts
// operations on it, and stops, starts and kills its nodes.
package playground
