//go:build !plantedbugs

package state

// countAgain counts an end once more, in builds that find out whether weir chaos
// notices.
func (c jobChange) countAgain(*operation, Ended) {}
