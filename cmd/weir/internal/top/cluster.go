package top

import (
	"context"
	"time"
)

// Cluster answers what the view asks.
type Cluster interface {
	// Fetch answers a question. It fills in the answer except for the question and the error.
	Fetch(ctx context.Context, q Question) (Answer, error)
	// Do makes a change.
	Do(ctx context.Context, c Change) error
}

// about is what a question is about.
type about uint8

const (
	aboutCluster about = iota
	aboutPools
	aboutOperations
	aboutOperation
	aboutJobs
	aboutNodes
	aboutNodeJobs
	aboutEvents
	aboutOutput
	// aboutReasons asks why the operations IDs wait, aboutWhy for all that is known of one thing.
	aboutReasons
	aboutWhy
	aboutRights
	aboutLoss
)

// Question is one short call, or a few of them.
type Question struct {
	About about
	// page is the page that the answer is for, 0 for the whole view.
	page int
	// Tree and Pool, Operation, Job and Node say of which; empty: of all.
	Tree, Pool, Operation, Job, Node string
	// Stream is stdout or stderr.
	Stream string
	// Ended includes operations that have ended.
	Ended bool
	// After and Offset are where the next part of a list or an output begins.
	After  string
	Offset int64
	// Index and Position are the place of the first event; Index 0: Since.
	Index    uint64
	Position uint32
	Since    time.Time
	// IDs are operations.
	IDs []string
	// Change is the change whose loss is asked for.
	Change Change
}

// Answer is what a Cluster answers to a Question: the fields that belong to what it is about.
type Answer struct {
	Question Question
	Err      error
	// Unreachable says that Err is of the connection, and not a refusal.
	Unreachable bool
	// Time is when the answer arrived.
	Time time.Time

	Cluster    Summary
	Pools      []Pool
	Operations []Operation
	Operation  Detail
	Jobs       []Job
	Nodes      []Node
	Events     []Event
	// Text is output, or lines that explain.
	Text []byte
	// More says that the list goes on at After, or Offset, or Index and Position.
	More     bool
	After    string
	Offset   int64
	Index    uint64
	Position uint32
	// End says that an output has been read to its end; Note why there is none, or what is not shown.
	End  bool
	Note string
	// Reasons are by operation.
	Reasons map[string]string
	Allowed bool
	Loss    Loss
}

// Summary is the state of the cluster in a line.
type Summary struct {
	ID, Leader                         string
	NodesOnline, NodesOffline          int64
	JobsRunning, JobsPending           int64
	CPU, CPUTotal, Memory, MemoryTotal float64
	Problems                           []string
	User                               string
	Operator                           bool
}

// Pool is a pool, or a tree if Depth is 0 and Name empty.
type Pool struct {
	Tree, Name string
	Depth      int
	// Known says whether the leader's scheduler told the shares, as parts of the tree.
	Known                           bool
	Usage, Fair, Demand, Guarantee  float64
	Claimed                         float64
	Dominant                        string
	Weight                          float64
	Running, MaxRunning, Operations int64
	// Starvation is empty, starving or aggressively_starving.
	Starvation string
	BelowFair  bool
	// Below is since when it has been below its share, if it starves or is below.
	Below time.Time
	// Volume and Capacity are of integral guarantees, in seconds of the whole tree.
	Volume, Capacity float64
}

// Progress counts jobs.
type Progress struct {
	Total, Pending, Running, Completed, Failed, Aborted int64
}

// Operation is a row of the list of operations.
type Operation struct {
	ID, Alias, Title, User, Pool, State string
	Suspended                           bool
	// Pending is why it is not admitted, Failure why it failed, Hidden why the caller does not see more.
	Pending, Failure, Hidden string
	Progress                 Progress
	Start, Finish            time.Time
	Known                    bool
	Usage, Fair, Demand      float64
}

// Detail is an operation with its tasks.
type Detail struct {
	Operation
	Type  string
	Tasks []Task
	// Alerts say what its owner can do better.
	Alerts []string
}

// Task is a task of an operation.
type Task struct {
	Name      string
	Progress  Progress
	Resources string
	// Reserve is the memory that is held for a job, in bytes.
	Reserve int64
}

// Job is a row of a list of jobs.
type Job struct {
	ID, Operation, Task, Node, State string
	Cookie, Attempt                  int64
	// Why is why it has ended, or has to leave; Deadline until when.
	Why           string
	Deadline      time.Time
	Start, Finish time.Time
	// MaxMemory and Reserve are in bytes.
	MaxMemory, Reserve int64
	Resources          string
	// Called is what its operation is called, User and Pool are that one's, on the page of a node.
	Called, User, Pool string
}

// Node is a row of the list of nodes.
type Node struct {
	ID, State, Host, Tree, Tags, Version string
	Caveat                               string
	Drained                              bool
	// Drain is by whom and why it gets no more jobs.
	Drain     string
	Jobs      int64
	Heartbeat time.Time
	// In cores and bytes.
	CPU, CPUTotal, Memory, MemoryTotal, MemoryUsed float64
	GPU, GPUTotal                                  int64
}

// Event is something that happened.
type Event struct {
	Index                uint64
	Position             uint32
	Time                 time.Time
	Kind, Text           string
	Operation, Job, Node string
	// Called is what the operation is called; empty if it has no title and no alias.
	Called string
}

// Verb is what a Change does.
type Verb string

// What can be done to the selected thing.
const (
	Abort     Verb = "abort"
	Interrupt Verb = "interrupt"
	Drain     Verb = "drain"
	Undrain   Verb = "undrain"
)

// Change is something to do to one thing: one of Operation, Job and Node. Title is how people know it.
type Change struct {
	Verb                 Verb
	Operation, Job, Node string
	Title                string
}

// Loss is what a change ends.
type Loss struct {
	// Users are the owners of the jobs, in order.
	Users []string
	Jobs  int64
	// More says that there are more jobs, and perhaps users, than were counted.
	More bool
	// Ran is how long the jobs have run together.
	Ran time.Duration
}
