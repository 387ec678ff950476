package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/messages/actorpb"
	"weir/scheduling"
)

func TestLease(t *testing.T) {
	var l Lease
	if l.Holds(epoch) || l.Lapse(epoch) {
		t.Error("a node that never had a lease has one, or lost it")
	}
	at := func(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }
	if !l.Renew(at(1), 5*time.Second) || !l.Holds(at(5.9)) || l.Holds(at(6)) {
		t.Errorf("lease until %v, want 5s from when the heartbeat was sent", l.Until().Sub(epoch))
	}
	if l.Renew(at(0.5), 50*time.Second) || l.Holds(at(6)) {
		t.Error("an older heartbeat renewed the lease")
	}
	if l.Lapse(at(5.9)) || !l.Lapse(at(6)) || l.Lapse(at(7)) {
		t.Error("the end of the lease is not told once")
	}
	if !l.Renew(at(8), 2*time.Second) || !l.Holds(at(9.9)) || !l.Lapse(at(10)) {
		t.Error("a lease of a new leader, which is shorter, does not count")
	}
}

func TestFence(t *testing.T) {
	token := func(term, index uint64) scheduling.Token { return scheduling.Token{Term: term, Index: index} }
	tests := map[string]struct {
		token     scheduling.Token
		wantStale bool
		wantSeen  scheduling.Token
	}{
		"a higher term":                      {token(6, 1), false, token(6, 1)},
		"a higher index":                     {token(5, 41), false, token(5, 41)},
		"another plan of the same state":     {token(5, 40), false, token(5, 40)},
		"a plan that others have overtaken":  {token(5, 39), true, token(5, 40)},
		"a plan of a leader of the past":     {token(4, 99), true, token(5, 40)},
		"a plan without a token":             {token(0, 0), true, token(5, 40)},
		"a leader of a higher term is heard": {token(7, 0), false, token(7, 0)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := NewFence(token(5, 40))
			err := f.Admit(test.token)
			if errors.Is(err, ErrStale) != test.wantStale || f.Seen() != test.wantSeen {
				t.Errorf("got %v, seen %v; want stale %v, seen %v", err, f.Seen(), test.wantStale, test.wantSeen)
			}
			if test.wantStale && (f.Refused() != 1 || !strings.Contains(err.Error(), test.token.String()) || !strings.Contains(err.Error(), "5.40")) {
				t.Errorf("%d refused, %v; want 1, and both tokens named", f.Refused(), err)
			}
		})
	}
	f := NewFence(token(5, 40))
	if f.Term(5) != nil || f.Seen() != token(5, 40) || f.Term(4) == nil || f.Term(6) != nil || f.Seen() != token(6, 0) {
		t.Error("terms of leaders are not fenced")
	}
}

func plan(term, index uint64, orders ...planOption) *actorpb.NodePlan {
	p := &actorpb.NodePlan{Token: &actorpb.Token{Term: term, Index: index}}
	for _, order := range orders {
		order(p)
	}
	return p
}

type planOption func(*actorpb.NodePlan)

func start(job string, incarnation uint64) planOption {
	return func(p *actorpb.NodePlan) {
		p.Start = append(p.Start, &actorpb.StartJob{JobId: job, OperationId: "op", NodeIncarnation: incarnation,
			Token: p.GetToken(), Controller: &actorpb.Replica{Id: "r1", Address: "r1:1"}, Task: "sort", Cookie: 7})
	}
}

func abort(job, reason string, grace time.Duration) planOption {
	return func(p *actorpb.NodePlan) {
		p.Abort = append(p.Abort, &actorpb.AbortJob{JobId: job, Reason: reason, GraceMillis: grace.Milliseconds(), Message: "go"})
	}
}

func TestIntake(t *testing.T) {
	in := NewIntake(NewFence(scheduling.Token{Term: 5, Index: 40}))
	take := func(term, index uint64) {
		t.Helper()
		if err := in.Take(plan(term, index)); err != nil {
			t.Fatal(err)
		}
	}
	take(5, 40)
	if _, due := in.Write(); due || len(in.Due()) != 1 {
		t.Error("a plan whose token is on disk waits for the disk")
	}
	take(5, 41)
	token, due := in.Write()
	if !due || token.Index != 41 || len(in.Due()) != 0 {
		t.Fatalf("token %v, due %v: want 5.41 to be written before the plan is followed", token, due)
	}
	take(5, 42)
	take(5, 43)
	if _, due := in.Write(); due {
		t.Error("two tokens are written at a time")
	}
	in.Stored(token, nil)
	if got := in.Due(); len(got) != 1 || got[0].GetToken().GetIndex() != 41 {
		t.Errorf("due %v, want the plan of 41", got)
	}
	if token, due = in.Write(); !due || token.Index != 43 {
		t.Errorf("token %v, want 5.43 for both plans", token)
	}
	in.Stored(token, errors.New("disk full"))
	if len(in.Due()) != 0 {
		t.Error("plans whose token is not on disk are followed")
	}
	take(5, 43)
	if token, due = in.Write(); !due || token.Index != 43 {
		t.Error("a token that could not be written is not tried again")
	}
	for range maxPlans - 1 {
		take(5, 44)
	}
	if err := in.Take(plan(5, 44)); !errors.Is(err, ErrTooManyPlans) {
		t.Errorf("got %v, want ErrTooManyPlans", err)
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
	orders := l.Sort(plan(1, 1, start("a", 9), start("a", 9), start("b", 8), abort("a", "preemption", 0), abort("x", "preemption", 0)), "")
	if got := ids(orders.Start); !slices.Equal(got, []string{"a"}) || len(orders.Abort) != 1 || orders.Abort[0].GetJobId() != "a" {
		t.Errorf("start %v, abort %v; want a started and ended once, and nothing else", got, orders.Abort)
	}
	if len(orders.Refused) != 1 || !strings.Contains(orders.Refused[0], "start job b: granted to incarnation 8") {
		t.Errorf("refused %q, want b, which another life was granted", orders.Refused)
	}
	if orders = l.Sort(plan(1, 2, start("c", 9)), "the agent is closing"); len(orders.Start) != 0 || !strings.Contains(orders.Refused[0], "closing") {
		t.Errorf("a closed node takes jobs: %+v", orders)
	}
	l.Sort(plan(1, 3, start("c", 9), start("d", 9)), "")
	if orders = l.Sort(plan(1, 4, start("e", 9)), ""); len(orders.Start) != 0 || !strings.Contains(orders.Refused[0], "has 3 jobs") {
		t.Errorf("a full node takes jobs: %+v", orders)
	}
	l.Forget("a")
	l.Forget("a")
	if orders = l.Sort(plan(1, 5, start("a", 9)), ""); len(orders.Start) != 0 || len(orders.Gone) != 1 {
		t.Errorf("a job that was had is started again: %+v", orders)
	}
	for i := range maxHad {
		l.held[fmt.Sprint(i)] = true
		l.Forget(fmt.Sprint(i))
	}
	if len(l.had) != maxHad || len(l.hadRing) != maxHad || l.had["a"] {
		t.Errorf("remembers %d jobs, want the last %d", len(l.had), maxHad)
	}
}

// TestNothingStaleAndNothingTwice is the life of a node under leaders that come,
// go, and repeat themselves, a disk that fails, and crashes.
func TestNothingStaleAndNothingTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			disk, highest scheduling.Token
			life          uint64 = 1
			fence                = NewFence(disk)
			intake               = NewIntake(fence)
			ledger               = NewLedger(life, 10)
			live                 = map[string]bool{}
			started              = map[string]int{}
			writing       *scheduling.Token
		)
		follow := func() {
			for _, p := range intake.Due() {
				token := tokenOf(p)
				if token.Less(highest) {
					t.Fatalf("followed %v after %v", token, highest)
				}
				if disk.Less(token) {
					t.Fatalf("followed %v while %v is on disk", token, disk)
				}
				highest = token
				orders := ledger.Sort(p, "")
				for _, s := range orders.Start {
					if live[s.GetJobId()] {
						t.Fatalf("job %s has two lives", s.GetJobId())
					}
					if started[s.GetJobId()]++; started[s.GetJobId()] > 1 {
						t.Fatalf("job %s was started twice", s.GetJobId())
					}
					live[s.GetJobId()] = true
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"plan": func(t *rapid.T) {
				p := plan(rapid.Uint64Range(1, 4).Draw(t, "term"), rapid.Uint64Range(1, 9).Draw(t, "index"))
				for range rapid.IntRange(0, 3).Draw(t, "jobs") {
					start(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "job"), 1)(p)
				}
				_ = intake.Take(p)
				follow()
			},
			"leader": func(t *rapid.T) { _ = fence.Term(rapid.Uint64Range(1, 4).Draw(t, "term")) },
			"write": func(*rapid.T) {
				if token, due := intake.Write(); due {
					writing = &token
				}
			},
			"written": func(t *rapid.T) {
				if writing == nil {
					return
				}
				if rapid.Bool().Draw(t, "disk works") {
					disk = *writing
					intake.Stored(*writing, nil)
				} else {
					intake.Stored(*writing, errors.New("disk full"))
				}
				writing = nil
				follow()
			},
			"end": func(t *rapid.T) {
				job := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "job")
				if live[job] {
					delete(live, job)
					ledger.Forget(job)
				}
			},
			"crash": func(t *rapid.T) {
				if writing != nil && rapid.Bool().Draw(t, "on disk before") {
					disk = *writing
				}
				writing = nil
				clear(live)
				life++
				fence = NewFence(disk)
				intake, ledger = NewIntake(fence), NewLedger(life, 10)
			},
		})
	})
}

func TestFolder(t *testing.T) {
	f, err := openFolder(filepath.Join(t.TempDir(), "new"))
	if err != nil {
		t.Fatal(err)
	}
	if token, err := f.readToken(); err != nil || !token.IsZero() {
		t.Errorf("new folder: %v, %v", token, err)
	}
	want := scheduling.Token{Term: 1 << 60, Index: 7}
	if err := f.writeToken(want); err != nil {
		t.Fatal(err)
	}
	if got, err := f.readToken(); err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	whole, err := os.ReadFile(f.tokenFile())
	if err != nil {
		t.Fatal(err)
	}
	damage := map[string]string{
		"nothing":               "",
		"the first half":        string(whole[:len(whole)/2]),
		"all but the last byte": string(whole[:len(whole)-1]),
		"another index":         strings.Replace(string(whole), "index 7", "index 3", 1),
		"more behind it":        string(whole) + "x",
		"something else":        "hello\n",
		"zeroes":                string(make([]byte, len(whole))),
	}
	for name, data := range damage {
		if err := os.WriteFile(f.tokenFile(), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := f.readToken(); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), f.tokenFile()) {
			t.Errorf("%s: got %v, want an error that names the damaged file", name, err)
		}
	}
	if err := f.writeReplicas(replicas("r1", "r2")); err != nil {
		t.Fatal(err)
	}
	if got, err := f.readReplicas(); err != nil || !slices.Equal(got, replicas("r1", "r2")) {
		t.Errorf("replicas %v, %v", got, err)
	}
	if err := os.WriteFile(f.replicasFile(), []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.readReplicas(); !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v, want ErrDamaged", err)
	}
}
