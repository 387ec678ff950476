// Package devcluster runs a whole cluster on this machine: replicas and agents,
// each a real process with its own folder, certificate and port.
//
// Below Config.Dir:
//
//	client.yaml          settings for clients, written by the caller
//	dev/cluster.json     who runs: see Record
//	dev/authority/       the cluster's certificate authority
//	dev/operator/        credentials of the user
//	dev/<member>/        credentials/, data/ and log of one process
//
// The process that started the cluster owns it: it waits for its children, starts
// them anew when asked, and takes them along when it ends, even by kill -9. A
// detached cluster has no owner. Others act on a cluster through its record, which
// is changed under a lock on Config.Dir. Processes are known by pid and start time,
// so no process that came by a pid later is touched.
package devcluster
