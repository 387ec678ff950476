package actors

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"weir/actors/agent"
	"weir/actors/node"
	"weir/messages/actorpb"
)

// knownModel is an agent whose jobs change, and a leader that hears of them.
type knownModel struct {
	jobs     map[string]*actorpb.HeldJob
	known    agent.Known
	leader   *node.Session
	sequence uint64
	// made are all jobs that there ever were.
	made []string
}

func (m *knownModel) all() (all []*actorpb.HeldJob) {
	for _, job := range m.jobs {
		all = append(all, job)
	}
	return all
}

// register begins a session with a leader that takes changes, or is of a former version.
func (m *knownModel) register(takes bool) {
	jobs := m.all()
	m.known.Register(jobs)
	m.leader, m.sequence = node.NewSession(midnight, node.DefaultTiming(), node.DefaultTiming().Base()), 0
	m.leader.Open(midnight, &actorpb.RegisterAgent{Node: "n1", Incarnation: 1, Session: 1, Jobs: jobs})
	m.known.Heard(&actorpb.AgentRegistered{TakesChanges: takes})
}

// beat sends a heartbeat. An agent registers again when it cannot tell whether the leader has had it.
func (m *knownModel) beat(t *rapid.T, arrives bool) {
	m.sequence++
	beat := &actorpb.Heartbeat{Node: "n1", Incarnation: 1, Session: 1, Term: 1, Sequence: m.sequence}
	m.known.Tell(beat, m.all())
	if !arrives {
		return
	}
	if refused := m.leader.Heartbeat(midnight, 1, proto.CloneOf(beat)); refused != nil {
		t.Fatal(refused)
	}
	if news := !beat.GetOnlyChanges() || len(beat.GetJobs())+len(beat.GetGone()) > 0; m.leader.News() != news {
		t.Fatalf("news: %v, want %v of %v", m.leader.News(), news, beat)
	}
	m.check(t)
	if rapid.IntRange(0, 3).Draw(t, "answered") > 0 {
		m.known.Heard(&actorpb.HeartbeatAck{Sequence: m.sequence})
	}
}

// check wants the leader to know all that decisions are made of.
func (m *knownModel) check(t *rapid.T) {
	for _, id := range m.made {
		has, told := m.jobs[id], m.leader.Held(id)
		if (has == nil) != (told == nil) || has.GetPhase() != told.GetPhase() || !proto.Equal(has.GetDeadline(), told.GetDeadline()) {
			t.Fatalf("heartbeat %d: the leader knows %v, the agent has %v", m.sequence, told, has)
		}
	}
}

// TestLeaderKnowsWhatAgentsHold: after every heartbeat that arrives the leader knows which jobs there are, their phases and
// deadlines, whatever has been lost before. It knows what they use after five more that are answered.
func TestLeaderKnowsWhatAgentsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &knownModel{jobs: map[string]*actorpb.HeldJob{}}
		m.register(true)
		change := func(id string, how func(*actorpb.HeldJob)) {
			job := proto.CloneOf(m.jobs[id])
			how(job)
			m.jobs[id] = job
		}
		pick := func() string {
			if len(m.jobs) == 0 {
				t.Skip("no jobs")
			}
			return rapid.SampledFrom(m.made).Filter(func(id string) bool { return m.jobs[id] != nil }).Draw(t, "job")
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) {},
			"start": func(*rapid.T) {
				id := fmt.Sprint("j", len(m.made))
				m.made = append(m.made, id)
				m.jobs[id] = &actorpb.HeldJob{JobId: id, Phase: actorpb.PhaseRunning}
			},
			"return": func(t *rapid.T) {
				if len(m.made) > 0 {
					id := rapid.SampledFrom(m.made).Draw(t, "again")
					m.jobs[id] = &actorpb.HeldJob{JobId: id, Phase: actorpb.PhaseWaiting}
				}
			},
			"end":    func(*rapid.T) { change(pick(), func(j *actorpb.HeldJob) { j.Phase = actorpb.PhaseEnded }) },
			"use":    func(*rapid.T) { change(pick(), func(j *actorpb.HeldJob) { j.Memory++ }) },
			"order":  func(*rapid.T) { change(pick(), func(j *actorpb.HeldJob) { j.Deadline = timestamppb.New(midnight) }) },
			"forget": func(*rapid.T) { delete(m.jobs, pick()) },
			"beat":   func(t *rapid.T) { m.beat(t, rapid.Bool().Draw(t, "arrives")) },
			"fail over": func(t *rapid.T) {
				m.register(rapid.Bool().Draw(t, "takes"))
				m.check(t)
			},
		})
		for range 6 {
			m.beat(t, true)
			m.known.Heard(&actorpb.HeartbeatAck{Sequence: m.sequence})
		}
		for id, job := range m.jobs {
			if !proto.Equal(job, m.leader.Held(id)) {
				t.Fatalf("the leader knows %v, the agent has %v", m.leader.Held(id), job)
			}
		}
		m.register(true)
		if m.beat(t, true); m.leader.News() {
			t.Fatalf("nothing has changed since the registration, and heartbeat %d tells something", m.sequence)
		}
	})
}
