package clock

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Boot is the time since the machine booted, including the time that it was suspended. The clock is
// the same for all processes, and no one can set it.
func Boot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		// Every Linux that runs Go programs has it.
		panic(fmt.Sprintf("read the time since the boot: %v", err))
	}
	return time.Duration(now.Nano())
}
