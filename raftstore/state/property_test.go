package state

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// TestAnyLog drives a state with random commands, legal and not, and checks
// after each one that everything adds up, that a refused command changed nothing,
// and that the events tell all that happened. Then it replays the log, cuts it
// with a snapshot anywhere, and expects the same state each time.
func TestAnyLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state, mirror := New(), newMirror()
		steps := rapid.IntRange(1, 200).Draw(t, "steps")
		cut := rapid.IntRange(0, steps-1).Draw(t, "cut")
		var log []proto.Message
		var frozen *Frozen
		var frozenBytes []byte
		before := contentOf(t, state)
		for i := range steps {
			msg := drawCommand(t, state, i)
			log = append(log, proto.CloneOf(msg))
			known, ahead := leavingIn(state), state.Ahead(appliedAt(state, msg), msg)
			result, events := state.Apply(uint64(i+1), msg)
			if err := state.Verify(); err != nil {
				t.Fatalf("after %T %v: %v", msg, msg, err)
			}
			checkSizes(t, state)
			if err := checkAhead(state, msg, ahead, known, result); err != nil {
				t.Fatalf("%T %v: %v", msg, msg, err)
			}
			after := contentOf(t, state)
			if result.GetRefusal() != nil && (!bytes.Equal(before, after) || len(events) > 0) {
				t.Fatalf("%T %v was refused (%v) and changed the state, events %v", msg, msg, result.GetRefusal(), events)
			}
			before = after
			if err := mirror.follow(events, state); err != nil {
				t.Fatalf("after %T %v: %v", msg, msg, err)
			}
			if i == cut {
				frozen = state.Freeze()
				frozenBytes = bytesOf(t, frozen)
			}
		}
		want := bytesOf(t, state.Freeze())
		if !bytes.Equal(bytesOf(t, frozen), frozenBytes) {
			t.Fatal("commands after a freeze changed what was frozen")
		}
		if got := replay(t, New(), log, 0); !bytes.Equal(got, want) {
			t.Fatal("the same log led to another state")
		}
		restored, err := restore(recordsOf(t, frozen))
		if err != nil {
			t.Fatal(err)
		}
		if got := replay(t, restored, log, cut+1); !bytes.Equal(got, want) {
			t.Fatalf("a snapshot after command %d and the rest of the log led to another state", cut+1)
		}
	})
}

// replay applies the log from a place on and returns the records after it.
func replay(t tester, s *State, log []proto.Message, from int) []byte {
	for i := from; i < len(log); i++ {
		s.Apply(uint64(i+1), proto.CloneOf(log[i]))
	}
	return bytesOf(t, s.Freeze())
}

// mirror is what one who only hears events knows.
type mirror struct {
	operations  map[scheduling.OperationID]lifecycle.State
	suspended   map[scheduling.OperationID]bool
	epochs      map[scheduling.OperationID]uint64
	pending     map[string]int64
	allocations map[string]*statepb.Allocation
	nodes       map[scheduling.NodeID]NodeChanged
	// lost and saved count jobs that were aborted or left when they were asked.
	lost, saved map[scheduling.OperationID]int64
	// samples and rows count what jobs taught and read, by operation and task.
	samples, rows map[string]int64
}

func newMirror() *mirror {
	return &mirror{
		operations:  make(map[scheduling.OperationID]lifecycle.State),
		suspended:   make(map[scheduling.OperationID]bool),
		epochs:      make(map[scheduling.OperationID]uint64),
		pending:     make(map[string]int64),
		allocations: make(map[string]*statepb.Allocation),
		nodes:       make(map[scheduling.NodeID]NodeChanged),
		lost:        make(map[scheduling.OperationID]int64),
		saved:       make(map[scheduling.OperationID]int64),
		samples:     make(map[string]int64),
		rows:        make(map[string]int64),
	}
}

// follow takes events over and compares with the state that caused them.
func (m *mirror) follow(events []Event, s *State) error {
	for _, event := range events {
		if err := m.hear(event); err != nil {
			return err
		}
	}
	return m.compare(s)
}

func (m *mirror) hear(event Event) error {
	switch e := event.(type) {
	case OperationAccepted:
		m.operations[e.ID] = lifecycle.Starting
	case OperationChanged:
		if m.operations[e.ID] != e.From {
			return fmt.Errorf("%+v, but it was %s", e, m.operations[e.ID])
		}
		if e.From != e.To && !lifecycle.CanGo(e.From, e.To) {
			return fmt.Errorf("%+v is no step of a life", e)
		}
		m.operations[e.ID], m.suspended[e.ID] = e.To, e.Suspended
	case ControllerAssigned:
		if e.Epoch <= m.epochs[e.ID] {
			return fmt.Errorf("%+v after epoch %d", e, m.epochs[e.ID])
		}
		m.epochs[e.ID] = e.Epoch
	case DemandChanged:
		m.pending[fmt.Sprintf("%s/%s/%d", e.ID, e.Task, e.Group)] = e.Pending
	case AllocationsStarted:
		for _, a := range e.Allocations {
			if m.allocations[a.GetJobId()] != nil {
				return fmt.Errorf("job %s was started twice", a.GetJobId())
			}
			m.allocations[a.GetJobId()] = a
		}
	case StopsOrdered:
		for _, a := range e.Allocations {
			was := m.allocations[a.GetJobId()]
			before := was.GetStop()
			// One that was held is told, or replaced, and keeps its deadline.
			onward := before.GetHeldUntil() != nil && (a.GetStop().GetHeldUntil() == nil || a.GetReplaced() && !was.GetReplaced()) && a.GetStop().Deadline().Equal(before.Deadline())
			if before != nil && !onward && !a.GetStop().Deadline().Before(before.Deadline()) {
				return fmt.Errorf("job %s was ordered to stop at %v, and then later, at %v", a.GetJobId(), before.Deadline(), a.GetStop().Deadline())
			}
			m.allocations[a.GetJobId()] = a
		}
	case AllocationsEnded:
		for _, ended := range e.Ended {
			if m.allocations[ended.Allocation.GetJobId()] == nil {
				return fmt.Errorf("job %s ended, but did not run", ended.Allocation.GetJobId())
			}
			if f, a := ended.Finished, ended.Allocation; f.GetGrantTerm() != a.GetGrantTerm() || f.GetGrantIndex() != a.GetGrantIndex() {
				return fmt.Errorf("job %s ended with token %d.%d, granted with %d.%d", a.GetJobId(), f.GetGrantTerm(), f.GetGrantIndex(), a.GetGrantTerm(), a.GetGrantIndex())
			}
			if err := m.account(e.Operation, ended); err != nil {
				return err
			}
			m.learn(e.Operation, ended)
			delete(m.allocations, ended.Allocation.GetJobId())
		}
	case OperationArchived:
		if !m.operations[e.ID].Terminal() {
			return fmt.Errorf("%+v, but it is %s", e, m.operations[e.ID])
		}
		delete(m.operations, e.ID)
		delete(m.suspended, e.ID)
		delete(m.epochs, e.ID)
		for _, counts := range []map[string]int64{m.pending, m.samples, m.rows} {
			maps.DeleteFunc(counts, func(key string, _ int64) bool { return strings.HasPrefix(key, string(e.ID)+"/") })
		}
		delete(m.lost, e.ID)
		delete(m.saved, e.ID)
	case NodeRemoved:
		delete(m.nodes, e.ID)
	case NodeChanged:
		m.nodes[e.ID] = e
	}
	return nil
}

// account counts what the end of a job cost.
func (m *mirror) account(id scheduling.OperationID, e Ended) error {
	f, stop := e.Finished, m.allocations[e.Allocation.GetJobId()].GetStop()
	if f.GetStop() != stop {
		return fmt.Errorf("job %s ended under order %v, was given %v", f.GetJobId(), f.GetStop(), stop)
	}
	switch {
	case f.GetAcknowledged() || f.GetState() == "completed" && stop.Interrupted():
		m.saved[id]++
	case f.GetRerun():
		return fmt.Errorf("job %s is to run again and was not interrupted", f.GetJobId())
	case f.GetState() == "aborted":
		m.lost[id]++
	}
	return nil
}

// learn counts what a job that ended taught and read.
func (m *mirror) learn(id scheduling.OperationID, e Ended) {
	key := fmt.Sprintf("%s/%s", id, e.Finished.GetTask())
	if e.Finished.GetSample() != nil {
		m.samples[key]++
	}
	if e.Finished.GetState() == "completed" && !e.Finished.GetRerun() {
		m.rows[key] += e.Finished.GetInput().GetRows()
	}
}

// compareWork compares what was learned and read, each once.
func (m *mirror) compareWork(o *statepb.Operation) error {
	for _, t := range o.GetTasks() {
		key := fmt.Sprintf("%s/%s", o.GetId(), t.GetName())
		if got := t.GetMemory().GetSampleCount(); got != m.samples[key] {
			return fmt.Errorf("%s: %d samples, events say %d", key, got, m.samples[key])
		}
		if got := t.GetInput().GetRows(); got != m.rows[key] {
			return fmt.Errorf("%s: %d rows, events say %d", key, got, m.rows[key])
		}
	}
	return nil
}

// compareDemand compares what is pending of an operation that runs, by group.
func (m *mirror) compareDemand(id scheduling.OperationID, state lifecycle.State, s *State) error {
	if state != lifecycle.Running {
		return nil
	}
	told := make(map[string]int64)
	for key, pending := range m.pending {
		if strings.HasPrefix(key, string(id)+"/") && pending != 0 {
			told[key] = pending
		}
	}
	wants := make(map[string]int64)
	for _, d := range s.Demand(id) {
		if d.Pending != 0 {
			wants[fmt.Sprintf("%s/%s/%d", id, d.Task, d.Group)] = d.Pending
		}
	}
	if !maps.Equal(told, wants) {
		return fmt.Errorf("operation %s: pending %v, events say %v", id, wants, told)
	}
	return nil
}

func (m *mirror) compare(s *State) error {
	operations := make(map[scheduling.OperationID]lifecycle.State)
	for o := range s.Operations() {
		id := scheduling.OperationID(o.GetId())
		state, err := lifecycle.ParseState(o.GetState())
		if err != nil {
			return err
		}
		operations[id] = state
		if o.GetSuspended() != m.suspended[id] {
			return fmt.Errorf("operation %s: suspended %t, events say %t", id, o.GetSuspended(), m.suspended[id])
		}
		if got := o.GetAssignment().GetEpoch(); got != m.epochs[id] {
			return fmt.Errorf("operation %s: epoch %d, events say %d", id, got, m.epochs[id])
		}
		var lost, saved int64
		for _, w := range o.GetWaste() {
			lost, saved = lost+w.GetJobs(), saved+w.GetSavedJobs()
		}
		if lost != m.lost[id] || saved != m.saved[id] {
			return fmt.Errorf("operation %s: %d jobs lost, %d saved, events say %d and %d", id, lost, saved, m.lost[id], m.saved[id])
		}
		if err := m.compareDemand(id, state, s); err != nil {
			return err
		}
		if err := m.compareWork(o); err != nil {
			return err
		}
	}
	if !maps.Equal(operations, m.operations) {
		return fmt.Errorf("operations %v, events say %v", operations, m.operations)
	}
	for _, a := range s.Allocations() {
		if m.allocations[a.GetJobId()] != a {
			return fmt.Errorf("job %s runs, events say otherwise", a.GetJobId())
		}
	}
	if got := s.Counts().Allocations; got != len(m.allocations) {
		return fmt.Errorf("%d jobs run, events say %d", got, len(m.allocations))
	}
	for _, n := range s.Nodes() {
		want := NodeChanged{ID: scheduling.NodeID(n.GetId()), State: n.GetState(), Incarnation: n.GetIncarnation()}
		if m.nodes[want.ID] != want {
			return fmt.Errorf("node %+v, events say %+v", want, m.nodes[want.ID])
		}
	}
	return nil
}
