package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"time"
)

// stopWithin bounds the stop of a replica: longer than handing over leadership and
// the last words to every peer take. What is on disk needs no orderly end.
const stopWithin = 20 * time.Second

// close undoes the steps of the start. A step that does not end is told with what
// every goroutine was doing, and left.
func (s *server) close() error {
	undo := s.undo
	s.undo = nil
	done := make(chan error, 1)
	go func() {
		var errs []error
		for _, step := range slices.Backward(undo) {
			errs = append(errs, step())
		}
		done <- errors.Join(errs...)
	}()
	timer := time.NewTimer(stopWithin)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		if err := pprof.Lookup("goroutine").WriteTo(os.Stderr, 2); err != nil {
			s.log.Warn("cannot dump goroutines", "error", err)
		}
		return fmt.Errorf("replica %s has not stopped within %s", s.flags.id, stopWithin)
	}
}
