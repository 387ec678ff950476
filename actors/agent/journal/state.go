package journal

import (
	"fmt"
	"maps"
	"slices"

	"weir/messages/actorpb"
	"weir/messages/journalpb"
	"weir/scheduling"
)

const (
	// Format is the version of the format that this code writes. It is also the highest version
	// that this code reads.
	Format = 1
	// maxHad is how many released jobs are remembered. A delayed plan is seconds old at most,
	// and a node ends a few jobs a second.
	maxHad = 10_000
	// maxRejections is how many rejections survive a rewrite of the journal.
	maxRejections = 256
)

// Job is what a journal knows of a job that has not been released.
type Job struct {
	// Grant is the order to start it.
	Grant *actorpb.StartJob
	// Starting is set before the job's processes are started. Started is set when the command runs.
	Starting *journalpb.Starting
	Started  *journalpb.Started
	// Stopping is set before it is asked to leave.
	Stopping *journalpb.Stopping
	// Said is its last report of its readiness.
	Said *journalpb.Said
	// Exited is how it ended.
	Exited *journalpb.Exited
}

// State is the result of applying the records of a journal.
type State struct {
	// Node and Life are the node's name and incarnation. Session is that of the latest agent
	// process.
	Node    string
	Life    uint64
	Session uint64
	// Token is the highest token seen.
	Token scheduling.Token
	// Jobs are the jobs that have not been released, by id.
	Jobs map[string]*Job
	// Had are the most recently released jobs, oldest first.
	Had []string
	// Rejections are the latest rejections, oldest first.
	Rejections []*journalpb.Record

	version string
}

// apply applies a record. It returns an error for a record that this version cannot have
// written here.
func (s *State) apply(record *journalpb.Record) error {
	if (s.Life == 0) != (record.GetBorn() != nil) {
		return fmt.Errorf("%w: the node's first record is missing, repeated or out of place", ErrDamaged)
	}
	switch e := record.GetEvent().(type) {
	case *journalpb.Record_Born:
		if e.Born.GetFormat() > Format {
			return fmt.Errorf("%w: has format %d, but this version reads %d: written by a newer version; run that one", ErrForeign, e.Born.GetFormat(), Format)
		}
		if e.Born.GetLife() == 0 {
			return fmt.Errorf("%w: the node's incarnation is 0", ErrDamaged)
		}
		*s = State{Node: e.Born.GetNode(), Life: e.Born.GetLife(), Jobs: map[string]*Job{}}
	case *journalpb.Record_Woke:
		s.Session, s.version = e.Woke.GetSession(), e.Woke.GetVersion()
	case *journalpb.Record_Seen:
		s.see(e.Seen)
	case *journalpb.Record_Granted:
		s.Jobs[e.Granted.GetJobId()] = &Job{Grant: e.Granted}
		s.see(e.Granted.GetToken())
	case *journalpb.Record_Starting:
		s.change(e.Starting.GetJobId(), func(j *Job) { j.Starting = e.Starting })
	case *journalpb.Record_Started:
		s.change(e.Started.GetJobId(), func(j *Job) { j.Started = e.Started })
	case *journalpb.Record_Stopping:
		s.change(e.Stopping.GetJobId(), func(j *Job) { j.Stopping = e.Stopping })
	case *journalpb.Record_Said:
		s.change(e.Said.GetJobId(), func(j *Job) { j.Said = e.Said })
	case *journalpb.Record_Exited:
		s.change(e.Exited.GetJob().GetJobId(), func(j *Job) { j.Exited = e.Exited })
	case *journalpb.Record_Released:
		for _, id := range e.Released.GetJobIds() {
			s.release(id, e.Released.GetUnstarted())
		}
	case *journalpb.Record_Rejected:
		s.Rejections = append(s.Rejections, record)
		s.Rejections = s.Rejections[max(0, len(s.Rejections)-maxRejections):]
	default:
		return fmt.Errorf("%w: unknown record kind: written by a newer version; run that one", ErrForeign)
	}
	return nil
}

func (s *State) see(m *actorpb.Token) {
	if token := (scheduling.Token{Term: m.GetTerm(), Index: m.GetIndex()}); s.Token.Less(token) {
		s.Token = token
	}
}

// change changes a job that has not been released.
func (s *State) change(id string, change func(*Job)) {
	if job := s.Jobs[id]; job != nil {
		changed := *job
		change(&changed)
		s.Jobs[id] = &changed
	}
}

func (s *State) release(id string, unstarted bool) {
	delete(s.Jobs, id)
	if unstarted {
		return
	}
	s.Had = append(s.Had, id)
	// Cut rarely: copying the list for each job would be wasteful.
	if len(s.Had) >= 2*maxHad {
		s.Had = slices.Clone(s.Had[len(s.Had)-maxHad:])
	}
}

// clone returns a copy that shares values which never change.
func (s *State) clone() *State {
	c := *s
	c.Jobs = maps.Clone(s.Jobs)
	c.Had = slices.Clone(s.Had[max(0, len(s.Had)-maxHad):])
	c.Rejections = slices.Clone(s.Rejections)
	return &c
}

// records returns the fewest records that result in the state.
func (s *State) records() []*journalpb.Record {
	all := []*journalpb.Record{
		{Event: &journalpb.Record_Born{Born: &journalpb.Born{Format: Format, Node: s.Node, Life: s.Life}}},
		{Event: &journalpb.Record_Woke{Woke: &journalpb.Woke{Session: s.Session, Version: s.version}}},
		Seen(s.Token),
	}
	if had := s.Had[max(0, len(s.Had)-maxHad):]; len(had) > 0 {
		all = append(all, Released(had...))
	}
	for _, id := range slices.Sorted(maps.Keys(s.Jobs)) {
		job := s.Jobs[id]
		add := func(has bool, record *journalpb.Record) {
			if has {
				all = append(all, record)
			}
		}
		add(true, &journalpb.Record{Event: &journalpb.Record_Granted{Granted: job.Grant}})
		add(job.Starting != nil, &journalpb.Record{Event: &journalpb.Record_Starting{Starting: job.Starting}})
		add(job.Started != nil, &journalpb.Record{Event: &journalpb.Record_Started{Started: job.Started}})
		add(job.Stopping != nil, &journalpb.Record{Event: &journalpb.Record_Stopping{Stopping: job.Stopping}})
		add(job.Said != nil, &journalpb.Record{Event: &journalpb.Record_Said{Said: job.Said}})
		add(job.Exited != nil, &journalpb.Record{Event: &journalpb.Record_Exited{Exited: job.Exited}})
	}
	return append(all, s.Rejections...)
}
