package state

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"weir/messages/bounds"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// NoteEventsOmitted is the note of the event that replaces those dropped from the middle of an
// operation's events. Its attribute "count" is the number of dropped events.
const NoteEventsOmitted = "events_omitted"

// history is what the history of an operation takes, in bytes as eventBytes and jobBytes estimate
// them. It is derived from the record.
type history struct {
	events, jobs int64
	// rest is what the finished jobs take beyond the estimate.
	rest int64
}

const (
	// maxEventsBytes and maxJobsBytes bound the history of an operation: together 1 MiB.
	maxEventsBytes = 256 << 10
	maxJobsBytes   = 768 << 10
	// fewJobsBytes bounds the finished jobs of an operation when its user has no room left.
	// fewestJobsBytes and fewEventsBytes do that where progress is counted.
	fewJobsBytes    = 32 << 10
	fewestJobsBytes = 4 << 10
	fewEventsBytes  = 16 << 10
	// maxEventBytes bounds one event: a reason and what there is to say besides.
	maxEventBytes = 8 << 10
	// maxOrderBytes bounds the message of a stop order, which each job that has to leave has.
	maxOrderBytes = 1 << 10
)

// historyOf adds up what the history of a record takes.
func historyOf(record *statepb.Operation) (h history) {
	for _, e := range record.GetEvents() {
		h.events += eventBytes(e)
	}
	for _, j := range record.GetFinishedJobs() {
		h.add(j, 1)
	}
	return h
}

// add adds a finished job; with times -1 it takes one away.
func (h *history) add(j *statepb.FinishedJob, times int64) {
	h.jobs += times * jobBytes(j)
	h.rest += times * restBytes(j)
}

// eventBytes returns about what an event takes.
func eventBytes(e *statepb.OperationEvent) int64 {
	size := 64 + len(e.GetNote())
	for name, value := range e.GetAttributes() {
		size += bounds.AttributeSize(name, value)
	}
	return int64(size)
}

// jobBytes returns about what the record of a finished job takes: a size for its numbers, and what
// users and agents can make larger. It is asked for each job, and looks at little.
func jobBytes(j *statepb.FinishedJob) int64 {
	size := 400 + len(j.GetTask()) + len(j.GetNode()) + len(j.GetStop().GetMessage())
	if j.GetError() != nil {
		size += proto.Size(j.GetError())
	}
	size += len(j.GetStatistics().GetPacked()) + 32*len(j.GetStatistics().GetValues())
	if in := j.GetInput(); in != nil {
		size += 32 * (len(in.GetProcessed()) + len(in.GetRest()))
	}
	if skipped := j.GetSkipped(); skipped != nil {
		size += len(skipped.GetPath()) + len(skipped.GetHead())
	}
	return int64(size)
}

// restBytes returns what a finished job takes at most beyond jobBytes. Like allocationBytes it is asked
// for each job, and adds up the most that numbers take instead of looking at each.
func restBytes(j *statepb.FinishedJob) int64 {
	size := max(0, len(j.GetJobId())-usualID) + orderBytes(j.GetStop()) - len(j.GetStop().GetMessage()) + reserveBytes(j.GetReserve()) + reserveBytes(j.GetNextReserve().GetReserve())
	for name := range j.GetStatistics().GetValues() {
		size += max(0, len(name)-16)
	}
	if j.GetSample() != nil {
		size += sampleBytes
	}
	if j.GetInput() != nil || j.GetOutput() != nil || j.GetSkipped() != nil {
		size += 128 + len(j.GetOutput().GetPart())
	}
	return int64(size)
}

// trimEvents trims the events of an operation to the limits, and to budget bytes. edit has been
// called.
func (o *operation) trimEvents(l *statepb.Limits, budget int64) {
	events, most := o.record.GetEvents(), int(l.GetEventsPerOperation())
	if len(events) <= most && !over(l, o.history.events, budget) {
		return
	}
	for {
		events = trimEvents(events, most)
		o.history.events = historyOf(&statepb.Operation{Events: events}).events
		if !over(l, o.history.events, budget) || len(events) <= minEvents {
			break
		}
		// A quarter less, at least one.
		most = max(minEvents, len(events)-1-len(events)/4)
	}
	if over(l, o.history.events, maxEventsBytes) {
		// They are of a log of old, in which a single event may have any size.
		for i, e := range events {
			events[i] = shallow(e)
			events[i].Attributes = bounds.CutAttributes(e.GetAttributes(), maxEventBytes)
		}
		o.history.events = historyOf(&statepb.Operation{Events: events}).events
	}
	o.record.Events = events
}

// over reports whether bytes exceed a bound in bytes that applies; 0 is none.
func over(l *statepb.Limits, bytes, limit int64) bool {
	return bytes > limit && limit > 0 && l.GetByBytes()
}

// trimEvents limits the length of a list of events. It keeps the first half and the latest events.
// Between them it puts an event with the number of events left out.
func trimEvents(events []*statepb.OperationEvent, limit int) []*statepb.OperationEvent {
	if len(events) <= limit {
		return events
	}
	// The gap event takes one place; events after it are dropped until the list is short enough.
	gap, surplus := limit/2, len(events)-limit
	var omitted int64
	for _, e := range events[gap : gap+1+surplus] {
		omitted += eventsOmitted(e)
	}
	last := events[gap+surplus]
	events[gap] = &statepb.OperationEvent{
		Time:       last.GetTime(),
		State:      last.GetState(),
		Note:       NoteEventsOmitted,
		Attributes: map[string]string{"count": strconv.FormatInt(omitted, 10)},
		Index:      last.GetIndex(),
	}
	return slices.Delete(events, gap+1, gap+1+surplus)
}

// eventsOmitted returns how many events this event stands for.
func eventsOmitted(e *statepb.OperationEvent) int64 {
	if e.GetNote() != NoteEventsOmitted {
		return 1
	}
	n, err := strconv.ParseInt(e.GetAttributes()["count"], 10, 64)
	if err != nil {
		return 1
	}
	return n
}

const (
	// keptValues is how many of an operation's latest finished jobs keep their full
	// statistics. Those of earlier jobs are only in the sums of their task.
	keptValues = 50
	// keptHistograms is how many of the latest ended operations keep the histograms of their
	// statistics and the memory digests. Earlier operations keep counts, sums and bounds, and the
	// last reserve.
	keptHistograms = 1000
)

// trimValues drops the statistics of the jobs that are no longer among the latest keptValues. The
// parameter added is the number of jobs appended since the last call.
func (h *history) trimValues(jobs []*statepb.FinishedJob, added int) {
	last := len(jobs) - keptValues
	for i := max(0, last-added); i < last; i++ {
		s := jobs[i].GetStatistics()
		if len(s.GetValues()) == 0 && len(s.GetPacked()) == 0 {
			continue
		}
		h.add(jobs[i], -1)
		jobs[i] = shallow(jobs[i])
		jobs[i].Statistics = shallow(s)
		jobs[i].Statistics.Values, jobs[i].Statistics.Packed = nil, nil
		h.add(jobs[i], 1)
	}
}

// keep appends the record of a finished job. edit has been called.
func (c *change) keep(o *operation, finished *statepb.FinishedJob) {
	o.record.FinishedJobs = append(o.record.GetFinishedJobs(), finished)
	o.history.add(finished, 1)
	made(&c.kept)[o]++
}

// trimKept trims the records of finished jobs to the limits. It runs after all ends of a command,
// because a command that ends many jobs may take most of their records beyond the limits. What is
// dropped of one operation makes room for the next, so they come in the order of acceptance.
func (c *change) trimKept() {
	for _, o := range slices.SortedFunc(maps.Keys(c.kept), func(a, b *operation) int { return cmp.Compare(a.sequence, b.sequence) }) {
		o.trimFinished(c.limits, jobsBudget(c.State, o))
		o.history.trimValues(o.record.GetFinishedJobs(), c.kept[o])
		weigh(c.State, o)
	}
}

// condense drops an operation's histograms. It also drops the operation's memory digests, which its
// memory profiles have preserved.
func (s *State) condense(o *operation) {
	compact(s, o)
	s.edit(o)
	for i, t := range o.record.GetTasks() {
		o.tasks[i].statistics.DropHistograms()
		if m := t.GetMemory(); m != nil {
			m.UserDigest, m.ProxyDigest, m.Samples = nil, nil, nil
		}
	}
	o.measure()
	weigh(s, o)
}

// trimFinished trims the finished jobs of an operation to the limits. It drops the oldest jobs
// first, but drops failed jobs only when no other jobs are left. edit has been called.
func (o *operation) trimFinished(l *statepb.Limits, budget int64) {
	jobs, most := o.record.GetFinishedJobs(), int(l.GetFinishedJobsPerOperation())
	for len(jobs) > most || len(jobs) > 0 && over(l, o.history.jobs, budget) {
		drop := max(0, slices.IndexFunc(jobs, func(j *statepb.FinishedJob) bool {
			return j.GetState() != lifecycle.JobFailed.String()
		}))
		o.history.add(jobs[drop], -1)
		copy(jobs[1:drop+1], jobs[:drop])
		jobs[0] = nil
		jobs = jobs[1:]
	}
	o.record.FinishedJobs = jobs
}

const (
	// compactBytes is up to which size the specification of an ended operation is kept whole, and
	// compactText what is kept of a command of a larger one.
	compactBytes = 16 << 10
	compactText  = 512
	// compactEntries is how many files, paths and intervals are kept of each list.
	compactEntries = 10
)

// compact keeps of a large specification of an ended operation what people read.
func compact(s *State, o *operation) {
	if !s.limits.GetByBytes() || o.record.GetSpecCut() || o.given <= compactBytes {
		return
	}
	s.edit(o)
	o.record.Spec, o.record.SpecCut = compactSpec(o.record.GetSpec()), true
	o.given = givenBytes(o.record.GetSpec(), nil)
	weigh(s, o)
}

// compactSpec returns a specification with the beginnings of its commands and lists, and without
// environments.
func compactSpec(spec *statepb.OperationSpec) *statepb.OperationSpec {
	spec = shallow(spec)
	tasks := make([]*statepb.TaskSpec, len(spec.GetTasks()))
	for i, t := range spec.GetTasks() {
		t = shallow(t)
		t.Argv, t.Shell, t.Environment = firstTexts(t.GetArgv()), bounds.Cut(t.GetShell(), compactText), nil
		t.Files, t.Outputs, t.Cookies = first(t.GetFiles()), first(t.GetOutputs()), first(t.GetCookies())
		if t.GetReadiness() != nil {
			t.Readiness = shallow(t.GetReadiness())
			t.Readiness.Exec = firstTexts(t.GetReadiness().GetExec())
		}
		tasks[i] = t
	}
	spec.Tasks = tasks
	if spec.GetMap() != nil {
		spec.Map = shallow(spec.GetMap())
		spec.Map.InputPaths = first(spec.GetMap().GetInputPaths())
	}
	return spec
}

// firstTexts returns the first texts of a command, compactText bytes of them.
func firstTexts(texts []string) (kept []string) {
	left := compactText
	for _, text := range texts {
		if left <= 0 {
			break
		}
		kept = append(kept, bounds.Cut(text, max(left, len("…"))))
		left -= len(text)
	}
	return kept
}

func first[T any](list []T) []T { return list[:min(len(list), compactEntries)] }
