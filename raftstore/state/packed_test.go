package state

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/command"
	"weir/scheduling/lifecycle"
	"weir/scheduling/statistics"
)

// Recorded of a version that kept statistics by name: the entries of a log, and the
// snapshot taken behind the last one. Each entry and each record has its length before it.
var (
	//go:embed testdata/by_name/log
	logByName []byte
	//go:embed testdata/by_name/snapshot
	snapshotByName []byte
)

// partsOf cuts what has lengths in it.
func partsOf(t *testing.T, data []byte) (parts [][]byte) {
	t.Helper()
	for len(data) > 0 {
		size, n := binary.Uvarint(data)
		if n <= 0 || size > uint64(len(data)-n) {
			t.Fatalf("recorded bytes end in a part of %d", size)
		}
		parts = append(parts, data[n:n+int(size)])
		data = data[n+int(size):]
	}
	return parts
}

// entriesByName returns the commands of the recorded log.
func entriesByName(t *testing.T) (messages []proto.Message) {
	t.Helper()
	for _, entry := range partsOf(t, logByName) {
		decoded, err := command.DecodeEntry(entry)
		if err != nil {
			t.Fatal(err)
		}
		for _, cmd := range decoded {
			messages = append(messages, cmd.Message)
		}
	}
	return messages
}

// packed returns a job whose statistics are as controllers commit them now.
func packed(j *statepb.FinishedJob) *statepb.FinishedJob {
	j = proto.CloneOf(j)
	if s := j.GetStatistics(); s != nil {
		var values statistics.Values
		for name, amount := range s.GetValues() {
			values.Put(name, amount)
		}
		s.Packed, s.Values = values.Pack()
	}
	return j
}

// TestStatisticsByNameAreRead replays a log and reads a snapshot of a version that kept
// statistics by name: both make the state that it had.
func TestStatisticsByNameAreRead(t *testing.T) {
	replayed := New()
	for i, msg := range entriesByName(t) {
		result, _ := replayed.Apply(uint64(i)+1, msg)
		if result.GetRefusal() != nil {
			t.Fatalf("%T: %v", msg, result.GetRefusal())
		}
		for _, j := range result.GetFinishJobs().GetJobs() {
			if j.GetRefusal() != "" {
				t.Fatal(j)
			}
		}
	}
	if err := replayed.Verify(); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(bytesOf(t, replayed.Freeze()), snapshotByName) {
		t.Error("the log has led to another state than it did")
	}
	var records []*statepb.Record
	for _, part := range partsOf(t, snapshotByName) {
		record := new(statepb.Record)
		if err := proto.Unmarshal(part, record); err != nil {
			t.Fatal(err)
		}
		records = append(records, record)
	}
	restored, err := restore(records)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytesOf(t, restored.Freeze()), snapshotByName) {
		t.Error("the snapshot has become another state")
	}
}

// TestStatisticsAreTheSameInBothForms applies the recorded log with packed statistics:
// readers of the state see no difference.
func TestStatisticsAreTheSameInBothForms(t *testing.T) {
	byName, compact := New(), New()
	for i, msg := range entriesByName(t) {
		byName.Apply(uint64(i)+1, msg)
		if m, ok := msg.(*commandpb.FinishJobs); ok {
			m = proto.CloneOf(m)
			for i, j := range m.GetJobs() {
				m.Jobs[i] = packed(j)
			}
			msg = m
		}
		compact.Apply(uint64(i)+1, msg)
	}
	want, _ := byName.Operation("op")
	got, _ := compact.Operation("op")
	if len(got.GetFinishedJobs()) != 4 {
		t.Fatalf("%d jobs have ended", len(got.GetFinishedJobs()))
	}
	for i, j := range got.GetFinishedJobs() {
		measured := j.GetStatistics().Measured()
		if wanted := want.GetFinishedJobs()[i].GetStatistics(); !maps.Equal(measured, wanted.GetValues()) || !maps.Equal(measured, wanted.Measured()) {
			t.Errorf("job %s: got %v, want %v", j.GetJobId(), measured, wanted.GetValues())
		}
	}
	if got, want := compact.Statistics("op"), byName.Statistics("op"); !reflect.DeepEqual(got, want) {
		t.Errorf("added up:\n%+v\nby name:\n%+v", got, want)
	}
	var sum statistics.Aggregate
	for _, task := range compact.Statistics("op") {
		sum.Merge(task.Of(statistics.TimeTotal, lifecycle.JobCompleted.String()))
	}
	if got := StatisticOf(compact, "op", statistics.TimeTotal, lifecycle.JobCompleted); got.Count == 0 || !reflect.DeepEqual(got, sum) {
		t.Errorf("over all tasks %+v, want %+v", got, sum)
	}
	mustRestore(t, compact.Freeze())
}

// TestEachJobIsAddedUpOnce ends jobs with statistics in either form, some of them again,
// with snapshots between: the sums are those of the jobs that were counted.
func TestEachJobIsAddedUpOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := newJournal(t)
		j.must(nodeOf("n1", 64))
		spec := specOf(30)
		spec.MaxFailedJobCount = 100
		j.run("op", spec)
		var want statistics.Set
		for i := range rapid.IntRange(1, 20).Draw(t, "jobs") {
			id := fmt.Sprint("j", i)
			j.start("op", id)
			values := rapid.MapOf(rapid.SampledFrom([]string{statistics.TimeTotal, statistics.UserMaxMemory, statistics.UserCPUWait, "own"}),
				rapid.Int64Range(-5, 1<<40)).Draw(t, "values")
			state := rapid.SampledFrom([]string{"completed", "failed", "aborted"}).Draw(t, "state")
			ended := &statepb.FinishedJob{JobId: id, State: state, Statistics: &statepb.JobStatistics{Values: values}}
			if rapid.Bool().Draw(t, "packed") {
				ended = packed(ended)
			}
			want.Add(state, values)
			for range rapid.IntRange(1, 2).Draw(t, "times") {
				j.apply(&commandpb.FinishJobs{OperationId: "op", Epoch: 1, Jobs: []*statepb.FinishedJob{proto.CloneOf(ended)}})
			}
			switch rapid.IntRange(0, 3).Draw(t, "snapshot") {
			case 0:
				j.state = mustRestore(t, j.state.Freeze())
			case 1:
				j.state.Freeze()
			}
			if got := j.operation("op").GetFinishedJobs(); !maps.Equal(got[len(got)-1].GetStatistics().Measured(), values) {
				t.Fatalf("%s is kept with %v, want %v", id, got[len(got)-1].GetStatistics(), values)
			}
		}
		if got := j.state.Statistics("op")[0].Set; !reflect.DeepEqual(got, want) {
			t.Fatalf("added up %+v, want %+v", got, want)
		}
	})
}

// TestStatisticsThatCannotBeRead are refused job by job, and leave the state as it was.
func TestStatisticsThatCannotBeRead(t *testing.T) {
	j := newJournal(t)
	j.must(nodeOf("n1", 16))
	j.run("op", specOf(2))
	j.start("op", "j0", "j1")
	result, _ := j.apply(&commandpb.FinishJobs{OperationId: "op", Epoch: 1, Jobs: []*statepb.FinishedJob{
		{JobId: "j0", State: "completed", Statistics: &statepb.JobStatistics{Packed: []byte{0}}},
		packed(&statepb.FinishedJob{JobId: "j1", State: "completed", Statistics: &statepb.JobStatistics{Values: map[string]int64{statistics.TimeTotal: 1}}}),
	}})
	jobs := result.GetFinishJobs().GetJobs()
	if jobs[0].GetRefusal() != CodeInvalidCommand || !strings.Contains(jobs[0].GetMessage(), `job "j0"`) || jobs[1].GetRefusal() != "" {
		t.Errorf("got %v", jobs)
	}
	if got := j.operation("op").GetTasks()[0].GetCounters(); got.GetCompleted() != 1 || got.GetRunning() != 1 {
		t.Errorf("counted as %v", got)
	}
}

// TestWhatIsKeptDoesNotDependOnBatches keeps jobs that ended in commands of many and of
// one: the same are left, and the same with all that was measured.
func TestWhatIsKeptDoesNotDependOnBatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 3*keptValues).Draw(t, "limit")
		o, single := &operation{version: &version{record: new(statepb.Operation)}}, &operation{version: &version{record: new(statepb.Operation)}}
		s := empty()
		s.limits.FinishedJobsPerOperation = int32(limit)
		for range rapid.IntRange(1, 4).Draw(t, "commands") {
			many := &change{State: s}
			for i := range rapid.IntRange(1, 2*keptValues).Draw(t, "jobs") {
				j := &statepb.FinishedJob{JobId: fmt.Sprint(i), State: rapid.SampledFrom([]string{"completed", "failed"}).Draw(t, "state")}
				if rapid.IntRange(0, 5).Draw(t, "measured") > 0 {
					j.Statistics = &statepb.JobStatistics{Packed: []byte{1, 2}}
				}
				many.keep(o, j)
				one := &change{State: s}
				one.keep(single, j)
				one.trimKept()
			}
			if rapid.Bool().Draw(t, "told between") {
				s.trimHistory(o)
			}
			many.trimKept()
			if !proto.Equal(o.record, single.record) {
				t.Fatalf("many at a time: %v\none at a time: %v", o.record, single.record)
			}
		}
		kept := o.record.GetFinishedJobs()
		for i, j := range kept {
			if i < len(kept)-keptValues && len(j.GetStatistics().GetPacked()) > 0 {
				t.Fatalf("job %d of %d has all that was measured", i, len(kept))
			}
		}
	})
}
