package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/messages/actorpb"
	"weir/messages/journalpb"
	"weir/scheduling"
)

// kinds names the records' kinds, and the jobs that they are about.
func kinds(records []*journalpb.Record) string {
	var all []string
	for _, r := range records {
		switch e := r.GetEvent().(type) {
		case *journalpb.Record_Seen:
			all = append(all, "seen "+tokenOf(&actorpb.NodePlan{Token: e.Seen}).String())
		case *journalpb.Record_Granted:
			all = append(all, "granted "+e.Granted.GetJobId()+" by "+tokenOf(&actorpb.NodePlan{Token: r.GetPlan()}).String())
		case *journalpb.Record_Rejected:
			all = append(all, strings.TrimSpace("rejected "+e.Rejected.GetJobId()))
		default:
			all = append(all, fmt.Sprintf("%T", e))
		}
	}
	return strings.Join(all, ", ")
}

func TestIntake(t *testing.T) {
	ledger := NewLedger(9, 10)
	in := NewIntake(NewFence(scheduling.Token{Term: 5, Index: 40}), ledger)
	steps := []struct {
		plan     *actorpb.NodePlan
		closed   string
		full     string
		want     string
		wantJobs int
		wantErr  error
	}{
		{plan: plan(5, 40), want: ""},
		{plan: plan(5, 41, granted("a", 9)), want: "seen 5.41, granted a by 5.41", wantJobs: 1},
		{plan: plan(5, 41, granted("a", 9), granted("b", 9)), want: "granted b by 5.41", wantJobs: 1},
		{plan: plan(5, 40, granted("c", 9)), want: "rejected", wantErr: ErrStale},
		{plan: plan(4, 99, granted("c", 9)), want: "rejected", wantErr: ErrStale},
		{plan: plan(5, 42, granted("c", 8)), want: "seen 5.42, rejected c"},
		{plan: plan(5, 42, granted("c", 9)), closed: "the node has no lease", want: "rejected c"},
		{plan: plan(5, 42, granted("a", 9), granted("f", 9)), full: "no space", want: "rejected f"},
	}
	for i, step := range steps {
		orders, records, err := in.Take(step.plan, "r1", step.closed, step.full)
		if got := kinds(records); got != step.want || len(orders.Start) != step.wantJobs || !errors.Is(err, step.wantErr) {
			t.Errorf("step %d: records %q, %d jobs, %v; want %q, %d, %v", i, got, len(orders.Start), err, step.want, step.wantJobs, step.wantErr)
		}
		in.Followed()
	}
	// A grant that is replayed after its job was had.
	ledger.Forget("a")
	orders, records, err := in.Take(plan(5, 42, granted("a", 9)), "r1", "", "")
	if got := kinds(records); err != nil || got != "rejected a" || len(orders.Start) != 0 || len(orders.Gone) != 1 {
		t.Errorf("records %q, orders %+v, %v; want a refused, as it was had", got, orders, err)
	}
	rejected := records[0].GetRejected()
	if rejected.GetFrom() != "r1" || rejected.GetToken().GetIndex() != 42 || rejected.GetSeen().GetIndex() != 42 || rejected.GetReason() == "" {
		t.Errorf("rejected %v: want who sent what, and why not", rejected)
	}
	in.Followed()
	for range maxPlans {
		if _, _, err := in.Take(plan(5, 42), "r1", "", ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, records, err := in.Take(plan(1, 1), "r1", "", ""); !errors.Is(err, ErrTooManyPlans) || len(records) != 0 {
		t.Errorf("got %v, want ErrTooManyPlans, and nothing more for the journal", err)
	}
	if in.fence.Term(6) != nil || kinds(in.Note()) != "seen 6.0" || in.Note() != nil {
		t.Error("a leader that was heard is not noted once")
	}
}

func TestLedger(t *testing.T) {
	ids := func(starts []*actorpb.StartJob) (all []string) {
		for _, s := range starts {
			all = append(all, s.GetJobId())
		}
		return all
	}
	l := NewLedger(9, 3)
	orders := l.Sort(plan(1, 1, granted("a", 9), granted("a", 9), granted("b", 8), abort("a", "preemption", 0), abort("x", "preemption", 0)), "", "")
	if got := ids(orders.Start); !slices.Equal(got, []string{"a"}) || len(orders.Abort) != 1 || orders.Abort[0].GetJobId() != "a" {
		t.Errorf("start %v, abort %v; want a started and ended once, and nothing else", got, orders.Abort)
	}
	if len(orders.Refused) != 1 || orders.Refused[0].Job != "b" || !strings.Contains(orders.Refused[0].Reason, "granted to incarnation 8") {
		t.Errorf("refused %q, want b, which another life was granted", orders.Refused)
	}
	if orders = l.Sort(plan(1, 2, granted("c", 9)), "the agent is closing", ""); len(orders.Start) != 0 || !strings.Contains(orders.Refused[0].Reason, "closing") {
		t.Errorf("a closed node takes jobs: %+v", orders)
	}
	orders = l.Sort(plan(1, 2, granted("f", 9), abort("a", "preemption", 0)), "", "no space")
	if got := ids(orders.Declined); !slices.Equal(got, []string{"f"}) || orders.Full != "no space" || len(orders.Start) != 0 || len(orders.Abort) != 1 {
		t.Errorf("a full disk: %+v; want f held, so that its end is told, and a ended", orders)
	}
	l.Forget("f")
	l.Sort(plan(1, 3, granted("c", 9), granted("d", 9)), "", "")
	if orders = l.Sort(plan(1, 4, granted("e", 9)), "", ""); len(orders.Start) != 0 || !strings.Contains(orders.Refused[0].Reason, "holds 3 jobs") {
		t.Errorf("a full node takes jobs: %+v", orders)
	}
	l.Forget("a")
	l.Forget("a")
	if orders = l.Sort(plan(1, 5, granted("a", 9)), "", ""); len(orders.Start) != 0 || len(orders.Gone) != 1 {
		t.Errorf("a job that was had is started again: %+v", orders)
	}
	for i := range maxHad {
		l.held[fmt.Sprint(i)] = true
		l.Forget(fmt.Sprint(i))
	}
	if len(l.had) != maxHad || len(l.hadOrder) != maxHad || l.had["a"] {
		t.Errorf("remembers %d jobs, want the last %d", len(l.had), maxHad)
	}
}

// TestNothingStaleAndNothingTwice is the life of a node under leaders that come, go,
// and repeat themselves, and crashes between any two steps. The journal keeps what
// was written before a crash, and perhaps what was being written.
func TestNothingStaleAndNothingTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &intakeModel{live: map[string]bool{}, started: map[string]int{}}
		m.wake()
		jobs := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		t.Repeat(map[string]func(*rapid.T){
			"plan": func(t *rapid.T) {
				p := plan(rapid.Uint64Range(1, 4).Draw(t, "term"), rapid.Uint64Range(1, 9).Draw(t, "index"))
				for range rapid.IntRange(0, 3).Draw(t, "jobs") {
					granted(jobs.Draw(t, "job"), 9)(p)
				}
				orders, records, err := m.intake.Take(p, "r1", "", "")
				if err == nil || errors.Is(err, ErrStale) {
					m.waiting = append(m.waiting, intakeBatch{orders, records, tokenOf(p)})
				}
			},
			"leader": func(t *rapid.T) {
				_ = m.fence.Term(rapid.Uint64Range(1, 4).Draw(t, "term"))
				m.disk = append(m.disk, m.intake.Note()...)
			},
			"written": m.follow,
			"end": func(t *rapid.T) {
				if job := jobs.Draw(t, "job"); m.live[job] {
					delete(m.live, job)
					m.ledger.Forget(job)
				}
			},
			"crash": func(t *rapid.T) {
				for len(m.waiting) > 0 && rapid.Bool().Draw(t, "written before") {
					m.disk = append(m.disk, m.waiting[0].records...)
					m.waiting = m.waiting[1:]
				}
				m.wake()
			},
		})
	})
}

// intakeBatch is what an intake has made of a plan.
type intakeBatch struct {
	orders  Orders
	records []*journalpb.Record
	token   scheduling.Token
}

// intakeModel is an intake, its journal, and the jobs that it had start.
type intakeModel struct {
	highest scheduling.Token
	disk    []*journalpb.Record
	waiting []intakeBatch
	live    map[string]bool
	started map[string]int
	fence   *Fence
	intake  *Intake
	ledger  *Ledger
}

// wake begins a process with what is on disk. Jobs go on without one.
func (m *intakeModel) wake() {
	var token scheduling.Token
	granted := map[string]bool{}
	for _, r := range m.disk {
		switch e := r.GetEvent().(type) {
		case *journalpb.Record_Seen:
			token = tokenOf(&actorpb.NodePlan{Token: e.Seen})
		case *journalpb.Record_Granted:
			granted[e.Granted.GetJobId()] = true
		}
	}
	m.fence, m.ledger, m.waiting = NewFence(token), NewLedger(9, 10), nil
	m.intake = NewIntake(m.fence, m.ledger)
	for job := range granted {
		switch {
		case m.live[job]:
			m.ledger.Hold(job)
		case m.started[job] > 0:
			m.ledger.Forget(job)
		}
	}
}

// follow writes the first batch that waits to disk, and starts its jobs: no older plan is
// followed than before, and no job starts twice.
func (m *intakeModel) follow(t *rapid.T) {
	if len(m.waiting) == 0 {
		return
	}
	next := m.waiting[0]
	m.waiting = m.waiting[1:]
	m.disk = append(m.disk, next.records...)
	m.intake.Followed()
	for _, s := range next.orders.Start {
		if next.token.Less(m.highest) {
			t.Fatalf("followed %v after %v", next.token, m.highest)
		}
		m.highest = next.token
		if m.started[s.GetJobId()]++; m.started[s.GetJobId()] > 1 {
			t.Fatalf("job %s was started twice", s.GetJobId())
		}
		m.live[s.GetJobId()] = true
	}
}
