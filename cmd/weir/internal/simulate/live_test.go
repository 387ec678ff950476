package simulate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/api/client"
	"weir/cmd/weir/internal/simulate"
	"weir/messages/apipb"
	"weir/scheduling"
	"weir/scheduling/access"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
	"weir/scheduling/statistics"
)

var liveNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// liveCluster is a cluster of ten nodes and three pools, one with an ephemeral one below.
func liveCluster(t *testing.T, operations ...*apipb.Operation) *simulate.Live {
	t.Helper()
	everyone := &access.List{Use: []access.Subject{"user:ann"}}
	tree, err := pooltree.FromPools(pooltree.TreeOptions{ACL: everyone}, []pooltree.Pool{
		{Name: "ads", Parent: scheduling.RootPool, Options: pooltree.PoolOptions{Weight: new(2.0), ACL: everyone}},
		{Name: "batch", Parent: scheduling.RootPool, Options: pooltree.PoolOptions{CreateEphemeralSubpools: new(true), Ephemeral: &pooltree.EphemeralOptions{MaxRunningOperationCount: new(int64(1))}}},
		{Name: "saves", Parent: scheduling.RootPool, Options: pooltree.PoolOptions{
			Integral: &pooltree.IntegralOptions{GuaranteeType: new("relaxed"), ResourceFlow: &pooltree.Resources{Amounts: resource.Amounts{CPU: resource.Cores(8)}, Named: [resource.Count]bool{resource.CPU: true}}},
		}},
		{Name: "batch$bob", Parent: "batch", Ephemeral: "bob"},
	})
	if err != nil {
		t.Fatal(err)
	}
	node := func(state, of string, drain *apipb.Drain) *apipb.Node {
		return &apipb.Node{State: state, Tree: of, Drain: drain, Resources: &apipb.Resources{UserSlots: 10, Cpu: 8, Memory: 32 << 30}, Tags: []string{"old"}}
	}
	l := &simulate.Live{Name: "tree default", Now: liveNow, Tree: "default", Pools: tree, Operations: operations, Period: 24 * time.Hour,
		Volumes: map[scheduling.PoolName]float64{"ads": 600, "saves": 600, "batch": 0},
		Nodes:   []*apipb.Node{node("offline", "default", nil), node("online", "gpu", nil), node("online", "default", &apipb.Drain{})},
		RunTimes: map[string]map[string]simulate.RunTimes{
			"op-quantiles": {"t": {Jobs: 10, Mean: 11 * time.Minute, P50: 10 * time.Minute, P95: 20 * time.Minute, Greatest: 30 * time.Minute}},
			"op-constant":  {"t": {Jobs: 10, Mean: time.Hour, P50: time.Hour, P95: time.Hour, Greatest: time.Hour}},
			"op-mean":      {"t": {Jobs: 10, Mean: 100 * time.Second, Greatest: 150 * time.Second}},
		},
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
	weighted := liveOperation("op-weight", "ads", 30*time.Hour, false, &apipb.TaskProgress{Total: 1, Running: 1})
	weighted.Trees[0].Options, _ = structpb.NewStruct(map[string]any{"weight": 3.0})
	gang := liveOperation("op-mean", "ads", 2*time.Hour, false, &apipb.TaskProgress{Total: 6, Completed: 1, Gang: &apipb.GangProgress{Size: 4, CompletedRanks: 1}})
	aborted := liveOperation("op-aborted", "ads", 3*time.Hour, true, &apipb.TaskProgress{Total: 900, Aborted: 5, Failed: 1, RunSeconds: 120})
	aborted.State = "aborted"
	hidden := liveOperation("op-hidden", "ads", time.Hour, false, &apipb.TaskProgress{Total: 1})
	hidden.Hidden = "no right"
	suspended := liveOperation("op-suspended", "ads", time.Hour, false, &apipb.TaskProgress{Total: 1})
	suspended.Suspended = true
	elsewhere := liveOperation("op-elsewhere", "ads", time.Hour, false, &apipb.TaskProgress{Total: 1})
	elsewhere.Trees[0].Tree = "gpu"
	for name, test := range map[string]struct {
		op      *apipb.Operation
		want    []string
		guesses simulate.Guesses
	}{
		"in progress since long, with jobs left": {
			liveOperation("op-quantiles", "ads", 40*time.Hour, false, &apipb.TaskProgress{Total: 10, Completed: 3, GivenUp: 1}),
			[]string{`{"at":"0s","id":"op-quantiles/t/0","job":{"cpu":2,"length":{"lognormal":{"median":"10m0s","sigma":0.421},"most":"30m0s"},"memory":1073741824,"user_slots":1},"jobs":6,"pool":"ads"}`}, simulate.Guesses{},
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
		"a gang with one job less, and again": {gang, []string{`{"at":"0s","gang_options":{"size":3},"id":"op-mean/t/0","job":{"cpu":2,"length":{"exponential":"1m40s","most":"2m30s"}`, `"jobs":6`, `"gang_options":{"size":4}`}, simulate.Guesses{}},
		"no job has ended": {
			weighted, []string{`"length":{"exponential":"30h0m0s"},"memory":1073741824,"user_slots":1},"jobs":1,"options":{"weight":3},"pool":"ads"}`}, simulate.Guesses{Unknown: 1},
		},
		"no job has started": {
			liveOperation("op", "ads", 30*time.Hour, false, &apipb.TaskProgress{Total: 1}), []string{`"length":{"exponential":"1s"}`}, simulate.Guesses{Unknown: 1},
		},
		"aborted before most of its jobs": {aborted, []string{`"length":{"exponential":"20s"},"memory":1073741824,"user_slots":1},"jobs":6`, `"jobs":6`}, simulate.Guesses{Unknown: 1}},
		"in an ephemeral pool":            {liveOperation("op-constant", "batch$bob", 40*time.Hour, false, &apipb.TaskProgress{Total: 1}), []string{`"pool":"batch~bob"`}, simulate.Guesses{}},
		"in an ephemeral pool that is gone": {
			liveOperation("op-constant", "batch$ann", 40*time.Hour, false, &apipb.TaskProgress{Total: 1}), []string{`"pool":"batch~ann"`}, simulate.Guesses{},
		},
		"in a pool that is gone":  {liveOperation("op-constant", "batch$x/y", 40*time.Hour, false, &apipb.TaskProgress{Total: 1}), []string{`"pool":"batch~ann"`}, simulate.Guesses{}},
		"where none can be again": {liveOperation("op-constant", "x y", 40*time.Hour, false, &apipb.TaskProgress{Total: 1}), nil, simulate.Guesses{Homeless: 1}},
		"right below the root":    {liveOperation("op-constant", "<Root>", 40*time.Hour, false, &apipb.TaskProgress{Total: 1}), []string{`"pool":"\u003cRoot\u003e"`}, simulate.Guesses{}},
		"suspended":               {suspended, nil, simulate.Guesses{Suspended: 1}},
		"hidden":                  {hidden, nil, simulate.Guesses{Hidden: 1}},
		"of another tree":         {elsewhere, nil, simulate.Guesses{}},
	} {
		t.Run(name, func(t *testing.T) {
			_, trace, guesses, err := liveCluster(t, test.op).Write(48 * time.Hour)
			test.guesses.Nodes = 3
			if guesses != test.guesses {
				t.Errorf("guesses %+v, want %+v", guesses, test.guesses)
			}
			if len(test.want) == 0 {
				if err == nil || !strings.Contains(err.Error(), "tree default: no operation in progress, and none of the last 24h0m0s") {
					t.Errorf("error %v, trace %q", err, trace)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSuffix(string(trace), "\n"), "\n")
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
		liveOperation("op-constant", "batch$bob", 20*time.Hour, false, &apipb.TaskProgress{Total: 20_000, Completed: 3}))
	for range 2 {
		l.Nodes = append(l.Nodes, &apipb.Node{State: "online", Tree: "default", Resources: &apipb.Resources{UserSlots: 10, Cpu: 8, Memory: 32 << 30, Gpu: 1}})
	}
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
		if n := result.Operations.Refused; n > 0 {
			t.Errorf("%d operations are refused: %s", n, result.Operations.RefusedBecause)
		}
		var ads, all float64
		for _, p := range result.Pools {
			switch p.Name {
			case "ads":
				ads = p.UsageCPUSeconds
				all += ads
			case "batch~bob":
				all += p.UsageCPUSeconds
			}
		}
		if got := ads / all; got < want-0.02 || got > want+0.02 {
			t.Errorf("ads has %.3f of what is used, want %.3f", got, want)
		}
	}
	if strings.Contains(string(data), "acl") || !strings.Contains(string(data), "volumes:\n  saves: 10m0s\ntrace") || !strings.Contains(string(data), "count: 10") || !strings.Contains(string(data), "count: 2\n") {
		t.Errorf("the file is\n%s", data)
	}
}

// TestLiveClusterWithoutNodes names what there is too little of.
func TestLiveClusterWithoutNodes(t *testing.T) {
	l := liveCluster(t, liveOperation("op", "ads", time.Hour, false, &apipb.TaskProgress{Total: 1}))
	l.Nodes = l.Nodes[:3]
	if _, _, _, err := l.Write(time.Hour); err == nil || err.Error() != "tree default: none of its nodes is online and not drained" {
		t.Errorf("got %v", err)
	}
}

// TestGuessedRunTimes: of a task of which no job has completed, jobs run as long as those of the most alike operations.
func TestGuessedRunTimes(t *testing.T) {
	other := func(id, user, title string) *apipb.Operation {
		op := liveOperation(id, "ads", 30*time.Hour, false, &apipb.TaskProgress{Total: 1})
		op.User, op.Title = user, title
		return op
	}
	for name, test := range map[string]struct {
		user, title, want string
	}{
		"of the same title": {"ann", "constant", "1h0m0s"},
		"of the user":       {"ann", "new", "20m0s"},
		"of another user":   {"bob", "constant", "18m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			// The runs weigh by their jobs: 10 of 1 h and 50 of 12 m; and 60 of 16 m.
			l := liveCluster(t, other("op-constant", "ann", "constant"), other("op-short", "ann", "short"), other("op-eve", "eve", "x"), other("op", test.user, test.title))
			l.RunTimes["op-short"] = map[string]simulate.RunTimes{"t": {Jobs: 50, Mean: 12 * time.Minute, P50: time.Minute, P95: time.Minute, Greatest: time.Hour}}
			l.RunTimes["op-eve"] = map[string]simulate.RunTimes{"t": {Jobs: 60, Mean: 16 * time.Minute, P50: time.Minute, P95: time.Minute, Greatest: time.Hour}}
			_, trace, guesses, err := l.Write(time.Hour)
			if err != nil || guesses.Unknown != 1 || !strings.Contains(string(trace), `"id":"op/t/0","job":{"cpu":2,"length":{"exponential":"`+test.want+`"}`) {
				t.Errorf("want %s: %v, %+v\n%s", test.want, err, guesses, trace)
			}
		})
	}
}

// fakeCluster has these operations, the latest first.
type fakeCluster []*apipb.Operation

func (f fakeCluster) ListNodes(context.Context, string) ([]*apipb.Node, error) { return nil, nil }

func (f fakeCluster) ListOperations(_ context.Context, r *apipb.ListOperationsRequest) (*apipb.ListOperationsResponse, error) {
	out := &apipb.ListOperationsResponse{}
	after := r.GetAfter() != ""
	for _, op := range f {
		at := op.GetStartTime().AsTime()
		switch {
		case after:
			after = op.GetId() != r.GetAfter()
		case r.GetInProgress() && op.GetFinishTime() != nil, r.StartedSince != nil && at.Before(r.GetStartedSince().AsTime()), r.StartedBefore != nil && !at.Before(r.GetStartedBefore().AsTime()):
		case len(out.GetOperations()) == int(r.GetLimit()):
			out.Incomplete, out.Next = true, out.GetOperations()[len(out.GetOperations())-1].GetId()
			return out, nil
		default:
			out.Operations = append(out.Operations, op)
		}
	}
	return out, nil
}

func (f fakeCluster) OperationStatistics(_ context.Context, r *apipb.OperationStatisticsRequest) (*apipb.OperationStatisticsResponse, error) {
	if r.GetOperation() == "gone" {
		return nil, &client.Error{Kind: connect.CodeNotFound}
	}
	return &apipb.OperationStatisticsResponse{Statistics: []*apipb.Statistic{{Task: "t", Name: statistics.TimeTotal, Count: 2, Sum: 3000, Max: 2000, P50: new(int64(1000)), P95: new(int64(2000))}, {Task: "t", Name: statistics.TimeExec, Count: 2}}}, nil
}

// TestReadLive (W1): operations come again each day, or as often as those that are read have come.
func TestReadLive(t *testing.T) {
	of := func(id string, ago time.Duration, ended bool) *apipb.Operation {
		op := liveOperation(id, "ads", ago, ended, &apipb.TaskProgress{Total: 2, Completed: 2})
		op.Progress = op.GetTasks()[0]
		return op
	}
	var many fakeCluster
	for i := range 5000 {
		many = append(many, of(fmt.Sprint("op-", i), time.Duration(i+1)*10*time.Second, true))
	}
	for name, test := range map[string]struct {
		there  fakeCluster
		n      int
		period time.Duration
		note   string
	}{
		"none":                         {nil, 0, 24 * time.Hour, ""},
		"of a young cluster":           {fakeCluster{of("b", time.Hour, true), of("a", 3*time.Hour, false)}, 2, 3 * time.Hour, ""},
		"of a cluster of some seconds": {fakeCluster{of("a", time.Second, false)}, 1, 10 * time.Minute, ""},
		"of an old cluster":            {fakeCluster{of("b", 3*time.Hour, true), of("a", 50*time.Hour, true)}, 1, 24 * time.Hour, ""},
		"one in progress for days":     {fakeCluster{of("b", 3*time.Hour, true), of("a", 50*time.Hour, false)}, 2, 24 * time.Hour, ""},
		"more than are read":           {many, 2000, 20_000 * time.Second, "only the latest 2000 operations of the last day are simulated: those of the last 5h33m20s, which come again as often"},
		"its record has gone":          {fakeCluster{of("gone", time.Hour, true)}, 1, time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := &simulate.Live{Now: liveNow}
			var notes []string
			if err := l.Read(t.Context(), test.there, func(line string, args ...any) { notes = append(notes, fmt.Sprintf(line, args...)) }); err != nil {
				t.Fatal(err)
			}
			if len(l.Operations) != test.n || l.Period != test.period || strings.Join(notes, "\n") != test.note {
				t.Errorf("%d operations come again after %v: %q", len(l.Operations), l.Period, notes)
			}
			for id, tasks := range l.RunTimes {
				if want := (simulate.RunTimes{Jobs: 2, Mean: 1500 * time.Millisecond, P50: time.Second, P95: 2 * time.Second, Greatest: 2 * time.Second}); id != "gone" && tasks["t"] != want {
					t.Errorf("%s takes %+v, want %+v", id, tasks["t"], want)
				}
			}
		})
	}
}
