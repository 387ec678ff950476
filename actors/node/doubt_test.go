package node

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"weir/messages/actorpb"
)

// TestSilentNodesAreDoubted says of a node with jobs that it is unheard when the connection with
// its agent breaks, and when it is silent for nearly as long as its lease; and takes it back when
// the agent is heard.
func TestSilentNodesAreDoubted(t *testing.T) {
	said := func(s *stage, what string, want ...string) {
		s.t.Helper()
		s.mu.Lock()
		defer s.mu.Unlock()
		if !slices.Equal(s.said, want) {
			s.t.Errorf("%s: said %q, want %q", what, s.said, want)
		}
		s.said = nil
	}
	const gone, back = "n1 unheard: true", "n1 unheard: false"
	timing := DefaultTiming()
	onStage(t, online(7), []Granted{granted("a", 7, 10)}, func(s *stage) {
		s.say(registration(7))
		s.beat(1, held("a", "running"))
		said(s, "an agent that is heard")
		s.wait(timing.Lease - timing.Heartbeat - time.Millisecond)
		said(s, "one that is late")
		s.wait(2 * time.Millisecond)
		said(s, "one that is silent", gone)
		s.beat(2, held("a", "running"))
		said(s, "one that is heard again", back)
		s.beat(3, held("a", "running"))
		said(s, "one that goes on")
		s.system.Root.Send(s.pid, Parted{})
		synctest.Wait()
		said(s, "a connection that breaks", gone)
		s.say(registration(7))
		said(s, "an agent that has begun")
		s.beat(1, held("a", "ended"))
		said(s, "one whose job is not there")
		s.set(func() { s.granted = []Granted{granted("b", 7, 11)} })
		s.beat(2, held("a", "ended"), held("b", "running"))
		said(s, "one whose other jobs are there", back)
		s.set(func() { s.granted = nil })
		s.system.Root.Send(s.pid, Parted{})
		synctest.Wait()
		said(s, "a node without jobs")
		s.set(func() { s.granted = []Granted{granted("b", 7, 11)} })
		s.beat(3, held("b", "running"))
		said(s, "one that has jobs again")
		s.wait(timing.Lease - timing.Heartbeat)
		said(s, "one that is silent again", gone)
		s.beat(4, held("b", "ended"))
		said(s, "one whose job has ended meanwhile")
		s.set(func() { s.granted = nil })
		s.beat(5)
		said(s, "one whose job is over", back)
	})
	// A leader that has just begun gives a node its time, and takes back what an earlier one said.
	onStage(t, online(7), []Granted{granted("a", 7, 10)}, func(s *stage) {
		s.set(func() { s.unheard = true })
		s.say(registration(7))
		s.beat(1)
		said(s, "an agent that another leader has doubted", back)
	})
}

// TestTrust: of the jobs of a node that is heard again those count that were not there at first, not
// those that end meanwhile.
func TestTrust(t *testing.T) {
	s := NewSession(noon, DefaultTiming(), DefaultTiming().Base())
	sequence := uint64(0)
	beat := func(story string, want bool, jobs []Granted, says ...*actorpb.HeldJob) {
		t.Helper()
		sequence++
		if refused := s.Heartbeat(noon, 3, &actorpb.Heartbeat{Node: "n1", Incarnation: 7, Session: 20, Term: 3, Sequence: sequence, Jobs: says}); refused != nil {
			t.Fatal(refused)
		}
		if got := s.Trust(jobs); got != want {
			t.Errorf("%s: trusted %t, want %t", story, got, want)
		}
	}
	of := func(jobs ...string) (all []Granted) {
		for _, job := range jobs {
			all = append(all, granted(job, 7, 10))
		}
		return all
	}
	s.Open(noon, registration(7))
	beat("one job has ended", false, of("a", "b", "c"), held("a", "ended"), held("b", "running"), held("c", "running"))
	beat("another ends", false, of("a", "b", "c"), held("a", "ended"), held("b", "ended"), held("c", "running"))
	beat("the first is over, a third ends", true, of("b", "c", "d"), held("b", "ended"), held("c", "ended"), held("d", "running"))
	s.Doubt()
	beat("they are not there after another doubt", false, of("b", "c", "d"), held("b", "ended"), held("c", "ended"), held("d", "running"))
	beat("they are over", true, of("d"), held("d", "ended"))
	s.Open(noon, registration(7))
	sequence = 0
	beat("the last had ended when the agent was registered", false, of("d"), held("d", "ended"))
	s.Open(noon, registration(7))
	sequence = 0
	beat("a job of an earlier life has vanished", false, []Granted{granted("e", 6, 9), granted("f", 7, 11)}, held("f", "running"))
	beat("it is over", true, of("f"), held("f", "ended"))
}
