//go:build plantedbugs

package main

import (
	"os"

	"weir/raftstore/state"
)

func init() { state.CountsTwice = os.Getenv("WEIR_PLANTED_BUG") == "double_count" }
