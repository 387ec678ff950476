package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/statepb"
	"weir/scheduling/resource"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func registration(incarnation uint64, jobs ...*actorpb.HeldJob) *actorpb.RegisterAgent {
	return &actorpb.RegisterAgent{
		Node: "n1", Incarnation: incarnation, Session: 20, Jobs: jobs, Tags: []string{"ssd"}, Version: "1",
		Resources: statepb.NewResources(resource.Amounts{UserSlots: 4, CPU: 400, Memory: 1 << 30}),
	}
}

func granted(job string, incarnation, index uint64) Granted {
	return Granted{
		Allocation: &statepb.Allocation{
			JobId: job, OperationId: "op", Task: "t", Cookie: 3, NodeIncarnation: incarnation, GrantTerm: 2, GrantIndex: index,
		},
	}
}

func held(job, phase string) *actorpb.HeldJob { return &actorpb.HeldJob{JobId: job, Phase: phase} }

func TestCompare(t *testing.T) {
	aborting := granted("a", 7, 10)
	aborting.Stop = &statepb.StopOrder{Reason: "operation_aborted"}

	tests := map[string]struct {
		held    []*actorpb.HeldJob
		granted []Granted
		want    string
	}{
		"a granted job that the agent lacks is started":      {granted: []Granted{granted("a", 7, 10)}, want: "+a"},
		"a job that both know runs on":                       {held: []*actorpb.HeldJob{held("a", "running")}, granted: []Granted{granted("a", 7, 10)}},
		"a job that nobody granted is ended":                 {held: []*actorpb.HeldJob{held("x", "running")}, want: "-x unconfirmed"},
		"an ended job waits for its controller":              {held: []*actorpb.HeldJob{held("x", "ended")}},
		"jobs of an aborting operation are ended":            {held: []*actorpb.HeldJob{held("a", "running")}, granted: []Granted{aborting}, want: "-a operation_aborted"},
		"a job to end that never began is started and ended": {granted: []Granted{aborting}, want: "+a -a operation_aborted"},
		"an ended job is not ended again":                    {held: []*actorpb.HeldJob{held("a", "ended")}, granted: []Granted{aborting}},
		"a job of an earlier life of the node has vanished":  {granted: []Granted{granted("a", 6, 10)}, want: "?a"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := NewSession(noon, DefaultTiming(), DefaultTiming().Base())
			s.Open(noon, registration(7, test.held...))
			if got := text(s.Compare(noon, test.granted)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestWhatWasToldIsSaidAgainAfterAPause(t *testing.T) {
	s := NewSession(noon, DefaultTiming(), DefaultTiming().Base())
	s.Open(noon, registration(7))
	all := []Granted{granted("a", 7, 10)}
	steps := []struct {
		at   time.Duration
		want string
	}{{0, "+a"}, {time.Second, ""}, {2 * time.Second, "+a"}, {3 * time.Second, ""}}
	for _, step := range steps {
		if got := text(s.Compare(noon.Add(step.at), all)); got != step.want {
			t.Errorf("after %s: got %q, want %q", step.at, got, step.want)
		}
	}
	all[0].Stop = &statepb.StopOrder{Reason: "operation_aborted"}
	if got := text(s.Compare(noon.Add(3*time.Second), all)); got != "+a -a operation_aborted" {
		t.Errorf("an order to end does not wait for the order to start: got %q", got)
	}
}

// A job is given time to leave; what its agent is told is the time that is left.
func TestAnInterruptedJobIsLeftAloneUntilItsDeadline(t *testing.T) {
	s := NewSession(noon, DefaultTiming(), DefaultTiming().Base())
	leaving := granted("a", 7, 10)
	leaving.Stop = &statepb.StopOrder{
		Reason: "preemption", Interruption: "preemption", Preemption: "graceful_preemption", GraceMillis: 60_000, Time: timestamppb.New(noon),
		PreemptedFor: &statepb.Beneficiary{OperationId: "hungry"},
	}
	sooner := granted("a", 7, 10)
	sooner.Stop = &statepb.StopOrder{Reason: "interruption_timeout", Interruption: "user_request", GraceMillis: 30_000, Time: timestamppb.New(noon)}
	until := func(d time.Duration) *actorpb.HeldJob {
		return &actorpb.HeldJob{JobId: "a", Phase: "aborting", Deadline: timestamppb.New(noon.Add(d))}
	}
	steps := []struct {
		story    string
		at       time.Duration
		held     *actorpb.HeldJob
		granted  Granted
		want     string
		wantLeft int64
	}{
		{"the agent is told what is left", 10 * time.Second, held("a", "running"), leaving, "-a preemption", 50_000},
		{"it is not told again at once", 11 * time.Second, held("a", "running"), leaving, "", 0},
		{"it has said nothing and is told again", 12 * time.Second, held("a", "running"), leaving, "-a preemption", 48_000},
		{"it has said that the job leaves", 20 * time.Second, until(60 * time.Second), leaving, "", 0},
		{"an earlier deadline is news", 21 * time.Second, until(60 * time.Second), sooner, "-a interruption_timeout", 9_000},
		{"also to an agent whose clock is slow", 23 * time.Second, until(60 * time.Second), sooner, "-a interruption_timeout", 7_000},
		{"it has said so", 24 * time.Second, until(30 * time.Second), sooner, "", 0},
		{"the agent ends it at the deadline", 31 * time.Second, until(30 * time.Second), sooner, "", 0},
		{"a job that is there later is ended at once", 32 * time.Second, until(30 * time.Second), sooner, "-a interruption_timeout", 0},
		{"and again", 34 * time.Second, until(30 * time.Second), sooner, "-a interruption_timeout", 0},
		{"until it has ended", 36 * time.Second, held("a", "ended"), sooner, "", 0},
	}
	s.Open(noon, registration(7))
	for i, step := range steps {
		beat := &actorpb.Heartbeat{Node: "n1", Incarnation: 7, Session: 20, Term: 3, Sequence: uint64(i + 1), Jobs: []*actorpb.HeldJob{step.held}}
		if refused := s.Heartbeat(noon.Add(step.at), 3, beat); refused != nil {
			t.Fatal(refused)
		}
		diff := s.Compare(noon.Add(step.at), []Granted{step.granted})
		if got := text(diff); got != step.want {
			t.Errorf("%s: got %q, want %q", step.story, got, step.want)
			continue
		}
		for _, order := range diff.Abort {
			if order.GetGraceMillis() != step.wantLeft || order.GetInterruption() != step.granted.Stop.GetInterruption() ||
				order.GetPreemption() != step.granted.Stop.GetPreemption() || order.GetPreemptedFor() != step.granted.Stop.GetPreemptedFor() {
				t.Errorf("%s: %v, want %d ms left of %v", step.story, order, step.wantLeft, step.granted.Stop)
			}
		}
	}
	// A new leader knows nothing but the record, and what the agent holds.
	next := NewSession(noon.Add(25*time.Second), DefaultTiming(), DefaultTiming().Base())
	next.Open(noon.Add(25*time.Second), registration(7, until(30*time.Second)))
	if got := text(next.Compare(noon.Add(25*time.Second), []Granted{sooner})); got != "" {
		t.Errorf("a new leader of an agent that knows: %q, want nothing", got)
	}
	next.Open(noon.Add(26*time.Second), registration(7, held("a", "running")))
	diff := next.Compare(noon.Add(26*time.Second), []Granted{sooner})
	if len(diff.Abort) != 1 || diff.Abort[0].GetGraceMillis() != 4000 {
		t.Errorf("a new leader of an agent that knows nothing: %v, want the 4 s that are left", diff.Abort)
	}
}

func TestLease(t *testing.T) {
	timing := DefaultTiming()
	s := NewSession(noon, timing, timing.Base())
	if s.Live(noon) {
		t.Error("a node that was not heard in this term lives")
	}
	if got := s.Expires().Sub(noon); got <= timing.Lease {
		t.Errorf("a new leader waits %s for a node, want more than the lease of %s", got, timing.Lease)
	}
	s.Open(noon, registration(7))
	later := noon.Add(4 * time.Second)
	if refused := s.Heartbeat(later, 3, &actorpb.Heartbeat{Node: "n1", Incarnation: 7, Session: 20, Term: 3, Sequence: 1}); refused != nil {
		t.Fatal(refused)
	}
	if !s.Live(later.Add(timing.Lease)) {
		t.Error("the leader gave the node up no later than the agent gives up its jobs")
	}
	if s.Live(later.Add(timing.Wait(timing.Base()))) {
		t.Error("the node lives on after the leader's wait")
	}
}

// TestSilence: a node counts as unheard a heartbeat before the end of its lease, and never because
// of a heartbeat that is a little late, however short the lease.
func TestSilence(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{
		2000 * time.Millisecond: 1500 * time.Millisecond,
		2400 * time.Millisecond: 1500 * time.Millisecond,
		3 * time.Second:         2 * time.Second,
		5 * time.Second:         4 * time.Second,
	} {
		timing := DefaultTiming()
		timing.Heartbeat, timing.Lease = time.Second, lease
		if err := timing.Validate(); err != nil {
			t.Fatal(err)
		}
		s := NewSession(noon, timing, timing.Base())
		s.Open(noon, registration(7))
		if got := s.Silent().Sub(noon); got != want {
			t.Errorf("lease %s: unheard after %s, want %s", lease, got, want)
		}
	}
}

func TestHeartbeatsThatAreNotTaken(t *testing.T) {
	tests := map[string]struct {
		heartbeat *actorpb.Heartbeat
		want      string
	}{
		"of another life of the node":        {&actorpb.Heartbeat{Incarnation: 6, Session: 20, Term: 3, Sequence: 9}, "not_registered"},
		"of an earlier process of the agent": {&actorpb.Heartbeat{Incarnation: 7, Session: 19, Term: 3, Sequence: 9}, "not_registered"},
		"of a registration in a former term": {&actorpb.Heartbeat{Incarnation: 7, Session: 20, Term: 2, Sequence: 9}, "not_registered"},
		"that was overtaken":                 {&actorpb.Heartbeat{Incarnation: 7, Session: 20, Term: 3, Sequence: 5}, "stale"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := NewSession(noon, DefaultTiming(), DefaultTiming().Base())
			s.Open(noon, registration(7))
			if refused := s.Heartbeat(noon, 3, &actorpb.Heartbeat{Incarnation: 7, Session: 20, Term: 3, Sequence: 5}); refused != nil {
				t.Fatal(refused)
			}
			if got := s.Heartbeat(noon, 3, test.heartbeat).GetCode(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestGreet(t *testing.T) {
	second := registration(8)
	restarted, copied := registration(7), registration(7)
	restarted.Session, copied.Session = 21, 19
	noSlots, noMemory := registration(8), registration(8)
	noSlots.Resources = statepb.NewResources(resource.Amounts{CPU: 100, Memory: 1})
	noMemory.Resources = statepb.NewResources(resource.Amounts{CPU: 100, UserSlots: 1})
	tests := map[string]struct {
		at       time.Duration
		agent    *actorpb.RegisterAgent
		wantCode string
		wantText string
	}{
		"the same process may register again":          {agent: registration(7)},
		"an agent that was started again may register": {agent: restarted},
		"a copy of the state folder is refused":        {agent: copied, wantCode: "name_in_use", wantText: "state folder"},
		"after a silence the copy may register":        {at: 2 * time.Second, agent: copied},
		"a second agent with a name in use is refused": {at: time.Second, agent: second, wantCode: "name_in_use", wantText: "another agent with this name"},
		"after a silence the name is free":             {at: 2 * time.Second, agent: second},
		"a node without slots is refused":              {agent: noSlots, wantCode: "bad_request", wantText: "user_slots is 0"},
		"a node without memory is refused":             {agent: noMemory, wantCode: "bad_request", wantText: "memory"},
		"a node without life number is refused":        {agent: registration(0), wantCode: "bad_request", wantText: "incarnation"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := NewSession(noon, DefaultTiming(), DefaultTiming().Base())
			s.Open(noon, registration(7))
			refused := s.Greet(noon.Add(test.at), test.agent)
			if refused.GetCode() != test.wantCode || !strings.Contains(refused.GetReason(), test.wantText) {
				t.Errorf("got %q (%s), want %q (…%s…)", refused.GetCode(), refused.GetReason(), test.wantCode, test.wantText)
			}
		})
	}
}

// TestAJobSurvivesItsAgent kills the agent and starts it again: the allocation is of
// the same life of the node, and the jobs that it adopted are its own.
func TestAJobSurvivesItsAgent(t *testing.T) {
	s := NewSession(noon, DefaultTiming(), DefaultTiming().Base())
	s.Open(noon, registration(7, held("a", "running"), held("b", "waiting")))
	both := []Granted{granted("a", 7, 10), granted("b", 7, 11)}
	if got := text(s.Compare(noon, both)); got != "" {
		t.Fatalf("got %q, want nothing to do", got)
	}
	again := registration(7, held("a", "running"))
	again.Session = 21
	if refused := s.Greet(noon.Add(time.Millisecond), again); refused != nil {
		t.Fatal(refused)
	}
	s.Open(noon.Add(time.Millisecond), again)
	if got := text(s.Compare(noon.Add(time.Millisecond), both)); got != "+b" {
		t.Errorf("got %q, want a to go on and b, which had not begun, to be started", got)
	}
	late := &actorpb.Heartbeat{Node: "n1", Incarnation: 7, Session: 20, Term: 3, Sequence: 99}
	if refused := s.Heartbeat(noon.Add(time.Millisecond), 3, late); refused.GetCode() != "not_registered" {
		t.Errorf("a heartbeat of the killed process: got %v, want it refused", refused)
	}
}

func TestChanged(t *testing.T) {
	record := func(change func(*statepb.Node)) *statepb.Node {
		m := registration(7)
		n := &statepb.Node{Id: "n1", State: "online", Incarnation: 7, Resources: m.GetResources(), Tags: []string{"ssd"}, Version: "1"}
		change(n)
		return n
	}
	tests := map[string]struct {
		record *statepb.Node
		want   bool
	}{
		"a node that never registered":   {nil, true},
		"a node that is as recorded":     {record(func(*statepb.Node) {}), false},
		"a node that was lost":           {record(func(n *statepb.Node) { n.State = "offline" }), true},
		"a node that began a new life":   {record(func(n *statepb.Node) { n.Incarnation = 6 }), true},
		"a node with other tags":         {record(func(n *statepb.Node) { n.Tags = []string{"hdd"} }), true},
		"a node that grew":               {record(func(n *statepb.Node) { n.Resources = &statepb.Resources{UserSlots: 1} }), true},
		"an agent of another version":    {record(func(n *statepb.Node) { n.Version = "2" }), true},
		"a node with one tag too many":   {record(func(n *statepb.Node) { n.Tags = []string{"ssd", "x"} }), true},
		"a node with another caveat":     {record(func(n *statepb.Node) { n.Caveat = "no cgroups" }), true},
		"a node with ports for its jobs": {record(func(n *statepb.Node) { n.FirstPort, n.PortCount = 21000, 10 }), true},
		"a node that moved to new host":  {record(func(n *statepb.Node) { n.Host = "h2" }), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Changed(test.record, registration(7)); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

// text writes a difference as +started -ended reason ?vanished.
func text(d Difference) string {
	var parts []string
	for _, m := range d.Start {
		parts = append(parts, "+"+m.GetJobId())
	}
	for _, m := range d.Abort {
		parts = append(parts, "-"+m.GetJobId()+" "+m.GetReason())
	}
	for _, id := range slices.Sorted(slices.Values(d.Vanished)) {
		parts = append(parts, "?"+id)
	}
	return strings.Join(parts, " ")
}

// TestPlansTravelInParts (T4) has more orders than a message may have bytes: each is in one of the
// differences that follow each other at once, the first granted first, and each of these is small
// enough.
func TestPlansTravelInParts(t *testing.T) {
	const jobs = 5000
	s := NewSession(noon, DefaultTiming(), DefaultTiming().Base())
	s.Open(noon, registration(7, held("stranger", "running")))
	all := make([]Granted, jobs)
	for i := range all {
		all[i] = granted(fmt.Sprintf("%05d", i), 7, uint64(i))
		if i%2 == 0 {
			all[i].Stop = &statepb.StopOrder{Reason: "operation_aborted", Message: strings.Repeat("x", 1<<10)}
		}
	}
	var started, aborted []string
	parts := 0
	for more := true; more; parts++ {
		diff := s.Compare(noon, all)
		if size := proto.Size(&actorpb.NodePlan{Start: diff.Start, Abort: diff.Abort}); size > planBytes+planBytes/8 {
			t.Fatalf("a plan has %d bytes", size)
		}
		for _, job := range diff.Start {
			started = append(started, job.GetJobId())
		}
		for _, job := range diff.Abort {
			aborted = append(aborted, job.GetJobId())
		}
		if more = diff.More; len(diff.Start) == 0 && more {
			t.Fatal("a part without orders")
		}
	}
	if parts < 3 || len(started) != jobs || len(aborted) != jobs/2+1 || !slices.IsSorted(started) || aborted[jobs/2] != "stranger" {
		t.Errorf("%d parts start %d jobs and end %d, the last %v", parts, len(started), len(aborted), aborted[len(aborted)-1])
	}
	if again := s.Compare(noon, all); !again.Empty() {
		t.Errorf("orders are sent twice: %d, %d", len(again.Start), len(again.Abort))
	}
}
