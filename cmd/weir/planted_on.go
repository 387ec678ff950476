//go:build plantedbugs

package main

import (
	"os"
	"slices"

	"weir/raftstore/state"
)

func init() {
	bug := os.Getenv("WEIR_PLANTED_BUG")
	state.CountsTwice = bug == "double_count"
	// Those bugs are in package api: where a command is applied, nothing stops what they let in.
	state.Unchecked = bug == "open_door" || bug == "stale_rights"
	state.Drifts = drifts(bug)
}

// driftsAt is how many commands the replica that drifts has applied by then.
const driftsAt = 2000

// drifts returns whether the state of this replica is to drift now, once: when the file exists that
// WEIR_PLANTED_DRIFT names, or at one replica after some commands.
func drifts(bug string) func() bool {
	file, done, commands := os.Getenv("WEIR_PLANTED_DRIFT"), false, 0
	careless := bug == "drift" && slices.Contains(os.Args, "r2")
	return func() bool {
		if commands++; done {
			return false
		}
		_, err := os.Stat(file)
		done = file != "" && err == nil || careless && commands == driftsAt
		return done
	}
}
