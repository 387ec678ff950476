//go:build !plantedbugs

package state

// countAgain does nothing here. In builds with planted bugs it counts a completion twice, to test
// that weir chaos detects it.
func (c jobChange) countAgain(*operation, Ended) {}

// drift does nothing here. In builds with planted bugs it may add 1 to a number of the state.
func drift(*State) {}

// unchecked returns false. In builds with planted bugs the rights of subjects may not be checked where
// commands are applied.
func unchecked() bool { return false }
