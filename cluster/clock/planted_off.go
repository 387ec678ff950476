//go:build !plantedbugs

package clock

import "time"

// wrong is how far the wall clock is ahead of that of the machine: not at all, but in builds with
// planted bugs.
func wrong() time.Duration { return 0 }
