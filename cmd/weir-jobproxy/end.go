package main

import "time"

const (
	// killPatience is how long one attempt to kill all processes may take. Then an error is logged
	// and the attempt is repeated.
	killPatience = 10 * time.Second
	// escapePeriod is how long a process may outlive the job's groups. After that it is taken to
	// have escaped from them, and is killed.
	escapePeriod = 200 * time.Millisecond
	// reapTime is how long to wait for the last children of a tree before its processes are
	// searched for among all processes.
	reapTime = 5 * time.Millisecond
)

// endTree ends every process of the job in the background. It closes the channel s.gone when all
// processes have been waited for and their output is complete.
func (s *supervisor) endTree() {
	if s.endingAll {
		return
	}
	s.endingAll = true
	s.beside.close()
	s.ending.start("kill its processes")
	// giveUp sets s.gone to nil and stops waiting, but this goroutine may still continue.
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
			s.ending.begin("store standard output in " + s.spec.OutputFolder)
			s.stdout.finish()
		}
		s.ending.begin("store standard error in " + s.spec.OutputFolder)
		s.stderr.finish()
		s.ending.begin("measure its disk usage in " + s.spec.Workspace)
		s.disk.last, _ = s.disk.measure(s.ending.move)
		close(gone)
	}()
}

// childless reports whether all descendants have been reaped within reapTime. If so, the tree has
// ended by itself, and its processes need not be searched for.
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
