package main

import "time"

const (
	// killPatience is how long one attempt to kill all processes may take before an error is
	// logged and it is repeated.
	killPatience = 10 * time.Second
	// escapePeriod is how long after its groups have ended a process is taken for one that
	// escaped from them.
	escapePeriod = 200 * time.Millisecond
	// reapTime is how long to wait for the last children of a tree before all processes are
	// read.
	reapTime = 5 * time.Millisecond
)

// endTree ends every process of the job in the background. It closes gone when all have been
// waited for and their output is complete.
func (s *supervisor) endTree() {
	if s.endingAll {
		return
	}
	s.endingAll = true
	s.prober.close()
	s.ending.start("kill its processes")
	// giveUp sets s.gone to nil: nobody waits then, and this goroutine may go on later.
	gone := s.gone
	alone := s.root != nil && s.spec.Cgroups.None()
	go func() {
		for !alone || !s.childless() {
			err := s.inside.Kill(killPatience)
			if err == nil {
				break
			}
			complain(err)
		}
		s.awaitReaped()
		if s.stdout != nil {
			s.ending.begin("keep standard output in " + s.spec.OutputFolder)
			s.stdout.finish()
		}
		s.ending.begin("keep standard error in " + s.spec.OutputFolder)
		s.stderr.finish()
		s.ending.begin("measure what it has on disk in " + s.spec.Workspace)
		s.disk.last, _ = s.disk.measure(s.ending.move)
		close(gone)
	}()
}

// childless says whether all descendants have been waited for, and spares a
// tree that has ended by itself the reading of all processes.
func (s *supervisor) childless() bool {
	select {
	case <-s.reaped:
		return true
	case <-time.After(reapTime):
		return false
	}
}

// awaitReaped waits until every child has been waited for. A job that runs as root may have
// moved a process out of its groups, but the process is still adopted by the proxy.
func (s *supervisor) awaitReaped() {
	for {
		select {
		case <-s.reaped:
			return
		case <-time.After(escapePeriod):
			complain((&tree{volumes: s.volumes}).Kill(killPatience))
		}
	}
}
