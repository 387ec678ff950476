package controller

import (
	"fmt"
	"maps"
	"strconv"

	"google.golang.org/protobuf/proto"

	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
	"weir/scheduling/slicing"
)

// attrDivided is the attribute of a failed job's error that says in how many parts its slices
// are read from now on.
const attrDivided = "slices_divided_into"

// suspicion is how a cookie has failed so far.
type suspicion struct {
	// before is how many jobs have failed on the cookie's slices as they are.
	before int
	// divided: the slices are a part of others that a job has failed on.
	divided bool
}

// suspect returns what finished jobs, oldest first, say of a cookie.
func suspect(finished []*statepb.FinishedJob, cookie int32, initial int) suspicion {
	s := suspicion{divided: int(cookie) >= initial}
	for _, job := range finished {
		if job.GetCookie() == cookie && job.GetState() == lifecycle.JobFailed.String() {
			s.note(job)
		}
	}
	return s
}

// note takes in a failure.
func (s *suspicion) note(job *statepb.FinishedJob) {
	s.before++
	if job.GetError().GetAttributes()[attrDivided] != "" {
		s.before, s.divided = 0, true
	}
}

// classifyRead completes the record of a job that reads: what of its input counts, and
// what becomes of the rest. lone: the job has failed on one record alone, which is
// to be named.
func classifyRead(job *statepb.FinishedJob, m *statepb.MapSpec, allocation *statepb.Allocation, given []*statepb.Slice, s suspicion) (lone bool) {
	job.Split, job.Skipped, job.Fatal = nil, nil, false
	switch job.GetState() {
	case lifecycle.JobCompleted.String():
		completeRead(job, allocation, given)
		return false
	case lifecycle.JobFailed.String():
		lone = failRead(job, m, given, s)
	}
	// Whatever it has read is read again, and what it wrote is nobody's.
	job.Input, job.Output = nil, nil
	return lone
}

// completeRead checks what a completed job says of its input and output.
func completeRead(job *statepb.FinishedJob, allocation *statepb.Allocation, given []*statepb.Slice) {
	in := job.GetInput()
	fits := slicing.Covers(listed(given), listed(in.GetProcessed()), listed(in.GetRest()))
	switch {
	case job.GetRerun():
	case !fits || job.GetOutput().GetPart() != partName(allocation):
		// It may be that of another life of the node.
		job.State, job.AbortReason = lifecycle.JobAborted.String(), lifecycle.AbortJobProxyFailed.String()
		job.Error = &statepb.Error{Code: int32(lifecycle.CodeJobFailed), Message: fmt.Sprintf(
			"job reports that it read %v, left %v and wrote %q; it was given %v and %q", in.GetProcessed(), in.GetRest(), job.GetOutput().GetPart(), given, partName(allocation))}
	case len(in.GetProcessed()) == 0:
		// It was asked to leave before it got anything.
		job.Rerun = true
	default:
		return
	}
	job.Input, job.Output = nil, nil
}

// failRead decides what follows from a failure.
func failRead(job *statepb.FinishedJob, m *statepb.MapSpec, given []*statepb.Slice, s suspicion) (lone bool) {
	attributes := job.GetError().GetAttributes()
	switch {
	case attributes[statepb.AttributeInputFault] != "":
		// It would be the same for the next job.
		job.Fatal = true
		return false
	case attributes[statepb.AttributeOutputFault] != "" || job.GetPid() == 0 || m.GetFormat() == formatBytes:
		// No record is to blame.
		return false
	}
	whole := listed(given)
	failure := slicing.Failure{Fed: listed(job.GetInput().GetProcessed()), Rest: listed(job.GetInput().GetRest()), Rows: job.GetInput().GetRows(), Before: s.before, Divided: s.divided}
	if !slicing.Covers(whole, failure.Fed, failure.Rest) {
		// The job does not say how far it came.
		failure.Fed, failure.Rest = nil, whole
	}
	next := slicing.AfterFailure(failure)
	if len(next.Parts) > 1 {
		job.Split = told(next.Parts)
		job.Error = withAttributes(job.GetError(), map[string]string{attrDivided: strconv.Itoa(len(next.Parts))})
	}
	return next.Lone
}

// blame makes the one record of a slice that a job could not survive the cause of its
// failure: it is left out, when the operation may leave out another, or the operation
// fails.
func blame(job *statepb.FinishedJob, file *statepb.InputFile, slice *statepb.Slice, left int64) {
	record := recordOf(job.GetError(), slice)
	named := map[string]string{statepb.AttributeInputPath: file.GetPath(), statepb.AttributeRecordOffset: strconv.FormatInt(record.GetBegin(), 10), statepb.AttributeRecordEnd: strconv.FormatInt(record.GetEnd(), 10)}
	job.Error = withAttributes(job.GetError(), named)
	if left > 0 {
		job.Skipped = record
		return
	}
	job.Fatal = true
	job.Error = &statepb.Error{
		Code: int32(lifecycle.CodeJobFailed), Inner: []*statepb.Error{job.GetError()}, Attributes: job.GetError().GetAttributes(),
		Message: fmt.Sprintf("every job fails on the record at byte %d of %s, which begins with %q: fix it, or set max_skipped_records to skip it",
			record.GetBegin(), file.GetPath(), record.GetHead()),
	}
}

// recordOf returns the one record of a slice, as the job proxy has told it; else it is
// where the slice is.
func recordOf(failed *statepb.Error, slice *statepb.Slice) *statepb.SkippedRecord {
	attributes := failed.GetAttributes()
	begin, beginErr := strconv.ParseInt(attributes[statepb.AttributeRecordOffset], 10, 64)
	end, endErr := strconv.ParseInt(attributes[statepb.AttributeRecordEnd], 10, 64)
	if beginErr != nil || endErr != nil || begin < slice.GetBegin() || begin >= slice.GetEnd() || end <= begin {
		return &statepb.SkippedRecord{File: slice.GetFile(), Begin: slice.GetBegin(), End: slice.GetEnd()}
	}
	head, err := strconv.Unquote(attributes[statepb.AttributeRecordHead])
	if err != nil {
		head = attributes[statepb.AttributeRecordHead]
	}
	return &statepb.SkippedRecord{File: slice.GetFile(), Begin: begin, End: end, Head: []byte(head)}
}

func withAttributes(failed *statepb.Error, more map[string]string) *statepb.Error {
	failed = proto.CloneOf(failed)
	attributes := maps.Clone(failed.GetAttributes())
	if attributes == nil {
		attributes = map[string]string{}
	}
	maps.Copy(attributes, more)
	failed.Attributes = attributes
	return failed
}
