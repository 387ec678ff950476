package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/api/document"
	"weir/api/poolfile"
	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
	"weir/scheduling/whatif"
)

// File is a simulation as a file describes it.
type File struct {
	Title string
	Seed  uint64
	// Duration is the length of the simulation in simulated time; Sample is the time between
	// two points of a series.
	Duration, Sample time.Duration
	// Heartbeat is the period of node heartbeats.
	Heartbeat time.Duration
	Pace      Pace
	Pools     pooltree.Tree
	Nodes     []whatif.Node
	// Volumes are the initial volumes of pools with integral guarantees. A volume of 1h is worth
	// the whole cluster for an hour.
	Volumes   map[scheduling.PoolName]time.Duration
	Workloads []*Workload
	// Trace is a list of single operations, in order of time.
	Trace    []Submission
	Failures []*Failure
	// Estimates has the run find out how good the estimates of starts are.
	Estimates bool
	// Control is the control run: the same simulation with some changes; nil if there is none.
	Control     *File
	ControlName string
}

// Pace is how often fair shares are recomputed.
type Pace struct {
	// Update is the least time between two updates. Longest is the time between them when
	// nothing changes.
	Update, Longest time.Duration
	// Tolerance is the part by which a volume may change from one update to the next.
	Tolerance float64
}

// Failure is a failure at one moment: of nodes, or of the leader.
type Failure struct {
	At *span `option:"at" kind:"time" default:"0s"`
	// Nodes is how many nodes are lost. BackAfter is how long they stay away; 0 means that they do
	// not come back.
	Nodes     *int64 `option:"nodes" min:"0" default:"0"`
	BackAfter *span  `option:"back_after" kind:"time" default:"0s"`
	// Leader says that the leader is lost; the next one takes over after Gap.
	Leader *bool `option:"leader" default:"false"`
	Gap    *span `option:"gap" kind:"time" default:"1s"`
}

// simulation is the content of a file.
type simulation struct {
	Title     *string              `option:"title"`
	Seed      *int64               `option:"seed" min:"0" default:"1"`
	Duration  *span                `option:"duration" kind:"time" default:"1d"`
	Sample    *span                `option:"sample" kind:"time"`
	Heartbeat *span                `option:"heartbeat" kind:"time" default:"5s"`
	Update    *span                `option:"fair_share_update_period" kind:"time" default:"1s"`
	Longest   *span                `option:"longest_update_period" kind:"time" default:"10m"`
	Tolerance *float64             `option:"volume_tolerance" above:"0" max:"1" default:"0.05"`
	Options   *option.Value        `option:"options"`
	Pools     *option.Value        `option:"pools"`
	Nodes     []poolfile.Nodes     `option:"nodes" kind:"list of nodes"`
	Volumes   map[string]*span     `option:"volumes" kind:"times by name"`
	Workloads map[string]*Workload `option:"workloads" null:"empty"`
	Trace     *string              `option:"trace"`
	Failures  []*Failure           `option:"failures"`
	Control   *option.Value        `option:"control"`
}

var _ = option.Declare(simulation{}, traceLine{})

// maxNodes bounds the number of nodes.
const maxNodes = 1_000_000

// Changes override parts of a file. Each is a value that ReadSetting returns.
type Changes struct {
	// Set applies to both runs. Control applies to the control run only, and replaces the control
	// section of the file.
	Set, Control []*option.Value
	// NoControl leaves the control run out.
	NoControl bool
}

// ReadSetting reads PATH=VALUE: names separated by dots, and a value in YAML. It returns a
// document with only this setting. An empty value becomes null, which removes the setting from
// the file.
func ReadSetting(text string) (*option.Value, error) {
	path, literal, ok := strings.Cut(text, "=")
	names := strings.Split(path, ".")
	if !ok || slices.Contains(names, "") {
		return nil, errors.New("write it as PATH=VALUE, such as pools.ads.weight=5")
	}
	if strings.TrimSpace(literal) == "" {
		literal = "null"
	}
	value, err := document.ReadLiteral(literal)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Backward(names) {
		value = &option.Value{Kind: option.Object, Fields: []option.Entry{{Name: name, Value: value}}}
	}
	return value, nil
}

// Read reads a simulation and its control run. open reads the files that the simulation names. All
// faults are reported at once, in an *option.Error.
func Read(data []byte, open func(name string) ([]byte, error), changes Changes) (*File, error) {
	doc, err := document.Read("simulation", data)
	if err != nil {
		return nil, err
	}
	root := merged(doc.Root, changes.Set)
	file, control, err := read(doc, root, open)
	if err != nil || changes.NoControl {
		return file, err
	}
	if len(changes.Control) > 0 {
		control = merged(&option.Value{Kind: option.Object}, changes.Control)
	}
	if control == nil {
		return file, nil
	}
	file.ControlName = "control"
	patch := *control
	patch.Fields = slices.DeleteFunc(slices.Clone(control.Fields), func(f option.Entry) bool {
		isName := f.Name == "name" && f.Value.Kind == option.Text
		if isName {
			file.ControlName = f.Value.Text
		}
		return isName
	})
	if file.Control, _, err = read(doc, root.Merge(&patch), open); err != nil {
		return nil, fmt.Errorf("control run: %w", err)
	}
	return file, nil
}

// merged returns v with the patches merged in, in order.
func merged(v *option.Value, patches []*option.Value) *option.Value {
	for _, patch := range patches {
		v = v.Merge(patch)
	}
	return v
}

// reader turns a document into a File.
type reader struct {
	*option.Reading
	*File
	of *simulation
	// poolless says that the pools could not be read.
	poolless bool
	// nodes is the number of nodes.
	nodes int64
}

// read reads a document, patched or not, and returns the simulation and its control section.
func read(doc *document.Document, root *option.Value, open func(string) ([]byte, error)) (file *File, control *option.Value, err error) {
	r := &reader{Reading: doc.Reading(), File: new(File), of: new(simulation)}
	r.Options(r.of, root, "")
	// Keep the failures as read: Complete copies groups, and the copies have no positions in the
	// file, which error messages need.
	failures := r.of.Failures
	option.Complete(r.of)
	r.times()
	r.readPools()
	r.readNodes()
	r.readVolumes()
	for _, name := range option.SortedNames(r.of.Workloads) {
		w := r.of.Workloads[name]
		w.Name = name
		r.workload(w)
		r.Workloads = append(r.Workloads, w)
	}
	if r.of.Trace != nil {
		r.readTrace(*r.of.Trace, open)
	}
	for _, f := range failures {
		r.failure(f)
	}
	if len(r.Workloads) == 0 && len(r.Trace) == 0 && len(r.Faults) == 0 {
		r.Add("", root.At, "no workloads and no trace: nothing to run")
	}
	return r.File, r.of.Control, doc.Refuse(r.Faults)
}

// adopt adds the faults that another reader has found.
func (r *reader) adopt(path string, at option.Position, err error) {
	var refused *option.Error
	switch {
	case errors.As(err, &refused):
		r.Faults = append(r.Faults, refused.Faults...)
	case err != nil:
		r.Add(path, at, "%v", err)
	}
}

// times checks the times of a file, and sets those that follow from others.
func (r *reader) times() {
	d := r.of
	for _, t := range []**span{&d.Duration, &d.Heartbeat, &d.Update, &d.Longest} {
		if (*t).Duration <= 0 {
			r.Fault(d, t, "must be more than 0")
		}
	}
	if d.Longest.Duration < d.Update.Duration {
		r.Fault(d, &d.Longest, "%v is less than fair_share_update_period, %v", d.Longest, d.Update)
	}
	r.Title, r.Seed, r.Duration, r.Heartbeat = *cmp.Or(d.Title, new(string)), uint64(*d.Seed), d.Duration.Duration, d.Heartbeat.Duration
	r.Pace = Pace{d.Update.Duration, d.Longest.Duration, *d.Tolerance}
	if d.Sample != nil {
		r.Sample = d.Sample.Duration
	}
	if r.Sample == 0 {
		r.Sample = max(r.Duration/1000, time.Second).Round(time.Second)
	}
	if r.Duration/r.Sample > maxSamples {
		r.Fault(d, &d.Sample, "%v makes more than %d points in %v", r.Sample, maxSamples, r.Duration)
	}
}

// maxSamples bounds the points of a series.
const maxSamples = 1_000_000

// readPools reads the pool tree, in the format of weir pool apply.
func (r *reader) readPools() {
	nothing := new(option.Value)
	file, err := poolfile.ReadWithin(&option.Value{Kind: option.Object, Fields: []option.Entry{
		{Name: "options", Value: cmp.Or(r.of.Options, nothing)}, {Name: "pools", Value: cmp.Or(r.of.Pools, nothing)},
	}})
	if err != nil {
		r.poolless = true
		r.adopt("", option.Position{}, err)
		return
	}
	if len(file.Pools) == 0 {
		file.Pools = append(file.Pools, pooltree.Pool{Name: scheduling.DefaultPool, Parent: scheduling.RootPool})
	}
	if r.Pools, err = pooltree.FromPools(*cmp.Or(file.Options, new(pooltree.TreeOptions)), file.Pools); err != nil {
		r.poolless = true
		r.Fault(r.of, &r.of.Pools, "%v", err)
	}
}

// slotsPerCore is the default number of jobs that an agent runs at once, per core.
const slotsPerCore = 4

func (r *reader) readNodes() {
	for i, n := range r.of.Nodes {
		group := whatif.Node{Name: *cmp.Or(n.Name, new("n")), Count: *cmp.Or(n.Count, new(int64(1))), Tags: n.Tags}
		group.Resources = n.Resources.Or(resource.Amounts{UserSlots: int64(slotsPerCore * n.Resources.Amounts.CPU.Cores())})
		fault := func(format string, args ...any) { r.FaultOfItem(r.of, &r.of.Nodes, i, format, args...) }
		if group.Resources.CPU == 0 && len(r.Faults) == 0 {
			fault("nodes need cpu, such as 32")
		}
		if slices.ContainsFunc(r.Nodes, func(other whatif.Node) bool { return other.Name == group.Name }) {
			fault("there are nodes named %q already: give these another name", group.Name)
		}
		if group.Count > maxNodes {
			fault("%d nodes, the limit is %d", group.Count, maxNodes)
			continue
		}
		r.nodes += group.Count
		r.Nodes = append(r.Nodes, group)
	}
	if r.nodes == 0 || r.nodes > maxNodes {
		r.Fault(r.of, &r.of.Nodes, "%d nodes in total: must be 1 to %d, such as [{count: 10, cpu: 32, memory: 128GiB}]", r.nodes, maxNodes)
	}
}

// readVolumes reads the initial volumes of pools with integral guarantees.
func (r *reader) readVolumes() {
	r.Volumes = make(map[scheduling.PoolName]time.Duration)
	for _, name := range option.SortedNames(r.of.Volumes) {
		pool, ok := r.Pools.Pool(scheduling.PoolName(name))
		if len(r.Faults) == 0 && (!ok || pool.Options.Integral == nil) {
			r.Add("volumes."+option.Clip(name), r.Given(r.of, &r.of.Volumes).At, "there is no pool %q with integral_guarantees", name)
		}
		r.Volumes[scheduling.PoolName(name)] = r.of.Volumes[name].Duration
	}
}

// failure checks a failure and adds it.
func (r *reader) failure(f *Failure) {
	option.Complete(f)
	if (*f.Nodes > 0) == *f.Leader {
		r.Fault(f, nil, "either a number of nodes is needed, or leader: true")
	}
	if *f.Nodes > r.nodes {
		r.Fault(f, &f.Nodes, "%d nodes are to fail, but there are only %d", *f.Nodes, r.nodes)
	}
	r.Failures = append(r.Failures, f)
}
