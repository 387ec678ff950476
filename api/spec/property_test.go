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
)

// anySpec draws operations as Parse returns them.
func anySpec(t *rapid.T) *statepb.OperationSpec {
	op := &statepb.OperationSpec{
		Type: lifecycle.Vanilla, Pool: rapid.SampledFrom([]string{"", "ads", "a-b.c"}).Draw(t, "pool"),
		Title:             rapid.StringMatching(`[ -~äπ]{0,20}`).Draw(t, "title"),
		Alias:             rapid.StringMatching(`(\*[a-z]{1,9})?`).Draw(t, "alias"),
		TimeLimit:         anyLimit(t),
		MaxFailedJobCount: rapid.Int32Range(0, MaxMaxFailedJobCount).Draw(t, "failures"),
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
	for i := range rapid.IntRange(1, 4).Draw(t, "tasks") {
		task := &statepb.TaskSpec{
			Name: fmt.Sprintf("t-%d", i), JobCount: rapid.Int32Range(1, 25_000).Draw(t, "jobs"),
			CpuLimitHundredths: rapid.Int64Range(1, MaxCPULimit*100).Draw(t, "cpu"),
			MemoryLimit:        rapid.Int64Range(MinMemoryLimit, MaxMemoryLimit).Draw(t, "memory"),
			GpuLimit:           rapid.Int64Range(0, MaxGPULimit).Draw(t, "gpu"),
			NetworkLimit:       rapid.Int64Range(0, MaxNetworkLimit).Draw(t, "network"),
			MaxFailedJobCount:  rapid.Int32Range(0, MaxMaxFailedJobCount).Draw(t, "failures"),
			JobTimeLimit:       anyLimit(t), RestartCompletedJobs: rapid.Bool().Draw(t, "restart"),
			PortCount: rapid.Int32Range(0, MaxPorts).Draw(t, "ports"),
		}
		if rapid.Bool().Draw(t, "interruptible") {
			task.InterruptionSignal = rapid.SampledFrom(interruptionSignals).Draw(t, "signal")
			task.SignalRootProcessOnly = rapid.Bool().Draw(t, "root only")
			if rapid.Bool().Draw(t, "restartable") {
				task.RestartExitCode = proto.Int32(rapid.Int32Range(1, MaxExitCode).Draw(t, "code"))
			}
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
		op.Tasks = append(op.Tasks, task)
	}
	return op
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
	return durationpb.New(time.Duration(rapid.Int64Range(int64(MinTimeLimit), int64(MaxTimeLimit)).Draw(t, "limit")))
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
		got, err := Parse(data)
		check("json", got.spec(), err)

		// A comment makes it YAML in flow style.
		got, err = Parse(append(data, "\n# YAML\n"...))
		check("yaml", got.spec(), err)

		set, err := Set(data, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err = Parse(set)
		check("set", got.spec(), err)

		carried, err := structpb.NewStruct(fields)
		if err != nil {
			t.Fatal(err)
		}
		got, err = ParseStruct(carried)
		check("struct", got.spec(), err)
	})
}

// spec is nil for what was refused.
func (p *Parsed) spec() *statepb.OperationSpec {
	if p == nil {
		return nil
	}
	return p.Spec
}

// Whatever is read can be stored, sent and read again; whatever is not is
// refused with faults.
func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(bomb()))
	f.Add([]byte(`{"tasks": {"t": {"job_count": 1, "command": ["run"], "memory_limit": "1GiB"}}}`))
	f.Add([]byte("tasks: {t: {job_count: 1, shell: true, command: \"\\ud800 \\xff \\U0001F600\"}}"))
	for _, text := range hostile(1000) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		parsed, err := Parse(data)
		if err != nil {
			var refused *Error
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
		again, err := ParseStruct(carried)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(op, again.Spec, protocmp.Transform()); diff != "" {
			t.Fatal(diff)
		}
	})
}
