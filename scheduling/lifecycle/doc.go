// Package lifecycle holds the states of operations and jobs, why jobs are
// aborted, and how the jobs of a task are counted.
//
// An operation walks (J.4)
//
//	starting -> waiting_for_agent -> initializing -> preparing -> pending
//	         -> materializing -> running -> completing -> completed
//
// and may leave this road from any state that is not its last for aborting and
// aborted, or for failing and failed. Suspended is a flag beside the state, not
// a state. The package is pure.
package lifecycle
