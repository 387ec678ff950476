package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/messages/actorpb"
	"weir/messages/statepb"
)

func TestGPUsAreAssigned(t *testing.T) {
	g := NewGPUs(4)
	g.Hold("adopted", []int{1, 7})
	tests := []struct {
		job  string
		want string
		n    int64
		err  string
	}{
		{"a", "0,2", 2, ""},
		{"b", "", 2, "job needs 2 GPUs, but of the node's 4 only 1 can be assigned to it"},
		{"none", "", 0, ""},
		{"c", "3", 1, ""},
		{"a", "0,2", 2, ""},
	}
	for _, test := range tests {
		got, err := g.Assign(test.job, test.n)
		if gpuList(got) != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s got %q, %v; want %q, %q", test.job, gpuList(got), err, test.want, test.err)
		}
	}
	g.Free("adopted")
	g.Free("a")
	if got, err := g.Assign("b", 3); err != nil || gpuList(got) != "0,1,2" {
		t.Errorf("b got %v, %v", got, err)
	}
}

// TestNoGPUIsGivenTwice: whatever comes and goes, also across lives of the agent, each
// GPU is one job's, and a job has as many as it was to have.
func TestNoGPUIsGivenTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.Int64Range(0, 8).Draw(t, "count")
		g, has := NewGPUs(count), map[string][]int{}
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			job := name.Draw(t, "job")
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				if has[job] != nil {
					continue
				}
				n := rapid.Int64Range(1, 4).Draw(t, "wants")
				free := count
				for _, numbers := range has {
					free -= int64(len(numbers))
				}
				numbers, err := g.Assign(job, n)
				if (err == nil) != (n <= free) || err == nil && int64(len(numbers)) != n {
					t.Fatalf("%s wants %d of %d: %v, %v", job, n, free, numbers, err)
				}
				if err == nil {
					has[job] = numbers
				}
			case 2:
				g.Free(job)
				delete(has, job)
			case 3:
				g = NewGPUs(count)
				for job, numbers := range has {
					g.Hold(job, numbers)
				}
			}
			var all []int
			for _, numbers := range has {
				all = append(all, numbers...)
			}
			slices.Sort(all)
			if len(slices.Compact(slices.Clone(all))) != len(all) {
				t.Fatalf("%s", fmt.Sprint(has))
			}
		}
	})
}

// wanting grants a job with so many GPUs.
func wanting(job string, gpus int64) planOption {
	return func(p *actorpb.NodePlan) {
		granted(job, 9)(p)
		p.Start[len(p.Start)-1].Resources = &statepb.Resources{Gpu: gpus}
	}
}

func TestAgentHandsOutItsGPUs(t *testing.T) {
	dir := t.TempDir()
	inWorldOn(t, dir, func(w *world) {
		// The agent of the world has none; another process of it has four.
		w.kill()
		w.cfg.Resources.GPU = 4
		w.start()
		w.advance(time.Second)
		w.send(plan(3, 7, wanting("a", 2), wanting("b", 1), wanting("none", 0)))
		if a, b, none := w.gpus("a"), w.gpus("b"), w.gpus("none"); a != "0,1" || b != "2" || none != "" {
			t.Errorf("a has %q, b %q, none %q", a, b, none)
		}
		// The next process knows whose they are.
		w.kill()
		w.start()
		w.advance(time.Second)
		w.send(plan(3, 8, wanting("c", 2)))
		w.advance(w.cfg.Timing.FaultPause)
		w.want("c:aborted:job_proxy_failed")
		if m := w.result("c").GetJob().GetError().GetMessage(); !strings.Contains(m, "job needs 2 GPUs, but of the node's 4 only 1 can be assigned to it") {
			t.Errorf("error %q", m)
		}
		w.exit("a", 0)
		w.send(plan(3, 9, wanting("d", 3)))
		if d := w.gpus("d"); d != "0,1,3" {
			t.Errorf("d has %q", d)
		}
	})
}

// gpus is what a job was told of its GPUs.
func (w *world) gpus(job string) string { return w.spec(job).Environment["WEIR_GPUS"] }
