package controller

import (
	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
	"weir/messages/statepb"
)

// Ends holds the results of jobs until they are committed. Agents repeat a result until it is
// answered. At most one proposal of a result is in flight; its outcome answers the agent's latest
// repetition.
type Ends struct {
	// waiting are the results to propose, in the order in which they came.
	waiting []string
	byJob   map[string]*end
	// limit bounds the number of results; beyond it agents are refused.
	limit int
}

type end struct {
	job *statepb.FinishedJob
	// reply answers the agent's last repetition: an agent has one request in flight.
	reply func(proto.Message)
}

// NewEnds returns a collection of at most limit results.
func NewEnds(limit int) *Ends { return &Ends{byJob: map[string]*end{}, limit: limit} }

// Again replaces the reply of a result, and reports whether the result is held.
func (e *Ends) Again(job string, reply func(proto.Message)) bool {
	held, ok := e.byJob[job]
	if ok {
		held.reply = reply
	}
	return ok
}

// Skipped returns how many of the held results skip a record.
func (e *Ends) Skipped() (n int64) {
	for _, held := range e.byJob {
		if held.job.GetSkipped() != nil {
			n++
		}
	}
	return n
}

// Add adds a result, and reports whether there was room for it.
func (e *Ends) Add(job *statepb.FinishedJob, reply func(proto.Message)) bool {
	if e.Again(job.GetJobId(), reply) {
		return true
	}
	if len(e.byJob) >= e.limit {
		return false
	}
	e.byJob[job.GetJobId()] = &end{job: job, reply: reply}
	e.waiting = append(e.waiting, job.GetJobId())
	return true
}

// Take returns results to propose: up to n results of up to the given number of bytes together, but
// at least one result if any waits. The results stay held until Settle or Return.
func (e *Ends) Take(n, bytes int) []*statepb.FinishedJob {
	var jobs []*statepb.FinishedJob
	for _, id := range e.waiting[:min(n, len(e.waiting))] {
		job := e.byJob[id].job
		if bytes -= proto.Size(job); bytes < 0 && len(jobs) > 0 {
			break
		}
		jobs = append(jobs, job)
	}
	e.waiting = e.waiting[len(jobs):]
	return jobs
}

// Return puts results whose proposal was not committed back at the head of the queue.
func (e *Ends) Return(jobs []*statepb.FinishedJob) {
	back := make([]string, 0, len(jobs)+len(e.waiting))
	for _, job := range jobs {
		back = append(back, job.GetJobId())
	}
	e.waiting = append(back, e.waiting...)
}

// Settle answers the agent that waits for a job's result. refusal is empty when the attempt was
// counted.
func (e *Ends) Settle(job, refusal string) {
	held, ok := e.byJob[job]
	if !ok {
		return
	}
	delete(e.byJob, job)
	held.reply(&actorpb.JobEndedAck{JobId: job, Refusal: refusal})
}

// Drop answers all waiting agents, because this controller has lost its operation.
func (e *Ends) Drop(answer proto.Message) {
	for id, held := range e.byJob {
		held.reply(answer)
		delete(e.byJob, id)
	}
	e.waiting = nil
}
