package simulate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/api/document"
	"weir/api/poolfile"
	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// File is a simulation as a file describes it.
type File struct {
	Title string
	Seed  uint64
	// Duration is how long the simulated time is, Sample how often series have a point.
	Duration, Sample time.Duration
	// Heartbeat is how often nodes are heard.
	Heartbeat time.Duration
	Pace      Pace
	Pools     pooltree.Tree
	Nodes     []NodeGroup
	// Volumes are what pools with integral guarantees begin with: time of the whole
	// cluster.
	Volumes   map[scheduling.PoolName]time.Duration
	Workloads []Workload
	// Trace are single operations, by time.
	Trace    []Submission
	Failures []Failure
	// Control is the same simulation with some things changed; nil: there is none.
	Control     *File
	ControlName string
}

// Pace is how often fair shares are found anew.
type Pace struct {
	// Update is the least time between two updates; Longest is that when nothing
	// changes.
	Update, Longest time.Duration
	// Tolerance is by which part volumes may change from one update to the next.
	Tolerance float64
}

// NodeGroup is nodes that are alike.
type NodeGroup struct {
	Name      string
	Count     int64
	Resources resource.Amounts
	Tags      []string
}

// The names of a file.
const (
	keyControl = "control"
	keyOptions = "options"
	keyPools   = "pools"
	keyTrace   = "trace"
)

// maxNodes bounds how many nodes there are.
const maxNodes = 1_000_000

// Setting is one thing of the file that is to be otherwise: the names on the way to
// it, and its value, nil for the default.
type Setting struct {
	Path  []string
	Value any
}

// Changes are what is to be otherwise than a file says.
type Changes struct {
	// Set holds for both runs, Control for the control run alone, instead of what the
	// file says of it.
	Set, Control []Setting
	// NoControl leaves the control run out.
	NoControl bool
}

// ReadSetting reads PATH=VALUE: names with dots between, and a value in YAML.
func ReadSetting(text string) (Setting, error) {
	path, value, ok := strings.Cut(text, "=")
	names := strings.Split(path, ".")
	if !ok || slices.Contains(names, "") {
		return Setting{}, errors.New("write it as PATH=VALUE, such as pools.ads.weight=5")
	}
	read, err := document.Literal(value)
	if err != nil {
		return Setting{}, err
	}
	return Setting{Path: names, Value: read}, nil
}

// Read reads a simulation, with its control run. open reads a file that it names. All
// that is wrong is told at once, by a *option.Error.
func Read(data []byte, open func(name string) ([]byte, error), changes Changes) (*File, error) {
	document, err := document.Read("simulation", data)
	if err != nil {
		return nil, wrapped(err)
	}
	whole, err := document.Plain()
	if err != nil {
		return nil, wrapped(err)
	}
	control, given := whole[keyControl]
	delete(whole, keyControl)
	if len(changes.Set) > 0 {
		whole = merged(whole, patchOf(changes.Set))
	}
	file, err := read(document.Place, merged(whole, nil), open)
	if err != nil || changes.NoControl {
		return file, err
	}
	places := document.Place
	switch {
	case len(changes.Control) > 0:
		control = patchOf(changes.Control)
	case given:
		// What it changes has its place below control, all else as before.
		places = func(names ...string) (line, column int) {
			at, _ := document.Place(keyControl)
			if line, column = document.Place(append([]string{keyControl}, names...)...); line == at {
				line, column = document.Place(names...)
			}
			return line, column
		}
	default:
		return file, nil
	}
	patch, ok := control.(map[string]any)
	if !ok {
		line, column := document.Place(keyControl)
		return nil, refuse([]option.Fault{{Path: keyControl, Position: option.Position{Line: line, Column: column}, Problem: "an object is needed: what differs in the control run"}})
	}
	file.ControlName = "control"
	if name, given := patch["name"].(string); given {
		file.ControlName = name
		delete(patch, "name")
	}
	if file.Control, err = read(places, merged(whole, patch), open); err != nil {
		return nil, fmt.Errorf("control run: %w", err)
	}
	return file, nil
}

func patchOf(settings []Setting) map[string]any {
	patch := map[string]any{}
	for _, s := range settings {
		put(patch, s.Path, s.Value)
	}
	return patch
}

func wrapped(err error) error {
	r := reader{lines: func(...string) (int, int) { return 0, 0 }}
	r.take(nil, err)
	return r.err()
}

// merged returns an object with a patch: objects are patched in turn, null takes away,
// all else replaces. Neither is changed.
func merged(base, patch map[string]any) map[string]any {
	out := make(map[string]any, len(base))
	for name, value := range base {
		if object, ok := value.(map[string]any); ok {
			value = merged(object, nil)
		}
		out[name] = value
	}
	for name, value := range patch {
		object, isObject := value.(map[string]any)
		below, _ := out[name].(map[string]any)
		switch {
		case isObject:
			out[name] = merged(below, object)
		case value == nil && out[name] != nil:
			out[name] = nil
		default:
			out[name] = value
		}
	}
	return out
}

// put sets a value in an object, by way of objects that are made where they lack.
func put(object map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		below, ok := object[name].(map[string]any)
		if !ok {
			below = map[string]any{}
			object[name] = below
		}
		object = below
	}
	object[path[len(path)-1]] = value
}

// read reads what a document says, as it is or patched: then places finds where.
func read(places func(...string) (int, int), plain map[string]any, open func(string) ([]byte, error)) (*File, error) {
	r := &reader{lines: places}
	top, _ := r.object(nil, plain)
	f := &File{
		Title: top.text("title", ""), Seed: uint64(top.count("seed", 1)),
		Duration: top.duration("duration", day), Sample: top.duration("sample", 0), Heartbeat: top.duration("heartbeat", 5*time.Second),
		Pace: Pace{
			Update: top.duration("fair_share_update_period", time.Second), Longest: top.duration("longest_update_period", 10*time.Minute), Tolerance: 0.05,
		},
	}
	if value, given := top.get("volume_tolerance"); given {
		tolerance, err := plain01(value)
		if err != nil {
			r.fault(place{"volume_tolerance"}, "%v", err)
		}
		f.Pace.Tolerance = tolerance
	}
	f.times(r)
	f.readPools(top)
	f.readNodes(top)
	f.readVolumes(top)
	f.readWorkloads(top)
	f.readTrace(top, open)
	f.readFailures(top)
	top.end()
	if len(f.Workloads) == 0 && len(f.Trace) == 0 && len(r.faults) == 0 {
		r.fault(nil, "no workloads and no trace: nothing to run")
	}
	return f, r.err()
}

// plain01 reads a part of something.
func plain01(value any) (float64, error) {
	x, err := inNumbers(value)
	if err != nil || x == 0 || x > 1 {
		return 1, fmt.Errorf("is %s: a number above 0 and at most 1 is needed", described(value))
	}
	return x, nil
}

// times checks the times of a file, and sets those that follow from others.
func (f *File) times(r *reader) {
	if f.Sample == 0 {
		f.Sample = max(f.Duration/1000, time.Second).Round(time.Second)
	}
	for _, t := range []struct {
		name  string
		value time.Duration
	}{
		{"duration", f.Duration}, {"heartbeat", f.Heartbeat}, {"fair_share_update_period", f.Pace.Update}, {"longest_update_period", f.Pace.Longest},
	} {
		if t.value <= 0 {
			r.fault(place{t.name}, "must be more than 0")
		}
	}
	if f.Pace.Longest < f.Pace.Update {
		r.fault(place{"longest_update_period"}, "%v is less than fair_share_update_period, %v", f.Pace.Longest, f.Pace.Update)
	}
	if f.Duration/f.Sample > maxSamples {
		r.fault(place{"sample"}, "%v makes more than %d points in %v", f.Sample, maxSamples, f.Duration)
	}
}

// maxSamples bounds the points of a series.
const maxSamples = 1_000_000

// readPools reads the pool tree, as files of weir pool apply have it.
func (f *File) readPools(top *fields) {
	part := map[string]any{}
	for _, name := range []string{keyOptions, keyPools} {
		if value, given := top.get(name); given {
			part[name] = value
		}
	}
	file, err := poolfile.ReadWithin(option.Of(part))
	if err != nil {
		top.take(nil, err)
		return
	}
	var options pooltree.TreeOptions
	if file.Options != nil {
		options = *file.Options
	}
	if !slices.ContainsFunc(file.Pools, func(p pooltree.Pool) bool { return p.Name == scheduling.DefaultPool }) && len(file.Pools) == 0 {
		file.Pools = append(file.Pools, pooltree.Pool{Name: scheduling.DefaultPool, Parent: scheduling.RootPool})
	}
	if f.Pools, err = pooltree.FromPools(options, file.Pools); err != nil {
		top.fault(place{keyPools}, "%v", err)
	}
}

// slotsPerCore is how many jobs an agent takes at once that is told no number.
const slotsPerCore = 4

func (f *File) readNodes(top *fields) {
	total := int64(0)
	for i, item := range top.items("nodes") {
		at := place{"nodes"}.item(i)
		n, ok := top.object(at, item)
		if !ok {
			continue
		}
		group := NodeGroup{Name: n.text("name", "n"), Count: n.count("count", 1)}
		for _, tag := range n.items("tags") {
			text, ok := tag.(string)
			if !ok || text == "" {
				top.fault(at.to("tags"), "is no list of texts")
			}
			group.Tags = append(group.Tags, text)
		}
		var named [resource.Count]bool
		before := len(top.faults)
		group.Resources, named = n.amounts(resource.UserSlots, resource.CPU, resource.GPU, resource.Memory, resource.Network)
		if !named[resource.UserSlots] {
			group.Resources.UserSlots = int64(slotsPerCore * group.Resources.CPU.Cores())
		}
		n.end()
		if group.Resources.CPU == 0 && len(top.faults) == before {
			top.fault(at.to("cpu"), "nodes need cpu, such as 32")
		}
		if slices.ContainsFunc(f.Nodes, func(other NodeGroup) bool { return other.Name == group.Name }) {
			top.fault(at.to("name"), "there are nodes named %q already: give these another name", group.Name)
		}
		if group.Count > maxNodes {
			top.fault(at.to("count"), "%d nodes are more than %d", group.Count, maxNodes)
			continue
		}
		total += group.Count
		f.Nodes = append(f.Nodes, group)
	}
	if total == 0 || total > maxNodes {
		top.fault(place{"nodes"}, "there are %d: at least 1 is needed, and at most %d, such as [{count: 10, cpu: 32, memory: 128GiB}]", total, maxNodes)
	}
}

func (f *File) readVolumes(top *fields) {
	value, _ := top.get("volumes")
	at := place{"volumes"}
	f.Volumes = make(map[scheduling.PoolName]time.Duration)
	volumes := top.named(at, value)
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		pool, ok := f.Pools.Pool(scheduling.PoolName(name))
		if len(top.faults) == 0 && (!ok || pool.Options.Integral == nil) {
			top.fault(at.to(name), "there is no pool %q with integral_guarantees", name)
		}
		d, err := durationOf(volumes[name])
		if err != nil {
			top.fault(at.to(name), "%v", err)
		}
		f.Volumes[scheduling.PoolName(name)] = d
	}
}

// operationOptions reads options of operations, and keeps them as they were written.
func (f *fields) operationOptions(name string) map[string]any {
	value, given := f.get(name)
	object, ok := f.object(f.at.to(name), value)
	if !given || !ok {
		return nil
	}
	options, err := pooltree.ReadOperationOptions(object.values)
	f.take(f.at.to(name), err)
	return option.Write(options)
}
