// Package playground is what the examples have in common: a cluster of this machine for as long
// as an example takes, with operations and with nodes that stop, start and die; runs of the
// service under a load on it; and a report of what came out of them.
package playground
