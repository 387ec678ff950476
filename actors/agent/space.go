package agent

import "fmt"

// leastInodes is how many files a disk must be able to take more for new jobs to be
// started: a job needs some dozen.
const leastInodes = 1000

// Free is what a disk has left. Inodes is -1 where they are not counted.
type Free struct{ Bytes, Inodes int64 }

// Space decides whether the disk of the state folder has room for new jobs. Once it
// had none, there must be half as much again as is asked for, lest the node opens and
// closes with each job.
type Space struct {
	dir    string
	least  int64
	closed string
}

// NewSpace returns the space of a folder's disk, which must have least bytes left; 0:
// it is never too full.
func NewSpace(dir string, least int64) *Space { return &Space{dir: dir, least: least} }

// Saw takes what has been measured, or why nothing could be, and why the journal
// waits for space, if it does. It reports whether Closed has changed between empty
// and not.
func (s *Space) Saw(free Free, trouble, journal error) bool {
	before := s.closed != ""
	switch {
	case journal != nil:
		s.close("%v", journal)
	case s.least == 0:
		s.closed = ""
	case trouble != nil:
		s.close("%v", trouble)
	case free.Bytes < s.wanted(s.least):
		s.close("the disk of %s is full: %d MiB are free, new jobs need %d MiB (--min-free)", s.dir, free.Bytes>>20, s.wanted(s.least)>>20)
	case free.Inodes >= 0 && free.Inodes < s.wanted(leastInodes):
		s.close("the disk of %s is full: it takes %d more files, new jobs need %d", s.dir, free.Inodes, s.wanted(leastInodes))
	default:
		s.closed = ""
	}
	return before != (s.closed != "")
}

func (s *Space) wanted(least int64) int64 {
	if s.closed == "" {
		return least
	}
	return least + least/2
}

// close keeps the first reason: a figure that changes is no news.
func (s *Space) close(format string, args ...any) {
	if s.closed == "" {
		s.closed = fmt.Sprintf(format, args...)
	}
}

// Closed is why no job may be started; empty: they may.
func (s *Space) Closed() string { return s.closed }
