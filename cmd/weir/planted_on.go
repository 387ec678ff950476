//go:build plantedbugs

package main

import (
	"os"

	"weir/raftstore/state"
)

func init() {
	bug := os.Getenv("WEIR_PLANTED_BUG")
	state.CountsTwice = bug == "double_count"
	// Those bugs are in package api: where a command is applied, nothing stops what they let in.
	state.Unchecked = bug == "open_door" || bug == "stale_rights"
}
