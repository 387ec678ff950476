package simulate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"weir/api/poolfile"
	"weir/messages/apipb"
	"weir/scheduling"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// Live is a cluster as it is, and what was started in it, to be simulated.
type Live struct {
	// Name is what the cluster is called. Now is its time.
	Name string
	Now  time.Time
	Tree scheduling.TreeName
	// Pools are those of the tree, and Volumes what they have saved: seconds of the whole cluster.
	Pools   pooltree.Tree
	Volumes map[scheduling.PoolName]float64
	Nodes   []*apipb.Node
	// Operations are those in progress, and those that were started in the last Period or later, in any order.
	Operations []*apipb.Operation
	Period     time.Duration
	// RunTimes are what is known of the run times of jobs that completed, by operation and task.
	RunTimes map[string]map[string]RunTimes
}

// RunTimes are quantiles of the run times of jobs.
type RunTimes struct{ P50, P95 time.Duration }

// TraceFile is the name under which the simulation of a live cluster names its operations.
const TraceFile = "operations.jsonl"

// maxTrace bounds the operations of the simulation of a live cluster.
const maxTrace = 200_000

// Guesses says what is not as it was in the simulation of a live cluster.
type Guesses struct {
	// Hidden are operations that the caller may not read: they are left out. Unknown are tasks of which no job had
	// ended: what is known of others, or the age of the operation, stands for their run times.
	Hidden, Unknown int
	// Nodes are those that are offline, drained or of another tree: they are left out.
	Nodes int
}

// Write returns the simulation as a file, and its operations, for `length`: the operations in progress, with the jobs
// that they have left, and those of the last Period, again and again. Rights are left out: they decide nothing about
// who has which share.
func (l *Live) Write(length time.Duration) (file, trace []byte, guesses Guesses, err error) {
	nodes, gone := l.nodes()
	guesses.Nodes = gone
	head := yaml.MapSlice{
		{Key: "title", Value: fmt.Sprintf("%s as of %s", cmp.Or(l.Name, "the cluster"), l.Now.UTC().Format("2006-01-02 15:04"))},
		{Key: "duration", Value: length.String()}, {Key: "nodes", Value: nodes},
	}
	if volumes := l.volumes(); len(volumes) > 0 {
		head = append(head, yaml.MapItem{Key: "volumes", Value: volumes})
	}
	head = append(head, yaml.MapItem{Key: "trace", Value: TraceFile})
	if file, err = yaml.MarshalWithOptions(head, yaml.Indent(2)); err != nil {
		return nil, nil, guesses, fmt.Errorf("write simulation: %w", err)
	}
	pools := poolfile.Of("", l.Pools)
	options := *pools.Options
	options.ACL = nil
	pools.Options = &options
	for i := range pools.Pools {
		pools.Pools[i].Options.ACL = nil
	}
	pools.Pools = append(pools.Pools, l.others(pools.Pools)...)
	text, err := pools.Write()
	if err != nil {
		return nil, nil, guesses, err
	}
	trace, err = l.trace(length, &guesses)
	return append(file, text...), trace, guesses, err
}

// nodes returns groups of equal nodes, and how many are left out.
func (l *Live) nodes() (groups []any, left int) {
	counts := map[string]int{}
	first := map[string]*apipb.Node{}
	for _, n := range l.Nodes {
		if n.GetState() != "online" || n.GetDrain() != nil || n.GetTree() != string(l.Tree) {
			left++
			continue
		}
		key := fmt.Sprint(n.GetResources(), slices.Sorted(slices.Values(n.GetTags())))
		counts[key]++
		first[key] = n
	}
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		n := first[key]
		group := append(yaml.MapSlice{{Key: "count", Value: counts[key]}}, amounts(n.GetResources())...)
		for i, item := range group {
			if item.Key == resource.Memory.String() {
				group[i].Value = resource.FormatSize(n.GetResources().GetMemory())
			}
		}
		groups = append(groups, append(group, yaml.MapItem{Key: "tags", Value: n.GetTags()}))
	}
	return groups, left
}

// amounts returns resources as a file has them.
func amounts(r *apipb.Resources) yaml.MapSlice {
	out := yaml.MapSlice{{Key: "user_slots", Value: r.GetUserSlots()}, {Key: "cpu", Value: r.GetCpu()}, {Key: "memory", Value: r.GetMemory()}}
	if r.GetGpu() > 0 {
		out = append(out, yaml.MapItem{Key: "gpu", Value: r.GetGpu()})
	}
	if r.GetNetwork() > 0 {
		out = append(out, yaml.MapItem{Key: "network", Value: r.GetNetwork()})
	}
	return out
}

func (l *Live) volumes() (out yaml.MapSlice) {
	for _, name := range slices.Sorted(maps.Keys(l.Volumes)) {
		p, _ := l.Pools.Pool(name)
		if seconds := l.Volumes[name]; seconds > 0 && p.Options.Integral != nil {
			out = append(out, yaml.MapItem{Key: string(name), Value: time.Duration(seconds * float64(time.Second)).Round(time.Second).String()})
		}
	}
	return out
}

// trace returns a line for each task of each operation.
func (l *Live) trace(length time.Duration, guesses *Guesses) ([]byte, error) {
	var out bytes.Buffer
	lines, encoder := 0, json.NewEncoder(&out)
	for _, op := range slices.SortedFunc(slices.Values(l.Operations), func(a, b *apipb.Operation) int { return strings.Compare(a.GetId(), b.GetId()) }) {
		in := l.treeOf(op)
		switch {
		case in == nil:
			continue
		case op.GetHidden() != "":
			guesses.Hidden++
			continue
		}
		for _, task := range op.GetTasks() {
			times := l.starts(op, length)
			if lines += len(times); lines > maxTrace {
				return nil, fmt.Errorf("more than %d operations in %v: simulate a shorter time", maxTrace, length)
			}
			line := l.line(op, in, task, guesses)
			for i, at := range times {
				again, jobs := maps.Clone(line), task.GetTotal()
				if at < 0 {
					// It is in progress.
					at, jobs = 0, jobs-task.GetCompleted()-task.GetGivenUp()
				}
				if jobs <= 0 {
					continue
				}
				again["id"], again["at"], again["jobs"] = fmt.Sprintf("%s/%s/%d", op.GetId(), task.GetName(), i), at.String(), jobs
				if err := encoder.Encode(again); err != nil {
					return nil, fmt.Errorf("write operation %s: %w", op.GetId(), err)
				}
			}
		}
	}
	return out.Bytes(), nil
}

// starts returns when an operation starts in the simulation: negative for what it has left now, and each time that the
// last period comes again.
func (l *Live) starts(op *apipb.Operation, length time.Duration) (times []time.Duration) {
	if op.GetFinishTime() == nil {
		times = append(times, -1)
	}
	ago := l.Now.Sub(op.GetStartTime().AsTime())
	if ago > l.Period {
		return times
	}
	for at := max(0, l.Period-ago); at < length; at += l.Period {
		times = append(times, at.Round(time.Millisecond))
	}
	return times
}

// treeOf returns the operation in the tree; nil: it is not there.
func (l *Live) treeOf(op *apipb.Operation) *apipb.OperationTree {
	for _, in := range op.GetTrees() {
		if in.GetTree() == string(l.Tree) {
			return in
		}
	}
	return nil
}

// line returns what a line of the trace has of a task, without its id and time.
func (l *Live) line(op *apipb.Operation, in *apipb.OperationTree, task *apipb.TaskProgress, guesses *Guesses) map[string]any {
	job := map[string]any{}
	for _, item := range amounts(task.GetJobResources()) {
		job[item.Key.(string)] = item.Value
	}
	length, known := l.runTime(op, task)
	if !known {
		guesses.Unknown++
	}
	job["length"] = length
	line := map[string]any{"pool": string(l.pool(in.GetPool())), "job": job}
	if options := in.GetOptions().AsMap(); len(options) > 0 {
		line["options"] = options
	}
	if task.GetGang() != nil {
		line["gang"] = true
	}
	return line
}

// pool returns the pool of an operation in the simulation. Ephemeral pools are not simulated: the one above stands for
// them, unless that is the root. A pool that is gone counts as an ephemeral one.
func (l *Live) pool(name string) scheduling.PoolName {
	for at := scheduling.PoolName(name); ; {
		p, ok := l.Pools.Pool(at)
		if !ok {
			p.Parent = l.Pools.Settings().DefaultParentPool
		}
		if at == scheduling.RootPool || p.Parent == scheduling.RootPool || ok && p.Ephemeral == "" {
			return at
		}
		at = p.Parent
	}
}

// others returns the pools of operations that are not among those of the file: ephemeral and gone, below the root.
func (l *Live) others(known []pooltree.Pool) (others []pooltree.Pool) {
	has := map[scheduling.PoolName]bool{scheduling.RootPool: true}
	for _, p := range known {
		has[p.Name] = true
	}
	for _, op := range l.Operations {
		if in := l.treeOf(op); in != nil && op.GetHidden() == "" {
			if name := l.pool(in.GetPool()); !has[name] {
				has[name] = true
				others = append(others, pooltree.Pool{Name: name, Parent: scheduling.RootPool})
			}
		}
	}
	return others
}

// runTime returns the distribution of the run times of a task's jobs, and whether jobs of it have shown it.
func (l *Live) runTime(op *apipb.Operation, task *apipb.TaskProgress) (distribution any, known bool) {
	if q, ok := l.RunTimes[op.GetId()][task.GetName()]; ok && q.P50 > 0 {
		if q.P95 <= q.P50 {
			return q.P50.String(), true
		}
		// The 95th percentile of a normal distribution is 1.645 deviations above its median.
		sigma := math.Log(float64(q.P95)/float64(q.P50)) / 1.645
		return map[string]any{"lognormal": map[string]any{"median": q.P50.String(), "sigma": math.Round(sigma*1000) / 1000}}, true
	}
	if mean, ended := meanOf(task); ended > 0 {
		return map[string]any{"exponential": mean.String()}, true
	}
	return map[string]any{"exponential": l.guess(op).String()}, false
}

// meanOf returns the mean run time of a task's jobs that have ended, and how many have.
func meanOf(task *apipb.TaskProgress) (mean time.Duration, ended int64) {
	if ended = task.GetCompleted(); ended == 0 || task.GetRunSeconds() <= 0 {
		return 0, 0
	}
	return max(time.Millisecond, time.Duration(task.GetRunSeconds()/float64(ended)*float64(time.Second)).Round(time.Millisecond)), ended
}

// guess returns a mean run time for an operation of which no job has ended: that of others of its user and title, else
// of its user, else of all; and at least the time for which it has run.
func (l *Live) guess(op *apipb.Operation) time.Duration {
	var sums, counts [3]float64
	for _, other := range l.Operations {
		for _, task := range other.GetTasks() {
			mean, ended := meanOf(task)
			for i, alike := range []bool{other.GetUser() == op.GetUser() && other.GetTitle() == op.GetTitle(), other.GetUser() == op.GetUser(), true} {
				if alike {
					sums[i] += mean.Seconds() * float64(ended)
					counts[i] += float64(ended)
				}
			}
		}
	}
	age := l.Now.Sub(op.GetStartTime().AsTime())
	for i, n := range counts {
		if n > 0 {
			age = max(age, time.Duration(sums[i]/n*float64(time.Second)))
			break
		}
	}
	return max(age, time.Second).Round(time.Millisecond)
}
