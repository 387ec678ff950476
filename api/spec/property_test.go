package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
	"weir/scheduling/option"
)

// The bounds that options have.
const (
	maxMaxFailedJobCount = 10_000
	maxCPULimit          = 10_000
	minMemoryLimit       = 1 << 20
	maxMemoryLimit       = 64 << 40
	maxGPULimit          = 10_000
	maxNetworkLimit      = 1 << 50
	maxPorts             = 100
	maxExitCode          = 255
	maxMaxSurge          = 1000
	maxMultiplier        = 10
	minTmpfsSize         = 4096
	maxPidsLimit         = 1 << 22
	minDiskLimit         = 1 << 20
	maxDiskLimit         = 64 << 40
	minProbePeriod       = 100 * time.Millisecond
	maxProbePeriod       = time.Hour
	maxProbeFailures     = 1000
	maxDataSizePerJob    = 64 << 40
	defaultMaxRecordSize = 16 << 20
	maxMaxRecordSize     = 1 << 30
	maxSkippedRecords    = 1_000_000
	minTimeLimit         = time.Second
	maxTimeLimit         = 366 * 24 * time.Hour
)

// anySpec draws operations as Parse returns them.
func anySpec(t *rapid.T) *statepb.OperationSpec {
	op := &statepb.OperationSpec{
		Type: lifecycle.Vanilla, Pool: rapid.SampledFrom([]string{"", "ads", "a-b.c"}).Draw(t, "pool"),
		Title:             rapid.StringMatching(`[ -~äπ]{0,20}`).Draw(t, "title"),
		Alias:             rapid.StringMatching(`(\*[a-z]{1,9})?`).Draw(t, "alias"),
		TimeLimit:         anyLimit(t),
		MaxFailedJobCount: rapid.Int32Range(0, maxMaxFailedJobCount).Draw(t, "failures"),
	}
	op.IsGang = rapid.Bool().Draw(t, "gang")
	op.Options = anyOptions(t)
	if rapid.Bool().Draw(t, "in trees") {
		op.PoolTrees = []string{"gpu", "default"}
		if own := anyOptions(t); own != nil {
			op.OptionsPerTree = map[string]*structpb.Struct{"gpu": own}
			op.OptionsPerTree["gpu"].Fields["pool"] = structpb.NewStringValue("train")
		}
	}
	if rapid.Bool().Draw(t, "annotated") {
		// Zero is added because Parse knows no negative zero.
		number := rapid.Float64Range(-1e6, 1e6).Draw(t, "value") + 0
		data, err := json.Marshal(map[string]any{rapid.String().Draw(t, "key"): number})
		if err != nil {
			t.Fatal(err)
		}
		op.AnnotationsJson = string(data)
	}
	op.NoMemoryProfile = rapid.Bool().Draw(t, "no profile")
	if rapid.Bool().Draw(t, "map") {
		op.Type, op.Map = lifecycle.Map, anyMap(t)
		op.Tasks = []*statepb.TaskSpec{anyTask(t, MapperTask, true, op.GetIsGang())}
		return op
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "tasks") {
		op.Tasks = append(op.Tasks, anyTask(t, fmt.Sprintf("t-%d", i), false, op.GetIsGang()))
	}
	return op
}

// anyTask draws a task, as a mapper is or as others are; together: of an operation with is_gang.
func anyTask(t *rapid.T, name string, mapper, together bool) *statepb.TaskSpec {
	task := &statepb.TaskSpec{
		Name:               name,
		CpuLimitHundredths: rapid.Int64Range(1, maxCPULimit*100).Draw(t, "cpu"),
		MemoryLimit:        rapid.Int64Range(minMemoryLimit, maxMemoryLimit).Draw(t, "memory"),
		GpuLimit:           rapid.Int64Range(0, maxGPULimit).Draw(t, "gpu"),
		NetworkLimit:       rapid.Int64Range(0, maxNetworkLimit).Draw(t, "network"),
		MaxFailedJobCount:  rapid.Int32Range(0, maxMaxFailedJobCount).Draw(t, "failures"),
		JobTimeLimit:       anyLimit(t),
		PortCount:          rapid.Int32Range(0, maxPorts).Draw(t, "ports"),
	}
	anyPlace(t, task)
	if !mapper {
		task.JobCount = rapid.Int32Range(1, 25_000).Draw(t, "jobs")
		task.RestartCompletedJobs = rapid.Bool().Draw(t, "restart")
		if !task.GetRestartCompletedJobs() && rapid.Bool().Draw(t, "as a gang") {
			task.Gang = &statepb.GangSpec{Size: rapid.Int32Range(1, min(MaxGang, task.GetJobCount())).Draw(t, "size")}
		}
		if !together && !task.GetRestartCompletedJobs() && task.GetGang() == nil && rapid.Bool().Draw(t, "a sweep") {
			task.MaxAttempts = rapid.Int32Range(0, 1000).Draw(t, "attempts")
			if task.GetJobCount() > 9 {
				task.Cookies = []*statepb.Interval{{Begin: 0, End: 1}, {Begin: 3, End: 5}, {Begin: rapid.Int32Range(6, 8).Draw(t, "cookie"), End: task.GetJobCount()}}
			}
		}
		if rapid.Bool().Draw(t, "keeps") {
			task.Outputs = []*statepb.KeptFile{{Path: "out/x", Destination: "/data/{task}-{cookie}"}, {Path: "out", Destination: "s3://bucket/{operation_id}/{job_id}"}}
		}
	}
	if rapid.Bool().Draw(t, "interruptible") {
		task.InterruptionSignal = rapid.SampledFrom(interruptionSignals).Draw(t, "signal")
		task.SignalRootProcessOnly = rapid.Bool().Draw(t, "root only")
		if !mapper && rapid.Bool().Draw(t, "restartable") {
			task.RestartExitCode = proto.Int32(rapid.Int32Range(1, maxExitCode).Draw(t, "code"))
		}
	}
	if !mapper && rapid.Bool().Draw(t, "a service") {
		task.PortCount = rapid.Int32Range(1, maxPorts).Draw(t, "ports")
		task.Readiness = anyReadiness(t, task.GetPortCount())
	}
	if !mapper && task.GetRestartCompletedJobs() && task.GetInterruptionSignal() != "" {
		task.MaxSurge = rapid.Int32Range(0, maxMaxSurge).Draw(t, "surge")
		task.MinAvailable = rapid.Int32Range(0, task.GetJobCount()).Draw(t, "available")
	}
	if rapid.Bool().Draw(t, "shell") {
		task.Shell = rapid.StringMatching(`[!-~][ -~]{0,20}`).Draw(t, "line")
	} else {
		task.Argv = append(rapid.SliceOfN(rapid.StringMatching(`[ -~\nä]{0,9}`), 0, 3).Draw(t, "arguments"), "x")
		task.Argv[0] = "run" + task.Argv[0]
	}
	if rapid.Bool().Draw(t, "environment") {
		task.Environment = map[string]string{"A_1": rapid.StringMatching(`[ -~]{0,9}`).Draw(t, "variable")}
	}
	return task
}

// anyPlace draws the memory, the files and the walls of a task.
func anyPlace(t *rapid.T, task *statepb.TaskSpec) {
	part := rapid.Float64Range(0.001, 1)
	lower := rapid.Float64Range(0.01, 1).Draw(t, "proxy lower")
	memory := &statepb.MemorySpec{
		DigestDefaultValue: part.Draw(t, "default"), DigestLowerBound: part.Draw(t, "lower"), Profile: rapid.StringMatching(`([a-z0-9][a-z0-9_./-]{0,20})?`).Draw(t, "profile"),
		ProxyLowerBound: lower, ProxyDefaultValue: lower, ProxyUpperBound: lower + rapid.Float64Range(0, 9).Draw(t, "proxy upper"),
	}
	if rapid.Bool().Draw(t, "steps") {
		memory.UserOverdraftMultiplier = rapid.Float64Range(1, maxMultiplier).Draw(t, "user multiplier")
		memory.ProxyOverdraftMultiplier = rapid.Float64Range(1, maxMultiplier).Draw(t, "proxy multiplier")
	}
	if rapid.Bool().Draw(t, "in memory") {
		size := rapid.Int64Range(minTmpfsSize, task.GetMemoryLimit()/2)
		task.Tmpfs = []*statepb.Tmpfs{{Path: "a/b", Size: size.Draw(t, "one")}, {Path: "a/c", Size: size.Draw(t, "other")}}
	}
	// As J.1.2 completes them.
	floor := 0.0
	for _, v := range task.GetTmpfs() {
		floor += float64(v.GetSize())
	}
	floor /= float64(task.GetMemoryLimit())
	memory.DigestLowerBound = max(memory.GetDigestLowerBound(), floor)
	memory.DigestDefaultValue = max(memory.GetDigestDefaultValue(), memory.GetDigestLowerBound())
	task.Memory = memory
	task.CpuEnforcement = rapid.SampledFrom([]string{"quota", "weight"}).Draw(t, "cpu enforcement")
	task.Isolation = rapid.SampledFrom([]string{IsolationNone, IsolationDefault, IsolationStrict}).Draw(t, "isolation")
	task.PidsLimit = rapid.Int32Range(0, maxPidsLimit).Draw(t, "pids")
	task.DiskLimit = rapid.SampledFrom([]int64{0, minDiskLimit, 5 << 30, maxDiskLimit}).Draw(t, "disk")
	if task.GetIsolation() != IsolationNone && rapid.Bool().Draw(t, "as another") {
		task.User = rapid.SampledFrom([]string{"nobody", "1000", "_x-y$"}).Draw(t, "user")
		task.Group = rapid.SampledFrom([]string{"", "users", "0"}).Draw(t, "group")
	}
	if rapid.Bool().Draw(t, "with files") {
		task.Files = []*statepb.FileSpec{
			{Source: "/opt/tool", Path: "tool", Executable: true}, {Source: "/in/{cookie}", Path: "{cookie}"},
			{Source: "s3://data-2026/models/m.bin", Path: rapid.SampledFrom([]string{"m.bin", "models/m"}).Draw(t, "path")},
		}
	}
}

// anyReadiness draws how instances that have ports are found to be ready.
func anyReadiness(t *rapid.T, ports int32) *statepb.Readiness {
	span := func(label string) *durationpb.Duration {
		return durationpb.New(time.Duration(rapid.Int64Range(int64(minProbePeriod), int64(maxProbePeriod)).Draw(t, label)))
	}
	port := rapid.Int32Range(0, ports-1).Draw(t, "port")
	r := &statepb.Readiness{Period: span("period"), Timeout: span("timeout"), Failures: rapid.Int32Range(1, maxProbeFailures).Draw(t, "failures")}
	switch rapid.SampledFrom([]string{"http", "tcp", "exec", "socket"}).Draw(t, "kind") {
	case "http":
		r.HttpPath, r.Port = "/ready?deep=1", port
	case "tcp":
		r.Tcp, r.Port = true, port
	case "exec":
		r.Exec = []string{"/bin/check", "a b", ""}
	case "socket":
		r = &statepb.Readiness{Socket: true}
	}
	return r
}

// anyMap draws what goes into an operation of type map.
func anyMap(t *rapid.T) *statepb.MapSpec {
	m := &statepb.MapSpec{
		InputPaths: []string{"/data/*.txt", rapid.SampledFrom([]string{"s3://data/2026/", "/logs/", "/a b/c[0-9]"}).Draw(t, "input")},
		OutputPath: rapid.SampledFrom([]string{"/out/x", "/out/", "s3://data/out"}).Draw(t, "output"),
		Format:     rapid.SampledFrom([]string{FormatLines, FormatJSON, FormatBytes}).Draw(t, "format"), MaxRecordBytes: defaultMaxRecordSize,
	}
	if rapid.Bool().Draw(t, "by count") {
		m.JobCount = rapid.Int32Range(1, MaxJobs).Draw(t, "jobs")
	} else {
		m.DataSizePerJob = rapid.Int64Range(1, maxDataSizePerJob).Draw(t, "size per job")
	}
	if m.GetFormat() != FormatBytes {
		m.MaxRecordBytes = rapid.Int64Range(1, maxMaxRecordSize).Draw(t, "record")
		m.MaxSkippedRecords = rapid.Int64Range(0, maxSkippedRecords).Draw(t, "skipped")
	}
	return m
}

// anyOptions draws options of an operation in a tree; nil for none.
func anyOptions(t *rapid.T) *structpb.Struct {
	options := map[string]any{}
	if rapid.Bool().Draw(t, "weighted") {
		options["weight"] = rapid.Float64Range(0, 1e9).Draw(t, "weight")
	}
	if rapid.Bool().Draw(t, "limited") {
		options["resource_limits"] = map[string]any{"cpu": float64(rapid.IntRange(0, 400).Draw(t, "cpu")) / 4, "memory": float64(rapid.IntRange(0, 1e9).Draw(t, "bytes"))}
		options["fair_share_starvation_timeout"] = "1m30s"
		options["scheduling_tag_filter"] = "gpu & !old"
		options["apply_specified_resource_limits_to_demand"] = true
	}
	return structOf(options)
}

func anyLimit(t *rapid.T) *durationpb.Duration {
	if rapid.Bool().Draw(t, "unlimited") {
		return nil
	}
	return durationpb.New(time.Duration(rapid.Int64Range(int64(minTimeLimit), int64(maxTimeLimit)).Draw(t, "limit")))
}

// What Format writes is read back the same: as JSON, as YAML and as a struct.
func TestFormatRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anySpec(t)
		fields, err := Format(want)
		if err != nil {
			t.Fatal(err)
		}
		check := func(how string, got *statepb.OperationSpec, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", how, err)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Fatalf("%s: %s", how, diff)
			}
		}
		data, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		got, err := checked(Read(data))
		check("json", got.spec(), err)

		// A comment makes it YAML in flow style.
		got, err = checked(Read(append(data, "\n# YAML\n"...)))
		check("yaml", got.spec(), err)

		carried, err := structpb.NewStruct(fields)
		if err != nil {
			t.Fatal(err)
		}
		got, err = checked(FromStruct(carried))
		check("struct", got.spec(), err)
	})
}

// spec is nil for what was refused.
func (p *parsed) spec() *statepb.OperationSpec {
	if p == nil {
		return nil
	}
	return p.Spec
}

// Whatever is read can be stored, sent and read again; whatever is not is
// refused with faults.
func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(`{"tasks": {"t": {"job_count": 1, "command": ["run"], "memory_limit": "1GiB"}}}`))
	f.Add([]byte(mapped(inAndOut, "format: json", "max_skipped_records: 3", "job_proxy_memory_digest: {upper_bound: 3}")))
	f.Add([]byte(jobs("file_paths: [/a, {source: s3://data/x, path: y}]\n    tmpfs_path: t\n    memory_reserve_factor: 0.25\n    gang_options: {size: 1}\n    user: 7")))
	f.Add([]byte("tasks: {t: {job_count: 1, shell: true, command: \"\\ud800 \\xff \\U0001F600\"}}"))
	for _, text := range hostile(1000) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		parsed, err := checked(Read(data))
		if err != nil {
			var refused *option.Error
			if !errors.As(err, &refused) || len(refused.Faults) == 0 {
				t.Fatalf("error %v has no faults", err)
			}
			return
		}
		op := parsed.Spec
		if _, err := proto.Marshal(op); err != nil {
			t.Fatal(err)
		}
		fields, err := Format(op)
		if err != nil {
			t.Fatal(err)
		}
		carried, err := structpb.NewStruct(fields)
		if err != nil {
			t.Fatal(err)
		}
		again, err := checked(FromStruct(carried))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(op, again.Spec, protocmp.Transform()); diff != "" {
			t.Fatal(diff)
		}
	})
}
