// Package runner runs the jobs of a node agent as real processes.
//
// Each job has a folder of its own and a weir-jobproxy, which starts the
// command, limits, measures and ends it; package proxyproto holds what the two
// say to each other. The runner starts the proxies, listens to them, keeps the
// output of finished jobs for a while, and cleans up after proxies that die.
// It and the proxy are the only places that start processes or touch control
// groups.
//
// A proxy has a session of its own and a lease. An agent that dies or hangs
// stops renewing it, and the proxy ends the job by itself. When the agent comes
// back before, Open finds the jobs of its earlier life: their proxies go on under
// the new one, and what ended meanwhile left its result in the job's folder.
//
// How far a job is kept apart from the node is decided when it is started (confine.go), and
// done by its proxy. What the machine does not let the agent do is found out by Open.
//
// Below Config.Root:
//
//	lock               held while a Runner is open
//	jobs/<job>/        spec, control socket, result, proxy's log; work/ is the workspace,
//	                   of a job of isolation strict, ask/ has the discovery socket, and tmp/ is its /tmp
//	output/<job>/      what the job wrote, see package output
package runner
