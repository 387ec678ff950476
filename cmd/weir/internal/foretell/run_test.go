package foretell

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/apipb"
	"weir/messages/explainpb"
	"weir/scheduling/explain"
	"weir/scheduling/lifecycle"
)

// fakeCluster runs one job at a time, of the operation that came first, and knows when each will start if it is
// `wise`. Otherwise it says a minute too late.
type fakeCluster struct {
	wise  bool
	jobs  []*fakeJob
	pools []string
	ids   []string
}

type fakeJob struct {
	operation   string
	start, ends time.Time
}

func (f *fakeCluster) CreatePool(_ context.Context, p *apipb.Pool) (uint64, error) {
	f.pools = append(f.pools, p.GetName())
	return 1, nil
}

func (f *fakeCluster) StartOperation(_ context.Context, r *apipb.StartRequest) (*apipb.StartResponse, error) {
	id := fmt.Sprint("op-", len(f.ids))
	f.ids = append(f.ids, id)
	task := r.GetSpec().GetFields()["tasks"].GetStructValue().GetFields()["sleep"].GetStructValue()
	for range int(task.GetFields()["job_count"].GetNumberValue()) {
		start := time.Now()
		if n := len(f.jobs); n > 0 && f.jobs[n-1].ends.After(start) {
			start = f.jobs[n-1].ends
		}
		f.jobs = append(f.jobs, &fakeJob{id, start, start.Add(10 * time.Second)})
	}
	return &apipb.StartResponse{OperationId: id}, nil
}

// progress returns how many jobs of an operation there are, wait and run.
func (f *fakeCluster) progress(id string) (total, pending, running int64) {
	for _, j := range f.jobs {
		switch now := time.Now(); {
		case j.operation != id:
			continue
		case j.start.After(now):
			pending++
		case j.ends.After(now):
			running++
		}
		total++
	}
	return total, pending, running
}

// ListOperations answers with two of those in progress at a time.
func (f *fakeCluster) ListOperations(_ context.Context, r *apipb.ListOperationsRequest) (*apipb.ListOperationsResponse, error) {
	out := &apipb.ListOperationsResponse{}
	for _, id := range f.ids[slices.Index(f.ids, r.GetAfter())+1:] {
		if len(out.GetOperations()) == 2 {
			out.Incomplete, out.Next = true, out.GetOperations()[1].GetId()
			break
		}
		if total, pending, running := f.progress(id); pending+running > 0 {
			out.Operations = append(out.Operations, &apipb.Operation{Id: id, State: lifecycle.Running.String(), Progress: &apipb.TaskProgress{Total: total, Pending: pending, Running: running}})
		}
	}
	return out, nil
}

func (f *fakeCluster) ListJobs(_ context.Context, r *apipb.ListJobsRequest) (*apipb.ListJobsResponse, error) {
	out := &apipb.ListJobsResponse{Jobs: []*apipb.Job{{}}} // One that waits for its process has no start.
	for _, j := range f.jobs {
		if j.operation == r.GetOperation() && !j.start.After(time.Now()) {
			out.Jobs = append(out.Jobs, &apipb.Job{StartTime: timestamppb.New(j.start)})
		}
	}
	return out, nil
}

func (f *fakeCluster) Explain(_ context.Context, r *apipb.ExplainRequest) ([]*explainpb.Explanation, error) {
	x := &explainpb.Explanation{Time: timestamppb.Now(), Verdict: explain.FactNoJobs}
	for _, j := range f.jobs {
		if j.operation != r.GetOperation() || !j.start.After(time.Now()) {
			continue
		}
		told := j.start
		if !f.wise {
			told = told.Add(time.Minute)
		}
		x.Verdict, x.EstimatedBy = "waiting_for_turn", "jobs_that_end"
		x.EstimatedStart, x.EstimatedEarliest, x.EstimatedLatest = timestamppb.New(told), timestamppb.New(told.Add(-time.Second)), timestamppb.New(told.Add(time.Second))
		break
	}
	return []*explainpb.Explanation{x}, nil
}

// TestRun (X11) asks a cluster that knows the future, and one that says a minute too much.
func TestRun(t *testing.T) {
	for name, test := range map[string]struct {
		wise             bool
		within           float64
		offFrom, offUpTo float64
	}{
		"wise":    {wise: true, within: 1, offUpTo: .001},
		"foolish": {within: 0, offFrom: 59.999, offUpTo: 60.001},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeCluster{wise: test.wise}
				var told time.Duration
				got, err := Run(t.Context(), f, Config{Lasts: time.Hour, Slots: 4, Seed: 1}, func(ran time.Duration, _ int) { told = ran })
				if err != nil {
					t.Fatal(err)
				}
				if len(f.pools) != len(pools) || len(f.ids) < 5 || told < time.Hour {
					t.Errorf("pools %q, %d operations, %v", f.pools, len(f.ids), told)
				}
				if got.First.Judged < 5 || got.Next.Judged < 20 {
					t.Fatalf("%d first and %d next estimates are judged", got.First.Judged, got.Next.Judged)
				}
				for what, of := range map[string]struct{ within, off float64 }{"first": {got.First.Within, got.First.SecondsP50}, "next": {got.Next.Within, got.Next.SecondsP50}} {
					if of.within != test.within || of.off < test.offFrom || of.off > test.offUpTo {
						t.Errorf("%s: %.0f%% in range, %g s off, want %.0f%%, %.0f s", what, 100*of.within, of.off, 100*test.within, test.offFrom)
					}
				}
			})
		})
	}
}

// TestLoad: a load is the same for a seed, comes in order, meets all pools, and is as much as was asked for.
func TestLoad(t *testing.T) {
	const slots, lasts = 12, time.Hour
	all := load(7, slots, lasts)
	if again := load(7, slots, lasts); fmt.Sprint(again) != fmt.Sprint(all) {
		t.Error("another load for the same seed")
	}
	if other := load(8, slots, lasts); fmt.Sprint(other) == fmt.Sprint(all) {
		t.Error("the same load for another seed")
	}
	var work time.Duration
	seen := map[string]int{}
	for i, s := range all {
		if i > 0 && s.at < all[i-1].at || s.at >= lasts || len(s.takes) != s.jobs {
			t.Errorf("submission %d: %+v", i, s)
		}
		seen[s.pool]++
		for _, took := range s.takes {
			work += took
		}
	}
	for _, p := range pools {
		if part := float64(seen[p.name]) / float64(len(all)); part < p.part-.1 || part > p.part+.1 {
			t.Errorf("pool %s has %.2f of the operations, want %.2f", p.name, part, p.part)
		}
	}
	if asked := work.Seconds() / slots / lasts.Seconds(); asked < pressure-.05 || asked > pressure+.1 {
		t.Errorf("the work is %.2f of what the slots can do, want %.2f", asked, pressure)
	}
}
