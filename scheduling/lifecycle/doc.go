// Package lifecycle defines the states of operations and jobs, the reasons why jobs are aborted,
// and the job counters of a task.
//
// An operation goes through the states (J.4)
//
//	starting -> waiting_for_agent -> initializing -> preparing -> pending
//	         -> materializing -> running -> completing -> completed
//
// and may leave this sequence, from any state but the last, for aborting and aborted, or for
// failing and failed. Suspended is a flag beside the state, not a state. The package is pure.
package lifecycle
