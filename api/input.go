package api

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// addInputOf adds the input of a map operation, and the records that were skipped because
// every job that read them failed.
func addInputOf(out *apipb.Operation, st *state.State, op *statepb.Operation) {
	input := st.Input(scheduling.OperationID(op.GetId()))
	if input != nil {
		out.Input = &apipb.OperationInput{Files: int64(len(input.GetFiles())), Bytes: input.GetBytes()}
	}
	for i, task := range op.GetTasks() {
		for _, r := range task.GetSkipped() {
			out.Tasks[i].Input.Skipped = append(out.Tasks[i].Input.Skipped, &apipb.SkippedRecord{
				File: r.GetPath(), Begin: r.GetBegin(), End: r.GetEnd(), Head: strings.ToValidUTF8(string(r.GetHead()), "�"),
			})
		}
	}
}

// outputOf shows what a map operation has written; nil before it is published.
func outputOf(written *statepb.Output) *apipb.OperationOutput {
	if written == nil {
		return nil
	}
	return &apipb.OperationOutput{Path: written.GetPath(), Rows: written.GetRows(), Bytes: written.GetBytes(), Time: written.GetTime()}
}

// fileName returns the path of an input file by its number; empty if it is not known.
func fileName(input *statepb.Input, number int32) string {
	if files := input.GetFiles(); number >= 0 && int(number) < len(files) {
		return files[number].GetPath()
	}
	return ""
}

// inputProgressOf shows how much of the input has been read; nil without any.
func inputProgressOf(p *statepb.InputProgress) *apipb.InputProgress {
	if p == nil {
		return nil
	}
	return &apipb.InputProgress{
		BytesTotal: p.GetBytesTotal(), Bytes: p.GetBytes(), Rows: p.GetRows(), Hash: p.GetHash(), SkippedRecords: p.GetSkippedRecords(),
	}
}

// addInput adds how much of the input a task has read.
func addInput(sum *apipb.TaskProgress, p *apipb.InputProgress) {
	if p == nil {
		return
	}
	if sum.GetInput() == nil {
		sum.Input = &apipb.InputProgress{}
	}
	sum.Input.BytesTotal += p.GetBytesTotal()
	sum.Input.Bytes += p.GetBytes()
	sum.Input.Rows += p.GetRows()
	sum.Input.Hash += p.GetHash()
	sum.Input.SkippedRecords += p.GetSkippedRecords()
}

// gangOf shows the present incarnation of a gang; nil without one.
func gangOf(g *statepb.Gang) *apipb.GangProgress {
	if g == nil {
		return nil
	}
	return &apipb.GangProgress{Incarnation: g.GetIncarnation(), Size: g.GetSize(), Reason: g.GetReason(), CompletedRanks: countOf(g.GetCompleted())}
}

// rankOf returns the rank of a job in its gang; nil if it has none.
func rankOf(rank *int32) *int32 {
	if rank == nil || *rank < 0 {
		return nil
	}
	return proto.Int32(*rank)
}

// addReading adds the input slices that were assigned to a running job.
func addReading(out *apipb.Job, st *state.State, a *statepb.Allocation) {
	operation := scheduling.OperationID(a.GetOperationId())
	if given := st.Slices(operation, scheduling.TaskName(a.GetTask()), scheduling.Cookie(a.GetCookie())); given != nil {
		out.Input = &apipb.JobInput{Slices: slicesOf(st.Input(operation), given)}
	}
}

// addRead adds what a finished job read and wrote.
func addRead(out *apipb.Job, st *state.State, operation string, j *statepb.FinishedJob) {
	if in := j.GetInput(); in != nil {
		out.Input = &apipb.JobInput{Slices: slicesOf(st.Input(scheduling.OperationID(operation)), in.GetProcessed()), Rows: in.GetRows(), Bytes: in.GetBytes()}
		for _, s := range in.GetRest() {
			out.Input.RestBytes += s.GetEnd() - s.GetBegin()
		}
	}
	if written := j.GetOutput(); written != nil {
		out.Output = &apipb.JobOutput{Rows: written.GetRows(), Bytes: written.GetBytes()}
	}
}

func slicesOf(input *statepb.Input, all []*statepb.Slice) []*apipb.InputSlice {
	return mapped(all, func(s *statepb.Slice) *apipb.InputSlice {
		return &apipb.InputSlice{File: fileName(input, s.GetFile()), Begin: s.GetBegin(), End: s.GetEnd()}
	})
}
