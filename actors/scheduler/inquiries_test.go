package scheduler

import (
	"testing"
	"testing/synctest"

	"weir/messages/actorpb"
	"weir/scheduling/explain"
)

// why has somebody ask why, who gets what he is answered.
func (s *stage) why(of *actorpb.SchedulerViewRequest, gone func() bool) (answers *[]*actorpb.SchedulerView) {
	of.Explain = true
	answers = new([]*actorpb.SchedulerView)
	s.system.Root.Send(s.pid, View{Of: of, Reply: func(v *actorpb.SchedulerView) { *answers = append(*answers, v) }, Gone: gone})
	return answers
}

// TestAllWhoAskTheSameGetOneAnswer has several ask at once.
func TestAllWhoAskTheSameGetOneAnswer(t *testing.T) {
	onStage(t, func(s *stage) {
		// The actor takes up the first when all have asked.
		asked := make(chan struct{})
		first := s.why(&actorpb.SchedulerViewRequest{Operation: "op"}, func() bool {
			<-asked
			return false
		})
		second := s.why(&actorpb.SchedulerViewRequest{Operation: "op"}, nil)
		pool := s.why(&actorpb.SchedulerViewRequest{Pool: "default"}, nil)
		none := s.why(&actorpb.SchedulerViewRequest{Operation: "none"}, nil)
		job := s.why(&actorpb.SchedulerViewRequest{Job: "none"}, nil)
		close(asked)
		synctest.Wait()
		for name, answers := range map[string]*[]*actorpb.SchedulerView{"first": first, "second": second, "pool": pool, "none": none, "job": job} {
			if len(*answers) != 1 {
				t.Fatalf("%s: got %d answers, want 1", name, len(*answers))
			}
		}
		if (*first)[0] != (*second)[0] {
			t.Error("two who asked the same got different answers")
		}
		if x := (*first)[0].GetExplanations(); len(x) != 1 || x[0].GetVerdict() != explain.FactNoNodes || x[0].GetSubject() != "operation" || x[0].GetId() != "op" {
			t.Errorf("the operation: %v", x)
		}
		if x := (*pool)[0].GetExplanations(); len(x) != 1 || len(x[0].GetWaits()) != 1 || x[0].GetWaits()[0].GetJobs() != 11 || x[0].GetWaits()[0].GetFirst() != "op" {
			t.Errorf("the pool: %v", x)
		}
		for name, answers := range map[string]*[]*actorpb.SchedulerView{"operation": none, "job": job} {
			if v := (*answers)[0]; len(v.GetExplanations()) != 0 || v.GetTerm() != 1 {
				t.Errorf("an unknown %s: %v", name, v)
			}
		}
	})
}

// TestQuestionsOfNobody: those of whoever has gone are not looked into.
func TestQuestionsOfNobody(t *testing.T) {
	onStage(t, func(s *stage) {
		gone := s.why(&actorpb.SchedulerViewRequest{Operation: "op"}, func() bool { return true })
		here := s.why(&actorpb.SchedulerViewRequest{Pool: "default"}, func() bool { return false })
		synctest.Wait()
		if len(*gone) != 1 || len((*gone)[0].GetExplanations()) != 0 || len(*here) != 1 || len((*here)[0].GetExplanations()) != 1 {
			t.Errorf("of one who has gone: %v; of one who waits: %v", *gone, *here)
		}
	})
}

// TestQuestionsThatAreAbandoned get an empty answer, those that wait and the current one.
func TestQuestionsThatAreAbandoned(t *testing.T) {
	var all inquiries
	answers := 0
	for _, pool := range []string{"a", "b", "a", "c"} {
		all.add(View{Of: &actorpb.SchedulerViewRequest{Explain: true, Pool: pool}, Reply: func(v *actorpb.SchedulerView) {
			if v.GetTerm() == 7 {
				answers++
			}
		}})
		if pool == "a" && all.current == nil && all.next() == nil {
			t.Fatal("there is a question, and none is next")
		}
	}
	if all.next() != nil || len(all.current.askers) != 2 || len(all.waiting) != 2 {
		t.Fatalf("the current question is asked by %d, %d wait", len(all.current.askers), len(all.waiting))
	}
	all.abandon(&actorpb.SchedulerView{Term: 7})
	if answers != 4 || all.current != nil || all.next() != nil {
		t.Errorf("%d of 4 were answered", answers)
	}
}

// TestDoor lets in as many as may wait, and others when some have left.
func TestDoor(t *testing.T) {
	var d Door
	for n := range MaxAskers {
		if !d.Enter() {
			t.Fatalf("number %d was not let in", n)
		}
	}
	if d.Enter() {
		t.Fatal("one too many was let in")
	}
	d.Leave()
	if !d.Enter() || d.Enter() {
		t.Error("one left, and not one was let in")
	}
}
