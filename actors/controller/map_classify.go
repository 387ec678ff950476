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

// attrDivided is an attribute of a failed job's error: the number of parts into which its slices
// are divided.
const attrDivided = "slices_divided_into"

// suspicion is how a cookie has failed so far.
type suspicion struct {
	// before is how many jobs have failed on exactly the cookie's present slices.
	before int
	// divided means that the slices are a part of larger ones on which a job has failed.
	divided bool
}

// suspect returns the suspicion of a cookie from finished jobs, oldest first.
func suspect(finished []*statepb.FinishedJob, cookie int32, initial int) suspicion {
	s := suspicion{divided: int(cookie) >= initial}
	for _, job := range finished {
		if job.GetCookie() == cookie && job.GetState() == lifecycle.JobFailed.String() {
			s.note(job)
		}
	}
	return s
}

// note adds a failure.
func (s *suspicion) note(job *statepb.FinishedJob) {
	s.before++
	if job.GetError().GetAttributes()[attrDivided] != "" {
		s.before, s.divided = 0, true
	}
}

// classifyRead completes the record of a job that reads input: which part of the input counts, and
// how the rest is read. `lone` means that the job failed on a single record, which the caller has
// to name.
func classifyRead(job *statepb.FinishedJob, m *statepb.MapSpec, allocation *statepb.Allocation, given []*statepb.Slice, s suspicion) (lone bool) {
	job.Split, job.Skipped, job.Fatal = nil, nil, false
	switch job.GetState() {
	case lifecycle.JobCompleted.String():
		completeRead(job, allocation, given)
		return false
	case lifecycle.JobFailed.String():
		lone = failRead(job, m, given, s)
	}
	// Its input is read again, and its output is discarded.
	job.Input, job.Output = nil, nil
	return lone
}

// completeRead checks a completed job's report of its input and output.
func completeRead(job *statepb.FinishedJob, allocation *statepb.Allocation, given []*statepb.Slice) {
	in := job.GetInput()
	fits := slicing.Covers(listed(given), listed(in.GetProcessed()), listed(in.GetRest()))
	switch {
	case job.GetRerun():
	case !fits || job.GetOutput().GetPart() != partName(allocation):
		// The report may be from another incarnation of the node.
		job.State, job.AbortReason = lifecycle.JobAborted.String(), lifecycle.AbortJobProxyFailed.String()
		job.Error = &statepb.Error{Code: int32(lifecycle.CodeJobFailed), Message: fmt.Sprintf(
			"job reports that it read %v, left %v and wrote %q; it was given %v and %q", in.GetProcessed(), in.GetRest(), job.GetOutput().GetPart(), given, partName(allocation))}
	case len(in.GetProcessed()) == 0:
		// The job was interrupted before it got any input.
		job.Rerun = true
	default:
		return
	}
	job.Input, job.Output = nil, nil
}

// failRead decides how to continue after a failure.
func failRead(job *statepb.FinishedJob, m *statepb.MapSpec, given []*statepb.Slice, s suspicion) (lone bool) {
	attributes := job.GetError().GetAttributes()
	switch {
	case attributes[statepb.AttributeInputFault] != "":
		// The next job would fail in the same way.
		job.Fatal = true
		return false
	case attributes[statepb.AttributeOutputFault] != "" || job.GetPid() == 0 || m.GetFormat() == formatBytes:
		// No record is to blame.
		return false
	}
	whole := listed(given)
	failure := slicing.Failure{Fed: listed(job.GetInput().GetProcessed()), Rest: listed(job.GetInput().GetRest()), Rows: job.GetInput().GetRows(), Before: s.before, Divided: s.divided}
	if !slicing.Covers(whole, failure.Fed, failure.Rest) {
		// The job does not report how far it got.
		failure.Fed, failure.Rest = nil, whole
	}
	next := slicing.AfterFailure(failure)
	if len(next.Parts) > 1 {
		job.Split = told(next.Parts)
		job.Error = withAttributes(job.GetError(), map[string]string{attrDivided: strconv.Itoa(len(next.Parts))})
	}
	return next.Lone
}

// blame names the only record of a slice as the cause of a job's failure. The record is skipped if
// the operation may skip another one (left > 0); otherwise the operation fails.
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

// recordOf returns the only record of a slice as the job proxy reported it, or the slice itself if
// the report is missing or does not fit.
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
