// Package history is the records of a run: the answers that clients got, what witnesses saw,
// what was done to the cluster, and the state that the cluster reports at the end.
//
// Each stream is a file with one JSON object per line. Times are CLOCK_MONOTONIC_RAW in
// nanoseconds, the same clock for every process of a machine, so that intervals of different
// processes can be compared exactly.
package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"weir/scheduling"
)

// The files of a run.
const (
	ClientFile    = "clients.jsonl"
	WitnessFile   = "witness.jsonl"
	NemesisFile   = "nemesis.jsonl"
	StateFile     = "state.jsonl"
	GrantFile     = "grants.jsonl"
	AgentFile     = "agents.jsonl"
	HeldFile      = "held.jsonl"
	LeftoversFile = "leftovers.jsonl"
	LogFile       = "logs.jsonl"
	AskFile       = "asks.jsonl"
	RightsFile    = "rights.jsonl"
	DeedFile      = "deeds.jsonl"
	HashFile      = "hashes.jsonl"
	SimulatedFile = "simulated.jsonl"
)

// Outcome is what a client knows about the effect of a call.
type Outcome string

// The outcomes.
const (
	// OK: the call was acknowledged.
	OK Outcome = "ok"
	// Refused: the call was answered with an error, and nothing was done.
	Refused Outcome = "refused"
	// Unknown: there was no answer; the call may have taken effect, or may still do so.
	Unknown Outcome = "unknown"
)

// What a client can call.
const (
	Submit = "submit"
	Abort  = "abort"
)

// Call is one call of a client.
type Call struct {
	Client int    `json:"client"`
	What   string `json:"what"`
	// Mutation is the client's own id of the submission, also the operation's title.
	Mutation  string  `json:"mutation"`
	Called    int64   `json:"called"`
	Returned  int64   `json:"returned"`
	Outcome   Outcome `json:"outcome"`
	Operation string  `json:"operation,omitempty"`
	Error     string  `json:"error,omitempty"`
}

// What a witness writes.
const (
	Begin = "begin"
	Tick  = "tick"
	End   = "end"
	// Locked: another attempt held the lock of the cookie.
	Locked = "locked"
)

// Sight is one record of a witness, about a process that ran an attempt of a cookie.
type Sight struct {
	What      string `json:"what"`
	Operation string `json:"operation"`
	Task      string `json:"task"`
	Cookie    int    `json:"cookie"`
	Job       string `json:"job"`
	Pid       int    `json:"pid"`
	At        int64  `json:"at"`
}

// What is done to a cluster.
const (
	Inject = "inject"
	Heal   = "heal"
	Leads  = "leads"
	// Stall: the machine's disk hung, and a replica stopped because of it.
	Stall = "stall"
	// Unread: no replica has the rest of the event log.
	Unread = "unread"
	// Finish means that the final state has been read completely.
	Finish = "finish"
)

// Act is one record of the nemesis.
type Act struct {
	What string `json:"what"`
	At   int64  `json:"at"`
	// Fault, Kind and Scope identify the fault. They are set with Inject and Heal.
	Fault   int      `json:"fault,omitempty"`
	Kind    string   `json:"kind,omitempty"`
	Scope   string   `json:"scope,omitempty"`
	Targets []string `json:"targets,omitempty"`
	// Leader and Term are the new leader and its term. They are set with Leads.
	Leader string `json:"leader,omitempty"`
	Term   uint64 `json:"term,omitempty"`
	// Error is why the fault did not take effect, or why healing failed.
	Error string `json:"error,omitempty"`
}

// Operation is one operation in its final state.
type Operation struct {
	ID string `json:"id"`
	// Mutation is the operation's title.
	Mutation string `json:"mutation"`
	// User is who started it.
	User   string  `json:"user,omitempty"`
	State  string  `json:"state"`
	Events []Event `json:"events"`
	Tasks  []Task  `json:"tasks"`
	Jobs   []Job   `json:"jobs"`
}

// Event is one step of an operation's life.
type Event struct {
	State string `json:"state"`
	Note  string `json:"note,omitempty"`
	Index uint64 `json:"index"`
}

// Task is the counters of a task.
type Task struct {
	Name      string `json:"name"`
	Total     int64  `json:"total"`
	Pending   int64  `json:"pending"`
	Running   int64  `json:"running"`
	Completed int64  `json:"completed"`
	Failed    int64  `json:"failed"`
	Aborted   int64  `json:"aborted"`
}

// Job is one attempt of a cookie as the cluster counted it.
type Job struct {
	ID      string `json:"id"`
	Task    string `json:"task"`
	Cookie  int    `json:"cookie"`
	Attempt int    `json:"attempt"`
	Node    string `json:"node"`
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	// Token is the token of its grant, zero if unknown.
	Token scheduling.Token `json:"token,omitzero"`
}

// Grant is an attempt seen while it ran, with the token of its grant.
type Grant struct {
	Operation string `json:"operation"`
	Task      string `json:"task"`
	Cookie    int    `json:"cookie"`
	Attempt   int    `json:"attempt"`
	Job       string `json:"job"`
	Node      string `json:"node"`

	Token scheduling.Token `json:"token"`
}

// What an agent writes to its journal.
const (
	// Woke: a process of the agent begins.
	Woke = "woke"
	// Seen: a new highest token.
	Seen = "seen"
	// Granted: the agent is about to follow an order to start a job.
	Granted = "granted"
	// Starting: a job is about to get processes. Started: its command runs. Exited: all its
	// processes are gone.
	Starting = "starting"
	Started  = "started"
	Exited   = "exited"
	// Unstarted: a job that was granted never got a process.
	Unstarted = "unstarted"
	// Rejected: a leader's message was refused.
	Rejected = "rejected"
)

// Entry is one record of an agent's journal.
type Entry struct {
	Node string `json:"node"`
	What string `json:"what"`

	Operation string `json:"operation,omitempty"`
	Task      string `json:"task,omitempty"`
	Cookie    int    `json:"cookie,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`
	Job       string `json:"job,omitempty"`
	// State is the job's final state. It is set with Exited.
	State string `json:"state,omitempty"`

	// Token is the token seen, rejected or granted. Plan is the token of the plan with the
	// grant. Seen is the highest token before the rejected one.
	Token scheduling.Token `json:"token,omitzero"`
	Plan  scheduling.Token `json:"plan,omitzero"`
	Seen  scheduling.Token `json:"seen,omitzero"`

	// Reason is why the message was rejected; From is its sender.
	Reason string `json:"reason,omitempty"`
	From   string `json:"from,omitempty"`
}

// Held is something that a node or a pool still has when every operation has ended.
type Held struct {
	Who  string `json:"who"`
	What string `json:"what"`
}

// Leftover is something that should be gone.
type Leftover struct {
	// When is "quiet", after every operation has ended, or "stopped", after the cluster has
	// stopped.
	When string `json:"when"`
	What string `json:"what"`
}

// LogLine is an unexpected log line of a process, or its unexpected exit.
type LogLine struct {
	Member string `json:"member"`
	Text   string `json:"text"`
}

// StateHash is the hash of a replica's state at an index of the log. They are read at the end of a run, until
// all replicas have told one for the same index.
type StateHash struct {
	Replica string `json:"replica"`
	// Index is 0 if the replica has told none.
	Index uint64 `json:"index,omitempty"`
	Hash  string `json:"hash,omitempty"`
}

// SimulatedTask is the name of tasks of simulated nodes: no witness sees their jobs.
const SimulatedTask = "simulated"

// SimulatedNode is a simulated node at the end.
type SimulatedNode struct {
	Name   string `json:"name"`
	Online bool   `json:"online"`
}

// Run is everything recorded about a run.
type Run struct {
	Calls      []Call
	Sights     []Sight
	Acts       []Act
	Operations []Operation
	Grants     []Grant
	// Entries are the journal entries of all agents. The entries of one agent are in the order of
	// its journal.
	Entries   []Entry
	Held      []Held
	Leftovers []Leftover
	LogLines  []LogLine
	Asks      []Ask
	// Turns are the changes of rights. Those of one way are made one after another.
	Turns []Turn
	Deeds []Deed
	// Hashes are those of all replicas, at least once each.
	Hashes []StateHash
	// Simulated are all simulated nodes.
	Simulated []SimulatedNode
}

// maxLine bounds one line: an operation with all its jobs.
const maxLine = 16 << 20

// Complete says whether the cluster's state at the end is known.
func (r *Run) Complete() bool {
	return slices.ContainsFunc(r.Acts, func(a Act) bool { return a.What == Finish })
}

// Read reads a stream. It ignores a last line that was cut off when its writer died. Any other line
// that is not a T is an error, which gives the number of the line.
func Read[T any](r io.Reader) ([]T, error) {
	var list []T
	reader := bufio.NewReaderSize(r, 1<<16)
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, fmt.Errorf("read history: %w", err)
		case len(line) > maxLine:
			return nil, fmt.Errorf("read history: line %d has %d bytes, the limit is %d", number, len(line), maxLine)
		}
		var item T
		if err := json.Unmarshal(line, &item); err != nil {
			return nil, fmt.Errorf("read history: line %d: %w", number, err)
		}
		list = append(list, item)
	}
}
