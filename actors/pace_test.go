package actors

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"weir/actors/agent"
	"weir/actors/node"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling/resource"
)

var midnight = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func secondsOf(heartbeat, lease int) node.Pace {
	return node.Pace{Heartbeat: time.Duration(heartbeat) * time.Second, Lease: time.Duration(lease) * time.Second}
}

// TestPacer commits a longer lease before it is told, and a shorter one when all longer ones have ended.
func TestPacer(t *testing.T) {
	now := midnight
	clock := func() time.Time { return now }
	p, timing := new(pacer), node.DefaultTiming()
	p.begin(now, timing, nil)
	short, long, middle := secondsOf(1, 5), secondsOf(5, 25), secondsOf(3, 15)
	step := func(story string, nodes int, want *node.Pace, tell, bound node.Pace) {
		t.Helper()
		got := p.next(clock, nodes)
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s: proposes %v, want %v", story, got, want)
		}
		if p.Tell() != tell || p.Bound() != bound {
			t.Errorf("%s: tells %v and waits for %v, want %v and %v", story, p.Tell(), p.Bound(), tell, bound)
		}
	}
	step("no pace is committed", 3, &short, short, short)
	p.settled(clock)
	step("nothing changes", 2000, nil, short, short)
	step("many nodes", 12000, &long, short, short)
	step("the outcome is not known", 3, &long, short, short)
	p.settled(clock)
	step("it is committed", 12000, nil, long, long)
	now = now.Add(time.Hour)
	step("nodes go", 3, nil, short, long)
	now = now.Add(timing.Wait(long) - time.Millisecond)
	step("a lease may still hold", 3, nil, short, long)
	step("some come back", 6000, nil, middle, long)
	now = now.Add(timing.Wait(long) - time.Millisecond)
	step("they have been told longer leases meanwhile", 3, nil, short, long)
	now = now.Add(timing.Wait(long))
	step("all have ended", 3, &short, short, long)
	step("they come back, but it may be committed", 12000, &short, short, long)
	p.settled(clock)
	step("it is committed, and a longer one has to be", 12000, &long, short, short)
	p.refused()
	step("the longer one was refused", 3, nil, short, short)
	p.begin(now, timing, middle.Record())
	step("the actor starts again", 3, nil, short, short)

	successor := new(pacer)
	successor.begin(now, timing, long.Record())
	p = successor
	step("a successor begins with what may have been told", 3, nil, short, long)
	now = now.Add(timing.Wait(long))
	step("and waits as long", 3, &short, short, long)
}

// paceModel is a cluster whose leaders change, with the times of an agent of each node.
type paceModel struct {
	now       time.Time
	committed *statepb.Pace
	term      uint64
	nodes     int
	leader    *leaderModel
	agents    []*agentModel
	lost      int
}

type leaderModel struct {
	pacer    *pacer
	timing   node.Timing
	sessions []*node.Session
	proposed *node.Pace
}

type agentModel struct {
	lease    agent.Lease
	sequence uint64
	// answers are those that have not arrived yet.
	answers []answerModel
	// term is that in which it is registered.
	term uint64
}

type answerModel struct {
	sent  time.Duration
	lease time.Duration
}

func (m *paceModel) clock() time.Time { return m.now }

func (m *paceModel) boot() time.Duration { return m.now.Sub(midnight) + time.Hour }

// elect begins a term, of a replica with its own flags.
func (m *paceModel) elect(timing node.Timing) {
	m.term++
	m.leader = &leaderModel{pacer: new(pacer), timing: timing}
	m.leader.pacer.begin(m.now, timing, m.committed)
	for range m.agents {
		m.leader.sessions = append(m.leader.sessions, node.NewSession(m.now, timing, m.leader.pacer))
	}
}

// commit commits what the leader has proposed.
func (m *paceModel) commit() {
	if l := m.leader; l.proposed != nil {
		m.committed = l.proposed.Record()
		l.proposed = nil
		l.pacer.settled(m.clock)
	}
}

// heard has the leader answer an agent.
func (m *paceModel) heard(t *rapid.T, i int) {
	a, s := m.agents[i], m.leader.sessions[i]
	if a.term != m.term {
		a.term, a.sequence = m.term, 0
		s.Open(m.now, &actorpb.RegisterAgent{
			Node: fmt.Sprint("n", i), Incarnation: 1, Session: 1, Resources: statepb.NewResources(resource.Amounts{UserSlots: 1, CPU: 100, Memory: 1 << 30}),
		})
	} else {
		a.sequence++
		if refused := s.Heartbeat(m.now, m.term, &actorpb.Heartbeat{Incarnation: 1, Session: 1, Term: m.term, Sequence: a.sequence}); refused != nil {
			t.Fatal(refused)
		}
	}
	a.answers = append(a.answers, answerModel{m.boot(), s.Pace().Lease})
}

// giveUp has the leader give up the jobs of nodes whose time is over.
func (m *paceModel) giveUp(t *rapid.T) {
	for i, s := range m.leader.sessions {
		if m.now.Before(s.Expires()) {
			continue
		}
		if a := m.agents[i]; a.lease.Holds(m.boot()) {
			t.Fatalf("node %d is given up at %v by the leader of term %d, but its agent has a lease until %v", i, m.boot(), m.term, a.lease.Until())
		}
		m.lost++
		s.Close()
		m.agents[i].term = 0
	}
}

// TestLeasesEndBeforeNodesAreGivenUp: whatever the pace, whoever leads, and whatever gets lost, a leader gives the
// jobs of a node away only when its agent's lease has ended.
func TestLeasesEndBeforeNodesAreGivenUp(t *testing.T) {
	lost := 0
	rapid.Check(t, func(t *rapid.T) {
		m := &paceModel{now: midnight, agents: []*agentModel{{}, {}, {}}}
		timing := func() node.Timing {
			flags := node.DefaultTiming()
			if rapid.IntRange(0, 3).Draw(t, "flags") == 0 {
				flags.Follow, flags.Lease = false, time.Duration(rapid.IntRange(2, 40).Draw(t, "lease"))*time.Second
			}
			return flags
		}
		m.elect(timing())
		m.leader.proposed = m.leader.pacer.next(m.clock, 3)
		m.commit()
		some := func() int { return rapid.IntRange(0, len(m.agents)-1).Draw(t, "agent") }
		beat := func(*rapid.T) { m.heard(t, some()) }
		look := func(*rapid.T) { m.leader.proposed = m.leader.pacer.next(m.clock, m.nodes) }
		commit := func(*rapid.T) { m.commit() }
		t.Repeat(map[string]func(*rapid.T){
			"beat": beat, "beat 2": beat, "look": look, "look 2": look, "commit": commit, "commit 2": commit,
			"wait": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "millis")) * time.Millisecond)
			},
			"wait long": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds")) * time.Second)
			},
			"nodes":     func(t *rapid.T) { m.nodes = rapid.SampledFrom([]int{3, 2500, 6000, 12000}).Draw(t, "nodes") },
			"answer":    func(*rapid.T) { m.answer(some(), true) },
			"no answer": func(*rapid.T) { m.answer(some(), false) },
			"restart": func(*rapid.T) {
				i := some()
				m.leader.sessions[i], m.agents[i].term = node.NewSession(m.now, m.leader.timing, m.leader.pacer), 0
			},
			"next leader": func(t *rapid.T) {
				if rapid.Bool().Draw(t, "what was proposed is in the log") {
					m.commit()
				}
				m.elect(timing())
			},
			"": func(t *rapid.T) { m.giveUp(t) },
		})
		lost += m.lost
	})
	if lost == 0 {
		t.Error("no node was ever given up")
	}
}

// answer has the oldest answer arrive at an agent, or get lost.
func (m *paceModel) answer(i int, arrives bool) {
	a := m.agents[i]
	if len(a.answers) == 0 {
		return
	}
	first := a.answers[0]
	a.answers = a.answers[1:]
	if arrives {
		a.lease.Renew(first.sent, first.lease)
	}
}

// TestPaceOfACluster follows the number of nodes, and outlives its leader.
func TestPaceOfACluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, func(cfg *Config) { cfg.Timing.Node.Lease = 3 * time.Second })
	r := c.leader()
	a := startAgent(t, c, "n1")
	few := testTiming().Node.Base()
	few.Lease = 3 * time.Second
	many := node.Pace{Heartbeat: few.Heartbeat * 3 / 2, Lease: few.Lease * 3 / 2}
	told := func() (pace node.Pace) {
		a.set(func() { pace = a.pace })
		return pace
	}
	committed := func(r *testReplica) (pace node.Pace) {
		r.store.View(func(s *state.State) { pace = node.PaceOf(state.PaceOf(s)) })
		return pace
	}
	eventually(t, "the pace of few nodes is committed", func() bool { return committed(r) == few && told() == few })
	// These register by the log alone, and are lost after a lease.
	var others []proto.Message
	for i := range 2100 {
		others = append(others, &commandpb.RegisterNode{Term: termOf(r), Node: &statepb.Node{
			Id: fmt.Sprint("other-", i), Incarnation: 1, Resources: statepb.NewResources(resource.Amounts{UserSlots: 1, CPU: 100, Memory: 1 << 20}),
		}})
	}
	eventually(t, "the pace of many nodes is committed, and told", func() bool {
		if _, err := r.Propose(t.Context(), others...); err != nil {
			t.Fatal(err)
		}
		return committed(r) == many && told() == many
	})
	next := c.without(r).leader()
	eventually(t, "the others are lost, and the pace is that of few nodes", func() bool { return told() == few && committed(next) == few })
}

func termOf(r *testReplica) (term uint64) {
	r.store.View(func(s *state.State) { term = s.Term().GetTerm() })
	return term
}

// TestNothingWaitsForHeartbeats: where none comes for an hour, jobs start, are preempted for those who starve, leave by their
// deadlines and end, and others follow them.
func TestNothingWaitsForHeartbeats(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1, func(cfg *Config) { cfg.Timing.Node.Heartbeat, cfg.Timing.Node.Lease = time.Hour, 5*time.Hour })
	r := c.leader()
	a := startAgent(t, c, "n1")
	starve(t, r, "greedy", "starved", a, "1s")
	eventually(t, "a job runs in the place of the one that was preempted", func() bool { return len(r.jobsOf("starved")) == 1 })
	a.finish()
	for _, id := range []string{"greedy", "starved"} {
		r.await(t, id, "completed")
	}
}
