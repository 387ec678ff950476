// Package devcluster runs a whole cluster on this machine: replicas and agents,
// each a real process with its own folder, certificate and port.
//
// Below Config.Dir:
//
//	client.yaml          settings for clients
//	dev/cluster.json     the processes: see Record
//	dev/authority/       the cluster's certificate authority
//	dev/operator/        credentials of the user
//	dev/<member>/        credentials/, data/ and log of one process
//
// The process that started the cluster owns it: it waits for its children, restarts
// them on request, and ends them when it ends itself, even by kill -9. A detached
// cluster has no owner. Other processes act on a cluster through its record, which is
// changed under a lock on Config.Dir. Processes are identified by pid and start time,
// so that a later process with the same pid is never touched.
package devcluster
