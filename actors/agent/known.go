package agent

import (
	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
)

// Known is what a leader has been told of an agent's jobs, so that a heartbeat tells it only what is
// new. Everything is told again until the leader acknowledges a heartbeat with it: the changes since an
// acknowledged heartbeat bring any later knowledge up to date, too. The zero value is for an agent that
// has not registered.
type Known struct {
	told map[string]telling
	// acknowledged is the last heartbeat that the leader has acknowledged; 0: the registration.
	acknowledged uint64
	// changes means that the leader takes heartbeats that list only changes.
	changes bool
}

// telling is what was said of a job last, in which heartbeat; a nil job: that it is gone.
type telling struct {
	job *actorpb.HeldJob
	at  uint64
}

// measuredEach is after how many heartbeats the memory and the processor time of a job are told
// again, if nothing else of it changes: those of busy jobs are different in each.
const measuredEach = 5

// Register begins with the jobs of a registration.
func (k *Known) Register(jobs []*actorpb.HeldJob) {
	*k = Known{told: make(map[string]telling, len(jobs))}
	for _, job := range jobs {
		k.told[job.GetJobId()] = telling{job: job}
	}
}

// Heard takes the leader's answer to the registration or the last heartbeat.
func (k *Known) Heard(answer proto.Message) {
	switch m := answer.(type) {
	case *actorpb.AgentRegistered:
		k.changes = m.GetTakesChanges()
	case *actorpb.HeartbeatAck:
		k.acknowledged = m.GetSequence()
	}
}

// Tell puts into a heartbeat what it has to tell of jobs, which are all that the agent has. Jobs are not
// changed afterwards: a job that changes becomes another message.
func (k *Known) Tell(beat *actorpb.Heartbeat, jobs []*actorpb.HeldJob) {
	if !k.changes {
		beat.Jobs = jobs
		return
	}
	beat.OnlyChanges = true
	has := make(map[string]bool, len(jobs))
	for _, job := range jobs {
		has[job.GetJobId()] = true
		if last, ok := k.told[job.GetJobId()]; !ok || last.at > k.acknowledged || last.isOld(job, beat.GetSequence()) {
			k.told[job.GetJobId()] = telling{job, beat.GetSequence()}
			beat.Jobs = append(beat.Jobs, job)
		}
	}
	for id, last := range k.told {
		switch {
		case has[id]:
		case last.job == nil && last.at <= k.acknowledged:
			delete(k.told, id)
		default:
			k.told[id] = telling{at: beat.GetSequence()}
			beat.Gone = append(beat.Gone, id)
		}
	}
}

// isOld reports whether a heartbeat has to tell of the job again.
func (t telling) isOld(job *actorpb.HeldJob, sequence uint64) bool {
	switch {
	case t.job == job:
		return false
	case t.job == nil || t.job.GetPhase() != job.GetPhase() || t.job.GetPid() != job.GetPid() ||
		!t.job.GetDeadline().AsTime().Equal(job.GetDeadline().AsTime()) || !t.job.GetStartTime().AsTime().Equal(job.GetStartTime().AsTime()):
		return true
	default:
		return sequence >= t.at+measuredEach && !proto.Equal(t.job, job)
	}
}
