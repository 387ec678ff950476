package top

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"weir/cmd/weir/internal/figures"
	"weir/messages/apipb"
)

// noon is when the tests look.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// desk is a Model with a cluster that answers at once, and someone who presses keys.
type desk struct {
	t       reporter
	model   *Model
	now     time.Time
	cluster func(q Question) (Answer, error)
	// silent: nothing is answered; waiting are the questions that are open then.
	silent  bool
	waiting []Question
	asked   []Question
	made    []Change
	quit    bool
}

// reporter is a test.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

func newDesk(t reporter, cfg Config, w, h int) *desk {
	if cfg.Interval == 0 {
		cfg.Interval = 2 * time.Second
	}
	d := &desk{t: t, model: New(cfg, noon), now: noon, cluster: contended}
	d.send(Resize{w, h})
	return d
}

// send tells the model something, and answers what it asks for.
func (d *desk) send(message any) {
	d.t.Helper()
	for todo := d.model.Update(message); len(todo) > 0; todo = todo[1:] {
		switch e := todo[0].(type) {
		case Question:
			d.asked = append(d.asked, e)
			if d.silent {
				d.waiting = append(d.waiting, e)
				continue
			}
			todo = append(todo, d.model.Update(d.answer(e))...)
		case Change:
			d.made = append(d.made, e)
		case Quit:
			d.quit = true
		}
	}
}

func (d *desk) answer(q Question) Answer {
	a, err := d.cluster(q)
	a.Question, a.Err, a.Time = q, err, d.now
	a.Unreachable = errors.Is(err, errAway)
	return a
}

// errAway is that nobody answers.
var errAway = errors.New("cluster unreachable after 5s; r1:7701: connection refused")

func (d *desk) press(keys ...string) {
	d.t.Helper()
	for _, key := range keys {
		d.send(Key(key))
	}
}

// after lets time pass, in steps as the shell does.
func (d *desk) after(span time.Duration) {
	d.t.Helper()
	for end := d.now.Add(span); d.now.Before(end); {
		d.now = d.now.Add(500 * time.Millisecond)
		d.send(Tick(d.now))
	}
}

// screen returns what is seen, without colours. It has the size of the screen.
func (d *desk) screen() string {
	d.t.Helper()
	lines := strings.Split(ansi.Strip(d.model.View()), "\n")
	if len(lines) != d.model.height {
		d.t.Errorf("%d lines on a screen of %d:\n%s", len(lines), d.model.height, strings.Join(lines, "\n"))
	}
	for i, line := range lines {
		if w := ansi.StringWidth(line); w > d.model.width {
			d.t.Errorf("line %d takes %d columns of %d: %q", i, w, d.model.width, line)
		}
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// has fails the test unless the screen shows each text.
func (d *desk) has(texts ...string) {
	d.t.Helper()
	screen := d.screen()
	for _, text := range texts {
		if !strings.Contains(screen, text) {
			d.t.Errorf("the screen does not show %q:\n%s", text, screen)
		}
	}
}

// lacks fails the test if the screen shows one of the texts.
func (d *desk) lacks(texts ...string) {
	d.t.Helper()
	screen := d.screen()
	for _, text := range texts {
		if strings.Contains(screen, text) {
			d.t.Errorf("the screen shows %q:\n%s", text, screen)
		}
	}
}

// id returns an id that looks like one.
func id(n int) string { return fmt.Sprintf("01a2240f-2388-7cb1-92f5-%012d", n) }

// contended answers as a cluster in which three pools want more than there is: one bursts, one is relaxed
// and starves, one has a service that drains, jobs have failed, and a node is dead.
func contended(q Question) (Answer, error) {
	var a Answer
	switch q.About {
	case aboutCluster:
		a.Cluster = Summary{ID: "berlin", Leader: "r2", NodesOnline: 3, NodesOffline: 1, JobsRunning: 42, JobsPending: 118, CPU: 46, CPUTotal: 48,
			Memory: 70 << 30, MemoryTotal: 96 << 30, Problems: []string{"node n3 is offline for 3m2s"}, User: "ann", Operator: true}
	case aboutPools:
		a.Pools = contendedPools()
	case aboutOperations:
		for _, op := range contendedOperations() {
			if (q.Pool == "" || q.Pool == op.Pool) && (q.Ended || op.Finish.IsZero()) {
				a.Operations = append(a.Operations, op)
			}
		}
	case aboutOperation:
		i := slices.IndexFunc(contendedOperations(), func(o Operation) bool { return o.ID == q.Operation })
		a.Operation = Detail{Operation: contendedOperations()[i], Type: "vanilla", Tasks: []Task{
			{Name: "train", Progress: Progress{Total: 16, Pending: 12, Running: 4}, Resources: "4 cpu, 8 GiB memory, 1 slot", Reserve: 6 << 30},
			{Name: "evaluate", Progress: Progress{Total: 4, Completed: 1, Pending: 2, Running: 1, Failed: 2}, Resources: "1 cpu, 2 GiB memory, 1 slot", Reserve: 2 << 30},
		}, Alerts: []string{"jobs of task evaluate use 20% of their memory_limit: set it to 512 MiB"}}
		a.Reasons = map[string]string{q.Operation: contendedReason}
	case aboutJobs:
		a.Jobs = contendedJobs(q.Operation)
	case aboutNodeJobs:
		a.Jobs = contendedJobs(id(1))
		for i := range a.Jobs {
			a.Jobs[i].Called, a.Jobs[i].User, a.Jobs[i].Pool = "train resnet", "ann", "research"
		}
	case aboutNodes:
		a.Nodes = contendedNodes()
	case aboutEvents:
		a.Index, a.Position = 120, 1
		if q.Index == 0 {
			a.Events = contendedEvents()
		}
	case aboutOutput:
		a.Text, a.Offset = []byte("epoch 1 loss 0.93\nepoch 2 loss 0.71\n"), q.Offset+36
		if q.Offset > 0 {
			a.Text, a.Offset = nil, q.Offset
		}
	case aboutReasons:
		a.Reasons = map[string]string{id(1): contendedReason}
	case aboutWhy:
		a.Text = []byte("operation " + id(1) + ", running, in pool research\n" + contendedReason + "\n  - pool research is at 18.0% of 30.0%\n  - 2 of 3 nodes are full\n")
	case aboutRights:
		a.Allowed = true
	case aboutLoss:
		a.Loss = Loss{Users: []string{"ann"}, Jobs: 5, Ran: 3*time.Hour + 20*time.Minute}
		if q.Change.Job != "" {
			a.Loss = Loss{Users: []string{"ann"}, Jobs: 1, Ran: 2 * time.Hour}
		}
	}
	return a, nil
}

const contendedReason = "pool research is below its fair share and waits for 2 jobs of pool adhoc to leave"

func contendedPools() []Pool {
	pool := func(name string, depth int, usage, fair, demand, guarantee float64, running, operations int64) Pool {
		return Pool{Tree: "default", Name: name, Depth: depth, Known: true, Usage: usage, Fair: fair, Demand: demand, Guarantee: guarantee,
			Dominant: "cpu", Weight: 1, Running: running, MaxRunning: 8, Operations: operations}
	}
	out := []Pool{
		pool("adhoc", 0, .46, .2, .9, 0, 4, 9),
		pool("prod", 0, .32, .5, .55, .4, 3, 3),
		pool("burst", 1, .2, .25, .3, .1, 1, 1),
		pool("search", 1, .12, .25, .25, .3, 2, 2),
		pool("research", 0, .18, .3, 1.4, .3, 2, 6),
	}
	out[2].Volume, out[2].Capacity = 1200, 7200
	out[3].BelowFair, out[3].Below = true, noon.Add(-40*time.Second)
	out[4].Starvation, out[4].Claimed = "starving", .04
	out[4].Below = noon.Add(-3 * time.Minute)
	out[4].Volume, out[4].Capacity = 310, 3600
	return out
}

func contendedOperations() []Operation {
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	return []Operation{
		{ID: id(1), Title: "train resnet", User: "ann", Pool: "research", State: "running", Progress: Progress{Total: 20, Pending: 14, Running: 5, Completed: 1, Failed: 2},
			Start: ago(2*time.Hour + 5*time.Minute), Known: true, Usage: .12, Fair: .2, Demand: .5},
		{ID: id(2), Alias: "*search", User: "svc", Pool: "search", State: "running", Progress: Progress{Total: 6, Running: 6}, Start: ago(26 * time.Hour), Known: true, Usage: .12, Fair: .25, Demand: .25},
		{ID: id(3), Title: "nightly etl", User: "bob", Pool: "burst", State: "running", Suspended: true, Progress: Progress{Total: 200, Completed: 57, Pending: 143}, Start: ago(40 * time.Minute), Known: true},
		{ID: id(4), Title: "sweep 12", User: "carol", Pool: "adhoc", State: "pending", Pending: "running operation limit 8 of pool adhoc reached (max_running_operation_count)",
			Progress: Progress{Total: 60, Pending: 60}, Start: ago(90 * time.Second)},
		{ID: id(5), User: "dave", Pool: "adhoc", State: "running", Hidden: "read is missing", Start: ago(10 * time.Minute)},
		{ID: id(6), Title: "import of a file that is not there", User: "bob", Pool: "prod", State: "failed", Failure: "10 jobs have failed: exited with code 3",
			Progress: Progress{Total: 3, Failed: 10, Completed: 1}, Start: ago(9 * time.Minute), Finish: ago(3 * time.Minute)},
	}
}

func contendedJobs(operation string) []Job {
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	return []Job{
		{ID: id(101), Operation: operation, Task: "train", Cookie: 0, Attempt: 1, Node: "n1", State: "running", Start: ago(2 * time.Hour), Reserve: 6 << 30},
		{ID: id(102), Operation: operation, Task: "train", Cookie: 1, Attempt: 2, Node: "n2", State: "running", Start: ago(time.Hour), Reserve: 6 << 30,
			Deadline: noon.Add(40 * time.Second), Why: "graceful_preemption"},
		{ID: id(103), Operation: operation, Task: "train", Cookie: 1, Attempt: 1, Node: "n3", State: "aborted", Start: ago(100 * time.Minute), Finish: ago(61 * time.Minute), Why: "node_offline", MaxMemory: 5 << 30},
		{ID: id(104), Operation: operation, Task: "evaluate", Cookie: 0, Attempt: 1, Node: "n1", State: "failed", Start: ago(30 * time.Minute), Finish: ago(29 * time.Minute),
			Why: "exited with code 3", MaxMemory: 400 << 20},
		{ID: id(105), Operation: operation, Task: "evaluate", Cookie: 0, Attempt: 2, Node: "n1", State: "completed", Start: ago(28 * time.Minute), Finish: ago(20 * time.Minute), MaxMemory: 410 << 20},
	}
}

func contendedNodes() []Node {
	node := func(name string, jobs int64, cpu, memory float64) Node {
		return Node{ID: name, State: "online", Host: "10.0.0." + name[1:], Tree: "default", Tags: "ssd", Jobs: jobs, Heartbeat: noon.Add(-800 * time.Millisecond),
			CPU: cpu, CPUTotal: 16, Memory: memory * (1 << 30), MemoryTotal: 32 << 30, MemoryUsed: memory / 2 * (1 << 30)}
	}
	out := []Node{node("n1", 18, 16, 24), node("n2", 16, 16, 30), node("n3", 0, 0, 0), node("n4", 8, 14, 16)}
	out[2].State, out[2].Heartbeat = "offline", noon.Add(-182*time.Second)
	out[3].Drained, out[3].Drain = true, "drained by ops: disk swap"
	return out
}

func contendedEvents() []Event {
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	names := figures.IDs{Names: map[string]*apipb.OperationName{id(1): {Title: "train resnet", User: "ann", Pool: "research"}}}
	out := []Event{
		{Index: 100, Time: ago(182 * time.Second), Kind: "node_offline", Node: "n3", Text: "node n3 offline: lease expired"},
		{Index: 110, Time: ago(100 * time.Second), Kind: "job_preempted", Operation: id(1), Job: id(102), Node: "n2", Text: "job " + id(102) + " preempted on n2 (operation " + id(1) + ", task train, pool research): graceful_preemption"},
		{Index: 120, Time: ago(2 * time.Second), Kind: "job_failed", Operation: id(1), Job: id(104), Node: "n1", Text: "job " + id(104) + " failed with exit code 3 after 1m0s on n1 (operation " + id(1) + ", task evaluate, pool research)"},
	}
	for i := range out {
		out[i].Text = names.In(out[i].Text)
		if out[i].Operation != "" {
			out[i].Called = "train resnet"
		}
	}
	return out
}
