package clock

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Timer fires at a time of the boot clock. A timer of package time stands still while the machine is
// suspended; this one fires as soon as the machine runs again.
type Timer struct {
	file *os.File
	// fd is that of the file, which stays open until Close.
	fd int
}

// NewTimer returns a timer that is not set. It calls `fire`, in a goroutine of its own, each time it
// fires; after a Reset that may still be for the time set before. NewTimer panics if the process
// cannot open a file more.
func NewTimer(fire func()) *Timer {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		panic(fmt.Sprintf("create timer: %v", err))
	}
	t := &Timer{file: os.NewFile(uintptr(fd), "timer"), fd: fd}
	go t.run(fire)
	return t
}

func (t *Timer) run(fire func()) {
	for buffer := make([]byte, 8); ; {
		if _, err := t.file.Read(buffer); err != nil {
			// Closed.
			return
		}
		fire()
	}
}

// Reset sets the timer to fire after d, or at once if d is not above 0.
func (t *Timer) Reset(d time.Duration) {
	value := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))}
	if err := unix.TimerfdSettime(t.fd, 0, &value, nil); err != nil {
		panic(fmt.Sprintf("set timer: %v", err))
	}
}

// Close ends the timer; it must not be set afterwards.
func (t *Timer) Close() error { return t.file.Close() }
