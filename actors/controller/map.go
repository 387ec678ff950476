package controller

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"weir/cluster/storage"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
	"weir/scheduling/slicing"
)

const (
	// maxJobSlices bounds the file parts that one job reads, so that its spec and its result are
	// small messages.
	maxJobSlices = 500
	// maxInputBytes bounds the size of an input's file list, and of its slices. Each is part of one
	// command, which is one log entry.
	maxInputBytes = 3 << 20
	// formatBytes is the format without records.
	formatBytes = "bytes"
)

// outputOf returns where a map operation writes.
func outputOf(op *statepb.Operation) storage.Output {
	return storage.Output{Path: op.GetSpec().GetMap().GetOutputPath(), Operation: op.GetId()}
}

// partName returns the name of a job's output file, which is unique to the job.
func partName(allocation *statepb.Allocation) string {
	return fmt.Sprintf("part-%05d-%s", allocation.GetCookie(), allocation.GetJobId())
}

// cut returns the slices that each job of a map operation reads.
func cut(m *statepb.MapSpec, input *statepb.Input, maxJobs int) ([]*statepb.Slices, error) {
	sizes := make([]int64, 0, len(input.GetFiles()))
	for _, file := range input.GetFiles() {
		sizes = append(sizes, file.GetSize())
	}
	size := slicing.Size{BytesPerJob: m.GetDataSizePerJob(), Jobs: int(m.GetJobCount())}
	jobs, err := slicing.Cut(sizes, size, slicing.Limits{Jobs: maxJobs, Slices: maxJobSlices})
	if err != nil {
		return nil, err
	}
	return told(jobs), nil
}

// checkSize refuses an input whose file list or slices are too large for one message.
func checkSize(input *statepb.Input, jobs []*statepb.Slices) error {
	files, slices := proto.Size(input), proto.Size(&commandpb.TaskDefinition{Slices: jobs})
	if files > maxInputBytes || slices > maxInputBytes {
		return fmt.Errorf("%d input files for %d jobs: names and slices take %d and %d bytes, the limit of each is %d: join files, or give each job more",
			len(input.GetFiles()), len(jobs), files, slices, maxInputBytes)
	}
	return nil
}

// told converts slices to records; listed converts records to slices.
func told(jobs [][]slicing.Slice) []*statepb.Slices {
	out := make([]*statepb.Slices, 0, len(jobs))
	for _, job := range jobs {
		one := &statepb.Slices{Slices: make([]*statepb.Slice, 0, len(job))}
		for _, s := range job {
			one.Slices = append(one.Slices, &statepb.Slice{File: s.File, Begin: s.Begin, End: s.End})
		}
		out = append(out, one)
	}
	return out
}

func listed(records []*statepb.Slice) []slicing.Slice {
	out := make([]slicing.Slice, 0, len(records))
	for _, s := range records {
		out = append(out, slicing.Slice{File: s.GetFile(), Begin: s.GetBegin(), End: s.GetEnd()})
	}
	return out
}

// inputRecord returns the input record of these files.
func inputRecord(files []*statepb.InputFile) *statepb.Input {
	input := &statepb.Input{Files: files}
	for _, file := range files {
		input.Bytes += file.GetSize()
	}
	return input
}

// prepared returns the command that prepares a map operation, or makes it fail with err.
func prepared(op *statepb.Operation, epoch uint64, input *statepb.Input, err error) *commandpb.PrepareOperation {
	step := &commandpb.PrepareOperation{OperationId: op.GetId(), Epoch: epoch, Input: input, Admit: true}
	if err != nil {
		step.Input = nil
		step.Error = &statepb.Error{Code: int32(lifecycle.CodeFailedToPrepare), Message: err.Error()}
	}
	return step
}

// published returns the command that ends publishing an output, successfully or with err.
func published(op *statepb.Operation, epoch uint64, parts []*statepb.CompletedPart, err error) *commandpb.PublishOutput {
	step := &commandpb.PublishOutput{OperationId: op.GetId(), Epoch: epoch}
	if err != nil {
		step.Error = &statepb.Error{
			Code: int32(lifecycle.CodeJobFailed), Message: fmt.Sprintf("cannot publish output: %v", err),
			Attributes: map[string]string{"output_path": op.GetSpec().GetMap().GetOutputPath()},
		}
		return step
	}
	step.Output = &statepb.Output{Path: op.GetSpec().GetMap().GetOutputPath()}
	for _, part := range parts {
		step.Output.Rows += part.GetOutput().GetRows()
		step.Output.Bytes += part.GetOutput().GetBytes()
	}
	return step
}

// feed returns what a job reads and the name of its output, without their locations, which come
// from the storage.
func feed(m *statepb.MapSpec, input *statepb.Input, slices []*statepb.Slice, allocation *statepb.Allocation) (*actorpb.JobFeed, error) {
	feed := &actorpb.JobFeed{Format: m.GetFormat(), MaxRecordBytes: m.GetMaxRecordBytes(), OutputPart: partName(allocation)}
	for _, slice := range slices {
		if int(slice.GetFile()) >= len(input.GetFiles()) {
			return nil, fmt.Errorf("feed of job %s: no input file %d, there are %d", allocation.GetJobId(), slice.GetFile(), len(input.GetFiles()))
		}
		feed.Parts = append(feed.Parts, &actorpb.FeedPart{Slice: slice, File: input.GetFiles()[slice.GetFile()]})
	}
	if len(feed.Parts) == 0 {
		return nil, fmt.Errorf("feed of job %s: cookie %d has nothing to read", allocation.GetJobId(), allocation.GetCookie())
	}
	return feed, nil
}
