// Package storm runs a service on a cluster of this machine while nodes are drained, other
// operations come and go, agents are upgraded and one node dies; and shows what became of its
// requests. It does so twice: the second time without what spares the service.
package storm
