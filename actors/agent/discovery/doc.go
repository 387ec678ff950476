// Package discovery answers the jobs of a node that ask who their peers are and whether
// they have to leave, on a socket for each.
//
// Peers come from replicas, one question at a time for each operation whose jobs ask
// (Directory); what a job is told of its own end comes from its agent (Desk). Package
// discoveryjson has what goes over the socket.
package discovery
