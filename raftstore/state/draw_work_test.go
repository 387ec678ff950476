package state

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// kindOfWork makes an operation read an input, or a task of it a gang or a sweep, now and then.
func (g generator) kindOfWork(spec *statepb.OperationSpec) {
	switch g.pick(6, "kind of work") {
	case 2:
		t := spec.Tasks[0]
		t.MaxAttempts = int32(g.pick(4, "attempts"))
		t.RestartCompletedJobs = !g.mostly()
		if t.MaxSurge = 0; g.pick(2, "some cookies") == 0 {
			end := int32(g.pick(int(t.GetJobCount())+1, "last cookie"))
			t.Cookies = []*statepb.Interval{{Begin: end / 2, End: end}}
		}
	case 0:
		spec.Type, spec.Tasks = lifecycle.Map, spec.Tasks[:1]
		spec.Map = &statepb.MapSpec{MaxSkippedRecords: int64(g.pick(3, "may skip"))}
		spec.Tasks[0].RestartCompletedJobs = !g.mostly()
	case 1:
		t := spec.Tasks[0]
		t.Gang = &statepb.GangSpec{Size: int32(g.pick(int(t.GetJobCount())+1, "gang"))}
		t.RestartCompletedJobs = !g.mostly()
	}
}

// inputOf returns what an operation of a test reads: files of 30, 0 and 20 bytes.
func inputOf(o *statepb.Operation) *statepb.Input {
	if o.GetSpec().GetType() != lifecycle.Map {
		return nil
	}
	return &statepb.Input{Bytes: 50, Files: []*statepb.InputFile{{Path: "a", Size: 30}, {Path: "b"}, {Path: "c", Size: 20}}}
}

func slicesOf(all ...*statepb.Slice) *statepb.Slices { return &statepb.Slices{Slices: all} }

func slice(file int32, begin, end int64) *statepb.Slice {
	return &statepb.Slice{File: file, Begin: begin, End: end}
}

// memory draws what is known of a task before its first job.
func (g generator) memory() *statepb.TaskMemory {
	if g.pick(3, "memory") == 0 {
		return nil
	}
	m := &statepb.TaskMemory{Reserve: &statepb.JobReserve{User: 700, Proxy: 300}, Profile: g.one([]string{"", "p1", "p2"}, "profile")}
	if !g.mostly() {
		m.Reserve.User, m.SampleCount = int64(g.pick(9, "reserved")-2000), int64(g.pick(2, "samples"))
	}
	return m
}

// defineInput adds what the jobs of a map operation read.
func (g generator) defineInput(d *commandpb.TaskDefinition) {
	d.Slices = []*statepb.Slices{slicesOf(slice(0, 0, 12)), slicesOf(slice(0, 12, 30), slice(2, 0, 5)), slicesOf(slice(2, 5, 20))}
	d.JobCount = 3
	if !g.mostly() {
		d.Slices[g.pick(3, "spoiled")].Slices[0].End--
	}
}

// allOrNone draws grants of the jobs of one task that wait, which are granted together.
func (g generator) allOrNone() proto.Message {
	m := &commandpb.StartAllocations{Term: g.term()}
	for o := range g.state.InProgress() {
		for _, d := range g.state.Demand(scheduling.OperationID(o.GetId())) {
			for i := range min(d.Pending, 4) {
				m.Grants = append(m.Grants, &commandpb.Grant{
					JobId: fmt.Sprintf("g%d-%s-%s-%d-%d", g.step, o.GetId(), d.Task, d.Group, i), OperationId: o.GetId(), Task: string(d.Task),
					Node: g.one([]string{"n1", "n1", "n2"}, "node"), NodeIncarnation: 1, Resources: jobSize(), DedicatedMemory: d.Group, AllOrNone: true,
				})
			}
		}
	}
	for _, grant := range m.GetGrants() {
		known, _ := g.state.Node(scheduling.NodeID(grant.GetNode()))
		grant.NodeIncarnation = known.GetIncarnation()
		g.claim(grant)
	}
	return m
}

// dedicate lets a grant be for a group that waits, most of the time.
func (g generator) dedicate(grant *commandpb.Grant) {
	for _, d := range g.state.Demand(scheduling.OperationID(grant.GetOperationId())) {
		if string(d.Task) == grant.GetTask() && d.Group != 0 && g.mostly() {
			grant.DedicatedMemory = d.Group
		}
	}
	if !g.mostly() {
		grant.DedicatedMemory = 4000
	}
}

// result draws what a job has measured, learned, read and left.
func (g generator) result(a *statepb.Allocation, j *statepb.FinishedJob) {
	if g.pick(2, "values") == 0 {
		j.Statistics.Values = map[string]int64{"user_job/max_memory": int64(g.pick(1000, "used")), "time/exec": int64(g.pick(5, "exec"))}
	}
	if j.GetState() == "aborted" && g.pick(2, "overdraft") == 0 {
		j.AbortReason = "resource_overdraft"
		j.NextReserve = &statepb.CookieReserve{
			Reserve:        &statepb.JobReserve{User: int64(1000 * (1 + g.pick(3, "reserve"))), Proxy: 100, Predecessor: j.GetJobId()},
			UserOverdrafts: 1,
		}
	}
	if g.mostly() && (j.GetState() == "completed" || j.GetNextReserve() != nil) {
		j.Sample = &statepb.MemorySample{User: float64(g.pick(100, "share")) / 100, Proxy: 1}
	}
	j.Fatal = j.GetState() != "completed" && g.pick(20, "fatal") == 0
	given := g.state.Slices(scheduling.OperationID(a.GetOperationId()), scheduling.TaskName(a.GetTask()), scheduling.Cookie(a.GetCookie()))
	if len(given) == 0 {
		return
	}
	switch {
	case j.GetState() == "completed" && g.mostly():
		done, rest := g.cut(given)
		j.Input = &statepb.JobInput{Processed: done, Rest: rest, Rows: int64(g.pick(9, "rows")), Hash: 1<<63 + uint64(g.pick(9, "hash"))}
		j.Output = &statepb.JobOutput{Part: j.GetJobId(), Rows: 1, Bytes: 2}
	case j.GetState() == "failed" && g.pick(3, "skips") == 0:
		j.Skipped = &statepb.SkippedRecord{File: given[0].GetFile(), Begin: given[0].GetBegin(), End: given[0].GetEnd(), Head: []byte("poison")}
	case j.GetState() == "failed" && g.mostly():
		if done, rest := g.cut(given); len(done) > 0 && len(rest) > 0 {
			j.Split = []*statepb.Slices{slicesOf(done...), slicesOf(rest...)}
		}
	}
	if j.GetInput() != nil && !g.mostly() && len(j.GetInput().GetRest()) > 0 {
		j.Input.Rest = j.GetInput().GetRest()[1:]
	}
}

// cut draws where what is done ends and the rest begins.
func (g generator) cut(given []*statepb.Slice) (done, rest []*statepb.Slice) {
	at := rapid.Int64Range(0, lengthOf(given)).Draw(g.T, "cut")
	for _, s := range given {
		length := s.GetEnd() - s.GetBegin()
		switch {
		case at >= length:
			done = append(done, s)
		case at <= 0:
			rest = append(rest, s)
		default:
			done = append(done, slice(s.GetFile(), s.GetBegin(), s.GetBegin()+at))
			rest = append(rest, slice(s.GetFile(), s.GetBegin()+at, s.GetEnd()))
		}
		at -= length
	}
	return done, rest
}

func (g generator) updateReserves() proto.Message {
	o := g.operation()
	m := &commandpb.UpdateReserves{OperationId: o.GetId(), Epoch: g.epoch(o)}
	for _, t := range o.GetTasks() {
		known := t.GetMemory()
		absorbed := known.GetSampleCount() - int64(len(known.GetSamples()))
		r := &commandpb.TaskReserve{Task: t.GetName(), Samples: absorbed + int64(g.pick(len(known.GetSamples())+1, "absorbed"))}
		r.UserDigest = fmt.Append(nil, r.GetSamples())
		if !g.mostly() {
			r.Samples += int64(g.pick(3, "off") - 1)
		}
		if g.mostly() {
			r.Reserve = &statepb.JobReserve{User: int64(g.pick(5, "user")) * 100, Proxy: int64(g.pick(3, "proxy")) * 100}
		}
		m.Tasks = append(m.Tasks, r)
	}
	return m
}

func (g generator) saveProfiles() proto.Message {
	o := g.operation()
	m := &commandpb.SaveMemoryProfiles{OperationId: o.GetId(), Epoch: g.epoch(o)}
	for _, t := range o.GetTasks() {
		known, _ := g.state.Profile(t.GetMemory().GetProfile())
		m.Profiles = append(m.Profiles, &commandpb.SavedProfile{
			Task: t.GetName(), ExpectedSampleCount: known.GetSampleCount() + int64(g.pick(8, "stale"))/7,
			Profile: &statepb.MemoryProfile{Key: t.GetMemory().GetProfile(), SampleCount: known.GetSampleCount() + t.GetMemory().GetSampleCount()},
		})
	}
	return m
}

func (g generator) removeProfiles() proto.Message {
	return &commandpb.RemoveMemoryProfiles{User: "ann", Keys: rapid.SampledFrom([][]string{nil, {"p1"}, {"p2", "p2"}, {"gone"}}).Draw(g.T, "keys")}
}

func (g generator) publish() proto.Message { return g.publishOf(g.operation()) }

func (g generator) publishOf(o *statepb.Operation) proto.Message {
	m := &commandpb.PublishOutput{OperationId: o.GetId(), Epoch: g.epoch(o), Output: &statepb.Output{Path: "out", Rows: 1}}
	if !g.mostly() {
		m.Output, m.Error = nil, &statepb.Error{Code: 1, Message: "disk full"}
	}
	return m
}

func (g generator) pace() proto.Message {
	return &commandpb.SetPace{Term: g.term(), Pace: &statepb.Pace{HeartbeatMillis: int64(g.pick(3, "heartbeat")) * 1000, LeaseMillis: int64(g.pick(12, "lease")) * 1000}}
}
