package journal

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/journalpb"
	"weir/messages/statepb"
	"weir/scheduling"
)

// Seen returns the record of the highest token seen so far.
func Seen(token scheduling.Token) *journalpb.Record {
	return &journalpb.Record{Event: &journalpb.Record_Seen{Seen: tokenOf(token)}}
}

// Granted returns the record written before the agent acts on a grant. plan is the token of the
// plan that contains the grant.
func Granted(start *actorpb.StartJob, plan scheduling.Token) *journalpb.Record {
	return &journalpb.Record{Plan: tokenOf(plan), Event: &journalpb.Record_Granted{Granted: start}}
}

// Starting returns the record of a job whose processes are about to be started. boot identifies the
// boot of the machine. The record has no secrets.
func Starting(spec *actorpb.JobSpec, boot string) *journalpb.Record {
	if len(spec.GetSecrets()) > 0 {
		spec = proto.CloneOf(spec)
		spec.Secrets = nil
	}
	return &journalpb.Record{Event: &journalpb.Record_Starting{
		Starting: &journalpb.Starting{JobId: spec.GetJobId(), Spec: spec, Boot: boot},
	}}
}

// Started returns the record of a job whose command runs.
func Started(job string, pid int, start *timestamppb.Timestamp, cgroup string) *journalpb.Record {
	return &journalpb.Record{Event: &journalpb.Record_Started{
		Started: &journalpb.Started{JobId: job, Pid: int64(pid), StartTime: start, Cgroup: cgroup},
	}}
}

// Stopping returns the record of a job that is about to be asked to leave by the given deadline.
func Stopping(job string, order *statepb.StopOrder, deadline *timestamppb.Timestamp) *journalpb.Record {
	return &journalpb.Record{Event: &journalpb.Record_Stopping{
		Stopping: &journalpb.Stopping{JobId: job, Order: order, Deadline: deadline},
	}}
}

// Said returns the record of a job's report of its readiness.
func Said(job, word string) *journalpb.Record {
	return &journalpb.Record{Event: &journalpb.Record_Said{Said: &journalpb.Said{JobId: job, Word: word}}}
}

// Exited returns the record of a job's end.
func Exited(job *statepb.FinishedJob, stderrTail []byte) *journalpb.Record {
	return &journalpb.Record{Event: &journalpb.Record_Exited{Exited: &journalpb.Exited{Job: job, StderrTail: stderrTail}}}
}

// Released returns the record of jobs whose results nobody waits for.
func Released(jobs ...string) *journalpb.Record {
	return &journalpb.Record{Event: &journalpb.Record_Released{Released: &journalpb.Released{JobIds: jobs}}}
}

// Unstarted returns the record of jobs that were granted but never had a process.
func Unstarted(jobs ...string) *journalpb.Record {
	record := Released(jobs...)
	record.GetReleased().Unstarted = true
	return record
}

// Rejected returns the record of a rejected token, or of a rejected order about a job. seen is the
// highest token at that time, and from is the replica that sent the rejected one.
func Rejected(reason string, token, seen scheduling.Token, from, job string) *journalpb.Record {
	return &journalpb.Record{Event: &journalpb.Record_Rejected{Rejected: &journalpb.Rejected{
		Reason: reason, Token: tokenOf(token), Seen: tokenOf(seen), From: from, JobId: job,
	}}}
}

func tokenOf(token scheduling.Token) *actorpb.Token {
	return &actorpb.Token{Term: token.Term, Index: token.Index}
}
