package simulate_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/cmd/weir/internal/simulate"
	"weir/messages/apipb"
	"weir/scheduling"
	"weir/scheduling/access"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

var liveNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// liveCluster is a cluster of ten nodes and two pools, one with an ephemeral one below.
func liveCluster(t *testing.T, operations ...*apipb.Operation) *simulate.Live {
	t.Helper()
	everyone := &access.List{Use: []access.Subject{"user:ann"}}
	tree, err := pooltree.FromPools(pooltree.TreeOptions{ACL: everyone}, []pooltree.Pool{
		{Name: "ads", Parent: scheduling.RootPool, Options: pooltree.PoolOptions{Weight: new(2.0), ACL: everyone}},
		{Name: "batch", Parent: scheduling.RootPool},
		{Name: "saves", Parent: scheduling.RootPool, Options: pooltree.PoolOptions{
			Integral: &pooltree.IntegralOptions{GuaranteeType: new("relaxed"), ResourceFlow: &pooltree.Resources{Amounts: resource.Amounts{CPU: resource.Cores(8)}, Named: [resource.Count]bool{resource.CPU: true}}},
		}},
		{Name: "batch$bob", Parent: "batch", Ephemeral: "bob"},
		{Name: "bob", Parent: scheduling.RootPool, Ephemeral: "bob"},
	})
	if err != nil {
		t.Fatal(err)
	}
	node := func(state, of string, drain *apipb.Drain) *apipb.Node {
		return &apipb.Node{State: state, Tree: of, Drain: drain, Resources: &apipb.Resources{UserSlots: 10, Cpu: 8, Memory: 32 << 30}, Tags: []string{"old"}}
	}
	l := &simulate.Live{Name: "tree default", Now: liveNow, Tree: "default", Pools: tree, Operations: operations, Period: 24 * time.Hour,
		Volumes:  map[scheduling.PoolName]float64{"ads": 600, "saves": 600, "batch": 0},
		Nodes:    []*apipb.Node{node("offline", "default", nil), node("online", "gpu", nil), node("online", "default", &apipb.Drain{})},
		RunTimes: map[string]map[string]simulate.RunTimes{"op-quantiles": {"t": {P50: 10 * time.Minute, P95: 20 * time.Minute}}, "op-constant": {"t": {P50: time.Hour, P95: time.Hour}}},
	}
	for range 10 {
		l.Nodes = append(l.Nodes, node("online", "default", nil))
	}
	return l
}

// liveOperation is one that was started some time ago.
func liveOperation(id, pool string, ago time.Duration, ended bool, task *apipb.TaskProgress) *apipb.Operation {
	task.Name, task.JobResources = "t", &apipb.Resources{UserSlots: 1, Cpu: 2, Memory: 1 << 30}
	op := &apipb.Operation{Id: id, User: "ann", Title: id, StartTime: timestamppb.New(liveNow.Add(-ago)), Tasks: []*apipb.TaskProgress{task},
		Trees: []*apipb.OperationTree{{Tree: "default", Pool: pool}}}
	if ended {
		op.FinishTime = timestamppb.New(liveNow)
	}
	return op
}

// TestLiveClusters (W1) writes operations of a live cluster as lines of a simulation.
func TestLiveClusters(t *testing.T) {
	weighted := liveOperation("op-weight", "ads", 30*time.Hour, false, &apipb.TaskProgress{Total: 1, Completed: 0})
	weighted.Trees[0].Options, _ = structpb.NewStruct(map[string]any{"weight": 3.0})
	gang := liveOperation("op-gang", "ads", 2*time.Hour, true, &apipb.TaskProgress{Total: 4, Completed: 4, RunSeconds: 400})
	gang.Tasks[0].Gang = &apipb.GangProgress{}
	hidden := liveOperation("op-hidden", "ads", time.Hour, false, &apipb.TaskProgress{Total: 1})
	hidden.Hidden = "no right"
	elsewhere := liveOperation("op-elsewhere", "ads", time.Hour, false, &apipb.TaskProgress{Total: 1})
	elsewhere.Trees[0].Tree = "gpu"
	for name, test := range map[string]struct {
		op      *apipb.Operation
		want    []string
		guesses simulate.Guesses
	}{
		"in progress since long, with jobs left": {
			liveOperation("op-quantiles", "ads", 40*time.Hour, false, &apipb.TaskProgress{Total: 10, Completed: 3, GivenUp: 1}),
			[]string{`{"at":"0s","id":"op-quantiles/t/0","job":{"cpu":2,"length":{"lognormal":{"median":"10m0s","sigma":0.421}},"memory":1073741824,"user_slots":1},"jobs":6,"pool":"ads"}`}, simulate.Guesses{},
		},
		"of the last day, each day again": {
			liveOperation("op-constant", "batch", 3*time.Hour, true, &apipb.TaskProgress{Total: 5, Completed: 5}),
			[]string{`{"at":"21h0m0s","id":"op-constant/t/0","job":{"cpu":2,"length":"1h0m0s",`, `{"at":"45h0m0s","id":"op-constant/t/1"`}, simulate.Guesses{},
		},
		"in progress, and of the last day": {
			liveOperation("op-quantiles", "batch", time.Hour, false, &apipb.TaskProgress{Total: 5, Completed: 2}),
			[]string{`"at":"0s"`, `"at":"23h0m0s","id":"op-quantiles/t/1"`, `"at":"47h0m0s"`}, simulate.Guesses{},
		},
		"all its jobs have run": {
			liveOperation("op-quantiles", "batch", 40*time.Hour, false, &apipb.TaskProgress{Total: 5, Completed: 5}), nil, simulate.Guesses{},
		},
		"the mean alone is known": {gang, []string{`"at":"22h0m0s","gang":true,"id":"op-gang/t/0","job":{"cpu":2,"length":{"exponential":"1m40s"}`, `"at":"46h0m0s"`}, simulate.Guesses{}},
		"no job has ended": {
			weighted, []string{`"length":{"exponential":"30h0m0s"},"memory":1073741824,"user_slots":1},"jobs":1,"options":{"weight":3},"pool":"ads"}`}, simulate.Guesses{Unknown: 1},
		},
		"in an ephemeral pool":                {liveOperation("op-constant", "batch$bob", 40*time.Hour, false, &apipb.TaskProgress{Total: 1}), []string{`"pool":"batch"`}, simulate.Guesses{}},
		"in an ephemeral pool below the root": {liveOperation("op-constant", "bob", 40*time.Hour, false, &apipb.TaskProgress{Total: 1}), []string{`"pool":"bob"`}, simulate.Guesses{}},
		"in a pool that is gone":              {liveOperation("op-constant", "gone", 40*time.Hour, false, &apipb.TaskProgress{Total: 1}), []string{`"pool":"gone"`}, simulate.Guesses{}},
		"hidden":                              {hidden, nil, simulate.Guesses{Hidden: 1}},
		"of another tree":                     {elsewhere, nil, simulate.Guesses{}},
	} {
		t.Run(name, func(t *testing.T) {
			_, trace, guesses, err := liveCluster(t, test.op).Write(48 * time.Hour)
			test.guesses.Nodes = 3
			if err != nil || guesses != test.guesses {
				t.Errorf("guesses %+v, want %+v; %v", guesses, test.guesses, err)
			}
			lines := strings.Split(strings.TrimSuffix(string(trace), "\n"), "\n")
			if len(test.want) == 0 && len(trace) == 0 {
				return
			}
			if len(lines) != len(test.want) {
				t.Fatalf("wrote\n%s", trace)
			}
			for i, line := range lines {
				if !strings.Contains(line, test.want[i]) {
					t.Errorf("line %d is\n%s\nwant\n%s", i, line, test.want[i])
				}
			}
		})
	}
}

// TestLiveClusterIsSimulated (W1) simulates a live cluster for two days, with a change in the control run: hungry pools
// have their shares by weight, as they are and as they would be.
func TestLiveClusterIsSimulated(t *testing.T) {
	l := liveCluster(t,
		liveOperation("op-quantiles", "ads", 20*time.Hour, false, &apipb.TaskProgress{Total: 20_000, Completed: 3}),
		liveOperation("op-constant", "batch", 20*time.Hour, false, &apipb.TaskProgress{Total: 20_000, Completed: 3}),
		// In pools that are not, or no more, in the tree.
		liveOperation("op-bob", "bob", 40*time.Hour, false, &apipb.TaskProgress{Total: 1, Completed: 1}),
		liveOperation("op-gone", "gone", 20*time.Hour, true, &apipb.TaskProgress{Total: 1, Completed: 1, RunSeconds: 1}))
	data, trace, _, err := l.Write(48 * time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	setting, err := simulate.ReadSetting("pools.ads.weight=1")
	if err != nil {
		t.Fatal(err)
	}
	file, err := simulate.Read(data, func(name string) ([]byte, error) {
		if name != simulate.TraceFile {
			t.Errorf("reads %q", name)
		}
		return trace, nil
	}, simulate.Changes{Control: []*option.Value{setting}})
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	for run, want := range map[*simulate.File]float64{file: 2. / 3, file.Control: 1. / 2} {
		result, err := simulate.Run(t.Context(), run, func(time.Duration) {})
		if err != nil {
			t.Fatal(err)
		}
		var ads, all float64
		for _, p := range result.Pools {
			if all += p.UsageCPUSeconds; p.Name == "ads" {
				ads = p.UsageCPUSeconds
			}
		}
		if got := ads / all; got < want-0.02 || got > want+0.02 {
			t.Errorf("ads has %.3f of what is used, want %.3f", got, want)
		}
	}
	if strings.Contains(string(data), "acl") || !strings.Contains(string(data), "volumes:\n  saves: 10m0s\ntrace") || !strings.Contains(string(data), "count: 10") {
		t.Errorf("the file is\n%s", data)
	}
}
