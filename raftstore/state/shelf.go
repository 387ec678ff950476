package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"weir/messages/statepb"
	"weir/scheduling"
)

// Shelf keeps records outside of the memory. They are derived from the state, and need not outlive the process.
type Shelf interface{ Put(record []byte) Shelved }

// Shelved is a record on a Shelf. Any goroutine may read it, also after the State has dropped it: into a buffer, if that is
// large enough.
type Shelved interface{ Read(buffer []byte) []byte }

// Held is a record that is in memory after all.
type Held []byte

// Read implements Shelved.
func (h Held) Read(buffer []byte) []byte { return append(buffer[:0], h...) }

// shelves are what a state knows of its shelf, which is no part of the state: what is on it makes no difference.
type shelves struct {
	shelf Shelf
	// recent lists the ended operations that are not on the shelf, in the order of their ends: the latest, most of
	// them at most, and what they held when they ended, at most recentBytes.
	recent []recent
	most   int
	held   int64
	// opened are those that the command in progress has taken from the shelf.
	opened []opened
	// moved is the place in the order of ends of the operation that was moved last, round that of the last one that is
	// moved before it is the turn of the first again, and due how many bytes are to be moved.
	moved, round uint64
	due          int64
}

// movedBytes is about how many bytes are moved after a command.
const movedBytes = 256 << 10

// recent is an operation that ended lately, with what it was counted with then, in bytes.
type recent struct {
	*operation
	bytes int64
}

// opened is an operation with the version that was on the shelf.
type opened struct {
	*operation
	before *version
}

// recentBytes is the most that the operations that ended lately hold in memory.
const recentBytes = 32 << 20

// UseShelf has a state keep the records of ended operations on a shelf, except for the latest `most`.
func UseShelf(s *State, shelf Shelf, most int) {
	s.shelves.shelf, s.shelves.most = shelf, most
	tidy(s)
}

// RecentOperations is how many of the latest ended operations stay in memory.
const RecentOperations = keptHistograms

// tidy puts what belongs there on the shelf. It is called after each command, also one that is refused.
func tidy(s *State) {
	h := &s.shelves
	if h.shelf == nil {
		return
	}
	for _, was := range h.opened {
		if _, changed := s.edited[was.operation]; !changed && was.shelved == nil {
			was.version = was.before
			continue
		}
		putBack(s, was.operation)
	}
	h.opened = nil
	for len(h.recent) > h.most || h.held > recentBytes {
		shelve(s, h.recent[0].operation)
		h.held -= h.recent[0].bytes
		h.recent[0] = recent{}
		h.recent = h.recent[1:]
	}
	rearrange(s)
}

// remember takes the operations that ended last from the shelf again.
func remember(s *State) {
	if s.shelves.shelf == nil {
		return
	}
	var latest []*operation
	held := int64(0)
	for _, id := range slices.Backward(s.archive[max(0, len(s.archive)-s.shelves.most):]) {
		o := s.operations[scheduling.OperationID(id)]
		if o == nil {
			continue // The snapshot is damaged, which is found later.
		}
		if held += o.weight; held > recentBytes {
			break
		}
		latest = append(latest, o)
	}
	for _, o := range slices.Backward(latest) {
		o.version = o.version.whole()
		keepRecent(s, o)
	}
}

// keepRecent keeps an operation that has just ended in memory for a while.
func keepRecent(s *State, o *operation) {
	if s.shelves.shelf != nil {
		s.shelves.recent = append(s.shelves.recent, recent{o, o.weight})
		s.shelves.held += o.weight
	}
}

// take takes the whole record of an operation from the shelf until the end of the command.
func take(s *State, o *operation) {
	if o.shelved != nil {
		before := o.version
		o.version = before.whole()
		s.shelves.opened = append(s.shelves.opened, opened{o, before})
	}
}

// putBack shelves an operation, if the command has taken it, before the end of the command: a command may take them all.
// It has been weighed.
func putBack(s *State, o *operation) {
	if o.shelved != nil {
		return
	}
	delete(s.edited, o)
	s.shelves.due += o.weight
	shelve(s, o)
}

// shelve puts the record of an ended operation on the shelf.
func shelve(s *State, o *operation) {
	if o.shelved != nil || s.operations[o.id()] != o {
		return
	}
	data, err := deterministic.Marshal(o.asRecord())
	if err != nil {
		panic(fmt.Sprintf("shelve operation %q: %v", o.id(), err))
	}
	var jobs []string
	for _, j := range o.record.GetFinishedJobs() {
		jobs = append(jobs, j.GetJobId())
	}
	o.version = &version{
		generation: o.generation, state: o.state, shelved: s.shelves.shelf.Put(data), jobs: strings.Join(jobs, "\n"), record: headOf(o.record),
		history: o.history, given: o.given, progress: o.progress,
	}
}

// rearrange moves as many bytes of the shelf as were dropped or replaced between others, in turn, so that these do not add
// up: a shelf that frees what was put there before the oldest record has no more than four times what is kept.
func rearrange(s *State) {
	h, most := &s.shelves, movedBytes
	for range s.archive {
		if h.due <= 0 || most <= 0 {
			return
		}
		at, _ := slices.BinarySearchFunc(s.archive, h.moved+1, byEnd(s))
		o := s.operations[scheduling.OperationID(s.archive[at%len(s.archive)])]
		if o.ended > h.round || o.ended <= h.moved {
			// A round is of those that had ended when it began: it would not end otherwise.
			h.round, o = s.ended, s.operations[scheduling.OperationID(s.archive[0])]
		}
		if h.moved = o.ended; o.shelved == nil {
			continue
		}
		data := o.shelved.Read(nil)
		moved := *o.version
		moved.shelved = h.shelf.Put(data)
		o.version = &moved
		h.due, most = h.due-int64(len(data)), most-len(data)
	}
	h.due = 0
}

// headOf returns what is kept in memory of a record on the shelf: what leads to it, most of what lists select by, and what
// rights are judged by.
func headOf(r *statepb.Operation) *statepb.Operation {
	spec := r.GetSpec()
	head := &statepb.Operation{
		Id: r.GetId(), State: r.GetState(), User: r.GetUser(), ByOperator: r.GetByOperator(), MutationId: r.GetMutationId(), RetryOf: r.GetRetryOf(),
		AcceptedIndex: r.GetAcceptedIndex(), StartTime: r.GetStartTime(), FinishTime: r.GetFinishTime(), SpecCut: r.GetSpecCut(),
		Assignment: r.GetAssignment(),
		Spec:       &statepb.OperationSpec{Type: spec.GetType(), Title: spec.GetTitle(), Alias: spec.GetAlias(), Acl: spec.GetAcl()},
	}
	for _, in := range r.GetTrees() {
		head.Trees = append(head.Trees, &statepb.OperationTree{Tree: in.GetTree(), Pool: in.GetPool()})
	}
	return head
}

// HasFinished reports whether a function is true of the id of a finished job of an operation that is kept. It does not
// read from the shelf.
func HasFinished(s *State, id scheduling.OperationID, is func(job string) bool) bool {
	o, ok := s.operations[id]
	if !ok {
		return false
	}
	for _, j := range o.record.GetFinishedJobs() {
		if is(j.GetJobId()) {
			return true
		}
	}
	for job := range strings.SplitSeq(o.jobs, "\n") {
		if job != "" && is(job) {
			return true
		}
	}
	return false
}

// onShelf returns the bytes of the record of a version as they are on the shelf, and in a snapshot; nil: it is not there.
func (v *version) onShelf(buffer []byte) []byte {
	if v.shelved == nil {
		return nil
	}
	return v.shelved.Read(buffer)
}

// fromShelf decodes a record that was on the shelf.
func fromShelf(data []byte) *statepb.Record {
	record := new(statepb.Record)
	if err := proto.Unmarshal(data, record); err != nil {
		panic(fmt.Sprintf("record of %d bytes on the shelf: %v", len(data), err))
	}
	return record
}

// whole returns the version with its whole record.
func (v *version) whole() *version {
	if v.shelved == nil {
		return v
	}
	whole, err := restoredVersion(v.full(), v.state)
	if err != nil {
		panic(fmt.Sprintf("operation %q on the shelf: %v", v.id(), err))
	}
	whole.generation = v.generation
	return whole
}

// whole returns the operation with its whole record, for readers.
func (o *operation) whole() *operation {
	if o.shelved == nil {
		return o
	}
	read := *o
	read.version = o.version.whole()
	return &read
}

// byEnd compares the place of an operation in the order of ends.
func byEnd(s *State) func(id string, number uint64) int {
	return func(id string, number uint64) int {
		return cmp.Compare(s.operations[scheduling.OperationID(id)].ended, number)
	}
}
