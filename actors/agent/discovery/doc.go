// Package discovery answers the jobs of a node that ask who their peers are and whether
// they have to leave. Each job has a socket of its own.
//
// Peers come from replicas (Directory), one request at a time for each operation whose jobs
// ask. The notice that a job has to leave comes from its agent (Desk). Package discoveryjson
// describes the messages on the socket.
package discovery
