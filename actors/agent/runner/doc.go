// Package runner runs the jobs of a node agent as real processes.
//
// Each job has a folder of its own and a weir-jobproxy, which starts the command, limits, measures
// and ends it; package proxyproto defines their protocol. The runner starts the proxies, listens to
// them, keeps the output of finished jobs for a while, and cleans up after proxies that die. The
// runner and the proxy are the only places that start processes or touch control groups.
//
// The proxy of a job that leaves nothing in it waits for another (warm.go).
//
// A proxy has a session of its own and a lease. An agent that dies or hangs
// stops renewing it, and the proxy ends the job by itself. If the agent restarts
// before that, Open adopts the jobs of the earlier process: running proxies go on
// under the new agent, and jobs that ended meanwhile have left their result in their folder.
//
// Start decides how far a job is isolated from the node (confine.go), and the job's proxy isolates
// it. Open finds out which isolation the machine does not permit.
//
// Below Config.Root:
//
//	lock               held while a Runner is open
//	jobs/<job>/        spec, control socket, result, proxy's log; work/ is the workspace,
//	                   with isolation strict, ask/ holds the discovery socket, and tmp/ is the job's /tmp
//	spare/             folders of ended jobs, emptied for jobs to come, with the proxies that wait there
//	output/<job>/      what the job wrote, see package output
package runner
