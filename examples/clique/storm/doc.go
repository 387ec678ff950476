// Package storm runs a service on a cluster on this machine while nodes are drained, other
// operations run for a time, agents are upgraded and one node dies. It reports what happened to
// the requests. It runs twice: the second time without the options that protect the service.
package storm
