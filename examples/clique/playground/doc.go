// Package playground is what the examples share: a cluster on this machine for the time of an
// example, with operations, and with nodes that stop, start and die; runs of the service under
// load; and a report of the results.
package playground
