package agent

import (
	"fmt"
	"slices"
)

// leastInodes is how many free inodes a disk must have before new jobs are started: a job needs
// a few dozen.
const leastInodes = 1000

// Free is the free space of a disk. Inodes is -1 if the file system does not count them.
type Free struct{ Bytes, Inodes int64 }

// Space decides whether the disk of the state folder has room for new jobs, and whether it
// responds. Once the disk is full, 1.5 times the minimum must be free before the node accepts jobs
// again, so that the node does not change its state with each job.
type Space struct {
	dir    string
	least  int64
	closed lack
}

// lack is why no job may be started. Its text is kept as it was when its kind was first seen:
// changed numbers are not reported.
type lack struct{ kind, text string }

// hanging is the `kind` of the lack when the disk does not answer.
const hanging = "hang"

// NewSpace returns the Space of a folder's disk. `least` is how many bytes must be free; 0: no
// minimum.
func NewSpace(dir string, least int64) *Space { return &Space{dir: dir, least: least} }

// Saw updates Closed from a measurement of the free space. If `trouble` is not nil, it is why the
// space could not be measured. If `journal` is not nil, it is why the journal waits for space. If
// `hang` is not nil, it names the disk operation that does not respond. Saw reports whether Closed
// has changed.
func (s *Space) Saw(free Free, trouble, journal, hang error) bool {
	before := s.closed
	lacks := s.lacks(free, trouble, journal)
	if hang != nil {
		lacks = append([]lack{{hanging, hang.Error()}}, lacks...)
	}
	switch {
	case len(lacks) == 0:
		s.closed = lack{}
	case !slices.ContainsFunc(lacks, func(l lack) bool { return l.kind == s.closed.kind }):
		s.closed = lacks[0]
	}
	return s.closed != before
}

// lacks returns all reasons for not starting jobs, except a hang, worst first.
func (s *Space) lacks(free Free, trouble, journal error) []lack {
	var all []lack
	if journal != nil {
		all = append(all, lack{"journal", journal.Error()})
	}
	if s.least == 0 {
		return all
	}
	if trouble != nil {
		return append(all, lack{"measure", trouble.Error()})
	}
	if want := s.wanted(s.least); free.Bytes < want {
		all = append(all, lack{"bytes", fmt.Sprintf("the disk of %s is full: %d MiB are free, but new jobs need %d MiB (--min-free)",
			s.dir, free.Bytes>>20, want>>20)})
	}
	if want := s.wanted(leastInodes); free.Inodes >= 0 && free.Inodes < want {
		all = append(all, lack{"files", fmt.Sprintf("the disk of %s is full: room for %d more files, but new jobs need %d", s.dir, free.Inodes, want)})
	}
	return all
}

// Short is how many bytes the disk lacks for new jobs; 0: none.
func (s *Space) Short(free Free) int64 {
	if s.least == 0 {
		return 0
	}
	return max(0, s.wanted(s.least)-free.Bytes)
}

func (s *Space) wanted(least int64) int64 {
	if !s.Full() {
		return least
	}
	return least + least/2
}

// Full reports whether no job may be started for lack of space.
func (s *Space) Full() bool { return s.closed.kind != "" && s.closed.kind != hanging }

// Closed says why no job may be started; empty if jobs may be started.
func (s *Space) Closed() string { return s.closed.text }
