package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"weir/api/poolfile"
	"weir/messages/apipb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/option"
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

// TraceFile is the name under which the simulation of a live cluster names its operations.
const TraceFile = "operations.jsonl"

// maxTrace bounds the operations of the simulation of a live cluster.
const maxTrace = 200_000

// LiveLength returns how long the simulation of a live cluster lasts with these settings: a day unless they say.
func LiveLength(set []*option.Value) (time.Duration, error) {
	length := span{LivePeriod}
	for _, setting := range set {
		if given := setting.Get("duration"); given != nil {
			if err := length.ReadOption(given); err != nil {
				return 0, fmt.Errorf("duration: %w", err)
			}
		}
	}
	return length.Duration, nil
}

// Guesses counts what is not as it was in the simulation of a live cluster.
type Guesses struct {
	// Hidden are operations that the caller may not read, Suspended those that are suspended, and Homeless those whose
	// pool is gone: they are left out. Unknown are tasks of which no job had completed: see runTime.
	Hidden, Suspended, Homeless, Unknown int
	// Nodes are those that are offline, drained or of another tree: they are left out.
	Nodes int
}

// Write returns the simulation as a file, and its operations, for `length`: the operations in progress, with the jobs
// that they have left, and those of the last Period, again and again. Rights are left out: they decide nothing about
// who has which share. It returns an error if there are no nodes, or no operations, to simulate.
func (l *Live) Write(length time.Duration) (file, trace []byte, guesses Guesses, err error) {
	// Pools that are gone may be added.
	own := *l
	l = &own
	nodes, gone := l.nodes()
	guesses.Nodes = gone
	if len(nodes) == 0 {
		return nil, nil, guesses, fmt.Errorf("%s: none of its nodes is online and not drained", l.Name)
	}
	if trace, err = l.trace(length, &guesses); err != nil {
		return nil, nil, guesses, err
	}
	if len(trace) == 0 {
		return nil, nil, guesses, fmt.Errorf("%s: no operation in progress, and none of the last %v that would come again", l.Name, l.Period)
	}
	head := yaml.MapSlice{
		{Key: "title", Value: fmt.Sprintf("%s as of %s", l.Name, l.Now.UTC().Format("2006-01-02 15:04"))},
		{Key: "duration", Value: length.String()}, {Key: "nodes", Value: nodes},
	}
	if volumes := l.volumes(); len(volumes) > 0 {
		head = append(head, yaml.MapItem{Key: "volumes", Value: volumes})
	}
	head = append(head, yaml.MapItem{Key: "trace", Value: TraceFile})
	if file, err = yaml.MarshalWithOptions(head, yaml.Indent(2)); err != nil {
		return nil, nil, guesses, fmt.Errorf("write simulation: %w", err)
	}
	text, err := l.pools().Write()
	if err != nil {
		return nil, nil, guesses, err
	}
	return append(file, text...), trace, guesses, nil
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
		key := fmt.Sprintf("%v %q", amounts(n.GetResources()), slices.Sorted(slices.Values(n.GetTags())))
		counts[key]++
		first[key] = n
	}
	for i, key := range slices.Sorted(maps.Keys(counts)) {
		n := first[key]
		// The number of a node follows the name.
		group := yaml.MapSlice{{Key: "count", Value: counts[key]}, {Key: "name", Value: fmt.Sprintf("g%d-", i+1)}}
		for _, item := range amounts(n.GetResources()) {
			if item.Key == resource.Memory.String() {
				item.Value = resource.FormatSize(n.GetResources().GetMemory())
			}
			group = append(group, item)
		}
		if len(n.GetTags()) > 0 {
			group = append(group, yaml.MapItem{Key: "tags", Value: slices.Sorted(slices.Values(n.GetTags()))})
		}
		groups = append(groups, group)
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

// trace returns a line for each task of each operation, and for each time that it comes again.
func (l *Live) trace(length time.Duration, guesses *Guesses) ([]byte, error) {
	var out bytes.Buffer
	lines, encoder, means := 0, json.NewEncoder(&out), l.means()
	for _, op := range slices.SortedFunc(slices.Values(l.Operations), func(a, b *apipb.Operation) int { return strings.Compare(a.GetId(), b.GetId()) }) {
		in := l.treeOf(op)
		if in == nil {
			continue
		}
		switch {
		case op.GetHidden() != "":
			guesses.Hidden++
			continue
		case op.GetSuspended() && op.GetFinishTime() == nil:
			guesses.Suspended++
			continue
		}
		pool, ok := l.pool(op, in.GetPool())
		if !ok {
			guesses.Homeless++
			continue
		}
		times := l.starts(op, length)
		for _, task := range op.GetTasks() {
			if lines += len(times); lines > maxTrace {
				return nil, fmt.Errorf("more than %d operations in %v: simulate a shorter time", maxTrace, length)
			}
			runs, known := l.runTime(op, task, means)
			if !known && len(times) > 0 {
				guesses.Unknown++
			}
			line := map[string]any{"pool": string(pool), "job": job(task, runs)}
			if options := in.GetOptions().AsMap(); len(options) > 0 {
				line["options"] = options
			}
			for i, at := range times {
				if jobs := begin(line, op, task, at < 0); jobs == 0 {
					continue
				}
				line["id"], line["at"] = fmt.Sprintf("%s/%s/%d", op.GetId(), task.GetName(), i), max(at, 0).String()
				if err := encoder.Encode(line); err != nil {
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
	for at := max(0, l.Period-ago); at < length && len(times) <= maxTrace; at += l.Period {
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

// begin sets how many jobs of a task a line starts: those that it has left, or all that it would have again. Those are
// the ones that had started if it ended before they all completed. Jobs of a gang start together.
func begin(line map[string]any, op *apipb.Operation, task *apipb.TaskProgress, left bool) (jobs int64) {
	jobs = task.GetTotal()
	size := int64(task.GetGang().GetSize())
	switch {
	case left:
		jobs -= task.GetCompleted() + task.GetGivenUp()
		size -= task.GetGang().GetCompletedRanks()
	case op.GetFinishTime() != nil && op.GetState() != lifecycle.Completed.String():
		jobs = min(jobs, task.GetCompleted()+task.GetFailed()+task.GetAborted())
	}
	delete(line, "gang_options")
	if size = min(size, jobs); size > 0 {
		line["gang_options"] = map[string]any{"size": size}
	}
	line["jobs"] = jobs
	return max(jobs, 0)
}

// job returns what a line says of the jobs of a task.
func job(task *apipb.TaskProgress, length any) map[string]any {
	out := map[string]any{"length": length}
	for _, item := range amounts(task.GetJobResources()) {
		out[item.Key.(string)] = item.Value
	}
	return out
}

// pool returns the pool in which an operation is simulated. If its pool is gone, as the ephemeral pool of a user goes
// with its last operation, it is the one that the operation would come to now; false: the tree would refuse it.
func (l *Live) pool(op *apipb.Operation, name string) (scheduling.PoolName, bool) {
	at := scheduling.PoolName(name)
	if !l.Pools.Has(at) {
		hub, _, _ := strings.Cut(name, "$")
		placed, err := l.Pools.Place(scheduling.PoolName(hub), scheduling.User(op.GetUser()), false)
		if err != nil {
			return "", false
		}
		l.Pools, at = placed.Tree, placed.Pool
	}
	return lasting(at), true
}

// pools returns the tree without rights, and with its ephemeral pools as lasting ones.
func (l *Live) pools() poolfile.File {
	options, pools := l.Pools.Options(), l.Pools.ParentsFirst()
	options.ACL = nil
	for i := range pools {
		p := &pools[i]
		p.Name, p.Parent, p.Ephemeral = lasting(p.Name), lasting(p.Parent), ""
		p.Options.ACL, p.Options.CreateEphemeralSubpools, p.Options.Ephemeral = nil, nil, nil
	}
	return poolfile.File{Options: &options, Pools: pools}
}

// lasting returns the name of a pool in the simulation: only ephemeral ones have a $.
func lasting(name scheduling.PoolName) scheduling.PoolName {
	return scheduling.PoolName(strings.ReplaceAll(string(name), "$", "~"))
}
