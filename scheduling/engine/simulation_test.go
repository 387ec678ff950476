package engine_test

import (
	"fmt"
	"maps"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/invarianttest"
	"weir/scheduling/resource"
)

var begin = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// simulation drives an engine, and a twin with the same events, and keeps what
// the replicated state would: pending jobs, allocations, starts in flight.
type simulation struct {
	engine, twin *engine.Engine
	now          time.Time
	nodes        map[scheduling.NodeID]bool
	operations   map[scheduling.OperationID]bool
	pending      map[taskKey]int64
	running      map[scheduling.JobID]bool
	inFlight     []engine.Start
	// ordered are preemptions of which nobody knows yet whether they are committed,
	// leaving jobs have been told to go, or are about to be.
	ordered []engine.Preempt
	leaving map[scheduling.JobID]bool
	jobs    int
	// pressed draws things that are all in need of the same.
	pressed bool
}

type taskKey struct {
	operation scheduling.OperationID
	task      scheduling.TaskName
	group     int64
}

func keyOf(s engine.Start) taskKey { return taskKey{s.Operation, s.Task, s.Group} }

func newEngine(t interface{ Fatal(...any) }) *engine.Engine {
	e, err := engine.New(engine.Default())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// both gives the same event to engine and twin, which must agree.
func (s *simulation) both(t *rapid.T, event func(*engine.Engine) error) error {
	err, twin := event(s.engine), event(s.twin)
	if fmt.Sprint(err) != fmt.Sprint(twin) {
		t.Fatalf("equal events give %v and %v", err, twin)
	}
	return err
}

// must is both for an event that cannot fail.
func (s *simulation) must(t *rapid.T, event func(*engine.Engine) error) {
	if err := s.both(t, event); err != nil {
		t.Fatal(err)
	}
}

var (
	drawNode      = rapid.Map(rapid.IntRange(0, 4), func(i int) scheduling.NodeID { return scheduling.NodeID(fmt.Sprint("n", i)) })
	drawPool      = rapid.SampledFrom([]scheduling.PoolName{"a", "b", "c", "d"})
	drawParent    = rapid.SampledFrom([]scheduling.PoolName{scheduling.RootPool, "a", "b", "c", "d"})
	drawOperation = rapid.Map(rapid.IntRange(0, 6), func(i int) scheduling.OperationID { return scheduling.OperationID(fmt.Sprint("o", i)) })
	drawTask      = rapid.SampledFrom([]scheduling.TaskName{"map", "reduce"})
	drawGroup     = rapid.SampledFrom([]int64{0, 0, 0, 5, 20})
	drawTags      = rapid.SampledFrom([][]string{nil, {"gpu"}, {"old"}, {"gpu", "old"}})
	drawFilter    = rapid.SampledFrom([]string{"", "", "", "gpu", "!gpu", "gpu & !old"})
	drawWeight    = rapid.SampledFrom([]float64{0, 0.5, 1, 1, 1, 4})
)

func (s *simulation) drawAmounts(t *rapid.T, most int64) resource.Amounts {
	if s.pressed {
		return resource.Amounts{UserSlots: rapid.Int64Range(max(1, most/4), max(most/2, 3)).Draw(t, "slots"), Memory: rapid.Int64Range(0, most/4).Draw(t, "memory")}
	}
	return resource.Amounts{
		UserSlots: rapid.Int64Range(1, most).Draw(t, "slots"),
		CPU:       resource.Hundredths(100 * rapid.Int64Range(0, most).Draw(t, "cpu")),
		Memory:    rapid.Int64Range(0, 4*most).Draw(t, "memory"),
		GPU:       rapid.Int64Range(0, most/4).Draw(t, "gpu"),
	}
}

func newSimulation(t *rapid.T) *simulation {
	return &simulation{
		engine: newEngine(t), twin: newEngine(t), now: begin,
		nodes:      map[scheduling.NodeID]bool{},
		operations: map[scheduling.OperationID]bool{},
		pending:    map[taskKey]int64{},
		running:    map[scheduling.JobID]bool{},
		leaving:    map[scheduling.JobID]bool{},
	}
}

// repeat plays events in any order, those given besides the usual ones, with all
// invariants after each.
func (s *simulation) repeat(t *rapid.T, more map[string]func(*rapid.T)) {
	events := map[string]func(*rapid.T){
		"set node":          s.setNode,
		"add operation":     s.addOperation,
		"set operation":     s.setOperation,
		"demand":            s.demand,
		"gang":              s.setGang,
		"tick":              s.tick,
		"heartbeat":         s.heartbeat,
		"another heartbeat": s.heartbeat,
		"commit":            s.commit,
		"reject":            s.reject,
		"finish":            s.finish,
		"leave":             s.leave,
		"leave for a user":  s.leaveForAUser,
		"stay":              s.stay,
		"": func(t *rapid.T) {
			if err := invarianttest.Check(s.engine); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(s.engine.Snapshot(), s.twin.Snapshot()) {
				t.Fatalf("equal events give\n%+v and\n%+v", s.engine.Snapshot(), s.twin.Snapshot())
			}
		},
	}
	maps.Copy(events, more)
	t.Repeat(events)
}

func TestSimulation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t)
		// Most stories begin with a cluster that has something to do.
		if rapid.IntRange(0, 3).Draw(t, "empty") > 0 {
			s.setTree(t)
			for range 3 {
				s.setNode(t)
				s.addOperation(t)
			}
			s.tick(t)
		}
		s.repeat(t, map[string]func(*rapid.T){
			"remove node":      s.removeNode,
			"set pool":         s.setPool,
			"set tree":         s.setTree,
			"remove pool":      s.removePool,
			"remove operation": s.removeOperation,
			"found allocation": s.foundAllocation,
		})
	})
}
