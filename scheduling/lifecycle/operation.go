package lifecycle

import "slices"

// The types of operations.
const (
	// Vanilla is the type of operations that run commands of their tasks.
	Vanilla = "vanilla"
	// Map is the type of operations whose jobs each read a part of an input.
	Map = "map"
)

// State is the state of an operation. Values are on disk: append new ones at the end, never
// reorder or reuse one.
type State uint8

// The states of an operation, in the order in which it goes through them.
const (
	// None is the state of an operation that does not exist.
	None State = iota
	// Starting: the specification was valid, and the operation is recorded.
	Starting
	// WaitingForAgent: no replica controls the operation yet.
	WaitingForAgent
	// Initializing: its controller takes it over.
	Initializing
	// Preparing: its controller determines what work there is.
	Preparing
	// Pending: prepared, but a pool on its path is at its limit of running operations.
	Pending
	// Materializing: its controller defines tasks and their demand.
	Materializing
	// Running: jobs are scheduled.
	Running
	// Completing: no work is left, or the user ended the operation; jobs are stopped.
	Completing
	// Completed is final: the work is done.
	Completed
	// Aborting: a user aborted it; jobs are stopped.
	Aborting
	// Aborted is final.
	Aborted
	// Failing: an error or a limit ended it; jobs are stopped.
	Failing
	// Failed is final.
	Failed

	stateCount = iota
)

var stateNames = []string{
	None:            "none",
	Starting:        "starting",
	WaitingForAgent: "waiting_for_agent",
	Initializing:    "initializing",
	Preparing:       "preparing",
	Pending:         "pending",
	Materializing:   "materializing",
	Running:         "running",
	Completing:      "completing",
	Completed:       "completed",
	Aborting:        "aborting",
	Aborted:         "aborted",
	Failing:         "failing",
	Failed:          "failed",
}

// next lists the transitions from each state. An operation that is Completing may still be aborted
// or fail, because its result is not committed. Aborting leads only to Aborted, and Failing only to
// Failed.
var next = [stateCount][]State{
	None:            {Starting},
	Starting:        {WaitingForAgent, Aborting, Failing},
	WaitingForAgent: {Initializing, Aborting, Failing},
	Initializing:    {Preparing, Aborting, Failing},
	Preparing:       {Pending, Aborting, Failing},
	Pending:         {Materializing, Aborting, Failing},
	Materializing:   {Running, Aborting, Failing},
	Running:         {Completing, Aborting, Failing},
	Completing:      {Completed, Aborting, Failing},
	Completed:       {},
	Aborting:        {Aborted},
	Aborted:         {},
	Failing:         {Failed},
	Failed:          {},
}

// CanGo reports whether an operation may change from one state to another. No state changes to
// itself.
func CanGo(from, to State) bool {
	return from.valid() && slices.Contains(next[from], to)
}

// States returns every state, None first.
func States() []State {
	all := make([]State, stateCount)
	for i := range all {
		all[i] = State(i)
	}
	return all
}

// InProgress reports whether the operation exists and has not ended.
func (s State) InProgress() bool { return s.valid() && s != None && !s.Terminal() }

// Finishing reports whether the operation is about to reach a final state.
func (s State) Finishing() bool { return s == Completing || s == Aborting || s == Failing }

// Terminal reports whether the operation has ended.
func (s State) Terminal() bool { return s == Completed || s == Aborted || s == Failed }

// CountsAsRunning reports whether the operation counts against the limits of running operations of
// its pools: from its admission until it has ended (F.16).
func (s State) CountsAsRunning() bool {
	return s == Materializing || s == Running || s == Completing ||
		s == Aborting || s == Failing
}

// String returns the name of the state in the API, such as "waiting_for_agent".
func (s State) String() string { return nameOf(stateNames, s) }

// ParseState returns the state with this name.
func ParseState(name string) (State, error) {
	return numberOf[State](stateNames, name, "operation state", stateNames[Starting:]...)
}

func (s State) valid() bool { return int(s) < stateCount }
