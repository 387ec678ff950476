package node

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
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
	})
	// A leader that has just begun gives a node its time, and takes back what an earlier one said.
	onStage(t, online(7), []Granted{granted("a", 7, 10)}, func(s *stage) {
		s.set(func() { s.unheard = true })
		s.say(registration(7))
		s.beat(1)
		said(s, "an agent that another leader has doubted", back)
	})
}
