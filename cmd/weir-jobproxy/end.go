package main

import "time"

const (
	// killPatience is how long one attempt to end all processes may take
	// before it is complained about and repeated.
	killPatience = 10 * time.Second
	// escapePeriod is how long after the end of its groups a process is taken
	// to be one that left them.
	escapePeriod = 200 * time.Millisecond
	// reapTime is how long waiting for the last children may take when there
	// are no others.
	reapTime = 5 * time.Millisecond
)

// endTree ends every process of the job, in the background; gone is told when
// all have been waited for and their output is complete.
func (s *supervisor) endTree() {
	if s.endingAll {
		return
	}
	s.endingAll = true
	s.prober.close()
	s.ending.start("kill its processes")
	// Who gives up what hangs waits for it no more, and it may go on later.
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

// awaitReaped waits until every child has been waited for. A job of root may
// have moved a process out of its groups, but not away from its foster parent.
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
