package poolfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/api/document"
	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
	"weir/scheduling/whatif"
)

// The names in the description of a cluster, besides those of a pool file.
const (
	keyTotal      = "total"
	keyNodes      = "nodes"
	keyOperations = "operations"
	keyVolumes    = "volumes"
	keyTags       = "tags"
)

// ReadCluster reads a pool file that describes a whole cluster: what it has, and
// what runs in it.
//
//	total: {cpu: 2000, memory: 8TiB}       # or nodes:
//	nodes:
//	  - {count: 10, cpu: 32, memory: 128GiB, tags: [ssd]}
//	pools:
//	  ads: {weight: 2}
//	operations:
//	  nightly: {pool: ads, jobs: 100, running: 20, job: {cpu: 1, memory: 1GiB}, weight: 2}
//	volumes:                               # resources x seconds
//	  ads: {cpu: 6000}
//
// jobs are all that the operation could run now, running those that do. A job takes
// one of user_slots unless it says otherwise; all else of an operation are its
// options, and gang.
func ReadCluster(data []byte) (whatif.Cluster, error) {
	document, err := document.Read("pool file", data)
	if err != nil {
		return whatif.Cluster{}, wrap(err)
	}
	plain, err := document.Plain()
	if err != nil {
		return whatif.Cluster{}, wrap(err)
	}
	r := clusterReader{reader{
		document: document, places: make(map[scheduling.PoolName][]string), besides: []string{keyTotal, keyNodes, keyOperations, keyVolumes},
	}}
	own := make(map[string]any)
	for _, name := range r.besides {
		if value, given := plain[name]; given {
			own[name] = value
			delete(plain, name)
		}
	}
	f := r.file(plain)
	c := r.cluster(f, own)
	if len(r.faults) > 0 {
		return whatif.Cluster{}, newError(r.faults)
	}
	return c, nil
}

// clusterReader turns a document into a cluster.
type clusterReader struct{ reader }

func (r *clusterReader) cluster(f File, own map[string]any) whatif.Cluster {
	var c whatif.Cluster
	options := pooltree.TreeOptions{}
	if f.Options != nil {
		options = *f.Options
	}
	if len(r.faults) == 0 {
		var err error
		if c.Pools, err = pooltree.FromPools(options, f.Pools); err != nil {
			r.fault([]string{keyPools}, "%v", err)
		}
	}
	if _, given := own[keyTotal]; given && own[keyNodes] != nil {
		r.fault([]string{keyTotal}, "there are nodes too: give one of them")
	}
	if total, given := own[keyTotal]; given {
		if amounts, ok := r.amounts([]string{keyTotal}, total); ok {
			c.Nodes = []whatif.Node{{Count: 1, Resources: amounts}}
		}
	}
	c.Nodes = append(c.Nodes, r.nodes(own[keyNodes])...)
	c.Operations = r.operations(c.Pools, own[keyOperations])
	c.Volumes = r.volumes(c.Pools, own[keyVolumes])
	return c
}

// amounts reads resources; those that are not named are 0.
func (r *clusterReader) amounts(path []string, value any) (resource.Amounts, bool) {
	var read pooltree.Resources
	if err := read.ReadOption(option.Of(value)); err != nil {
		r.fault(path, "%v", err)
		return resource.Amounts{}, false
	}
	return read.Amounts, true
}

func (r *clusterReader) nodes(value any) []whatif.Node {
	if value == nil {
		return nil
	}
	items, ok := value.([]any)
	if !ok {
		r.fault([]string{keyNodes}, "a list is needed, such as [{count: 10, cpu: 32, memory: 128GiB}]")
		return nil
	}
	var (
		out []whatif.Node
		err error
	)
	for _, item := range items {
		object, ok := r.object([]string{keyNodes}, item)
		if !ok {
			continue
		}
		node := whatif.Node{Count: r.take(object, []string{keyNodes}, "count", 1)}
		name, _ := object["name"].(string)
		delete(object, "name")
		node.Name = name
		if node.Tags, err = TakeTags(object); err != nil {
			r.fault([]string{keyNodes, keyTags}, "%v", err)
		}
		if node.Resources, ok = r.amounts([]string{keyNodes}, object); ok {
			out = append(out, node)
		}
	}
	return out
}

// TakeTags reads the tags of a node and takes them out of its object.
func TakeTags(object map[string]any) ([]string, error) {
	value, given := object[keyTags]
	delete(object, keyTags)
	items, ok := value.([]any)
	if given && !ok {
		return nil, errors.New("a list is needed, such as [ssd, rack7]")
	}
	tags := make([]string, 0, len(items))
	for _, item := range items {
		tag, ok := item.(string)
		if !ok || tag == "" {
			return nil, fmt.Errorf("%v is no tag: a text is needed", item)
		}
		tags = append(tags, tag)
	}
	return tags, nil
}

// take reads a count and takes it out of its object.
func (r *clusterReader) take(object map[string]any, path []string, name string, missing int64) int64 {
	value, given := object[name]
	delete(object, name)
	if !given {
		return missing
	}
	n, ok := value.(float64)
	if !ok || n < 0 || n != float64(int64(n)) || n > 1e12 {
		r.fault(append(slices.Clone(path), name), "a whole number from 0 on is needed")
		return missing
	}
	return int64(n)
}

func (r *clusterReader) operations(pools pooltree.Tree, value any) []whatif.Operation {
	object, ok := r.object([]string{keyOperations}, value)
	if !ok {
		return nil
	}
	var out []whatif.Operation
	for _, name := range slices.Sorted(maps.Keys(object)) {
		path := []string{keyOperations, name}
		settings, ok := r.object(path, object[name])
		if !ok {
			continue
		}
		op := whatif.Operation{ID: scheduling.OperationID(name)}
		r.operation(&op, path, settings)
		if len(r.faults) == 0 && !pools.Has(op.Pool) {
			r.fault(path, "there is no pool %q", op.Pool)
		}
		out = append(out, op)
	}
	return out
}

// operationKeys are what an operation may have besides its options.
var operationKeys = []string{"gang", "job", "jobs", "pool", "running"}

// operation reads what an operation wants, and its options.
func (r *clusterReader) operation(op *whatif.Operation, path []string, settings map[string]any) {
	op.Pool = scheduling.DefaultPool
	if pool, given := settings["pool"]; given {
		name, ok := pool.(string)
		if !ok {
			r.fault(append(slices.Clone(path), "pool"), "the name of a pool is needed")
		}
		op.Pool = scheduling.PoolName(name)
	}
	if gang, given := settings["gang"]; given {
		ok := false
		if op.Gang, ok = gang.(bool); !ok {
			r.fault(append(slices.Clone(path), "gang"), "true or false is needed")
		}
	}
	running := r.take(settings, path, "running", 0)
	jobs := r.take(settings, path, "jobs", running)
	if jobs < running {
		r.fault(append(slices.Clone(path), "jobs"), "%d are less than the %d that run", jobs, running)
	}
	perJob := resource.Amounts{UserSlots: 1}
	if job, given := settings["job"]; given {
		var read pooltree.Resources
		if err := read.ReadOption(option.Of(job)); err != nil {
			r.fault(append(slices.Clone(path), "job"), "%v", err)
		}
		perJob = read.Or(perJob)
	}
	for _, name := range operationKeys {
		delete(settings, name)
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if own := option.Closest(name, operationKeys); own != "" {
			r.fault(append(slices.Clone(path), name), "unknown; did you mean %s?", own)
			delete(settings, name)
		}
	}
	op.Usage, op.Tasks = perJob.Times(running), []whatif.Task{{Pending: jobs - running, PerJob: perJob}}
	var err error
	op.Options, err = pooltree.ReadOperationOptions(settings)
	r.optionFaults(path, err)
}

func (r *clusterReader) volumes(pools pooltree.Tree, value any) []engine.PoolVolume {
	object, ok := r.object([]string{keyVolumes}, value)
	if !ok {
		return nil
	}
	var out []engine.PoolVolume
	for _, name := range slices.Sorted(maps.Keys(object)) {
		path := []string{keyVolumes, name}
		amounts, ok := r.amounts(path, object[name])
		if len(r.faults) == 0 && !pools.Has(scheduling.PoolName(name)) {
			r.fault(path, "there is no pool %q", name)
		}
		if !ok {
			continue
		}
		v := engine.PoolVolume{Pool: scheduling.PoolName(name)}
		for i := range resource.Count {
			k := resource.Kind(i)
			v.Volume = v.Volume.With(k, volumeOf(k, amounts))
		}
		out = append(out, v)
	}
	return out
}

func volumeOf(k resource.Kind, a resource.Amounts) float64 {
	if k == resource.CPU {
		return a.CPU.Cores()
	}
	return float64(a.Of(k))
}

// ReadOperation reads an operation as it would be below operations, such as
// "big: {pool: ads, jobs: 100, job: {cpu: 2}}".
func ReadOperation(text string) (whatif.Operation, error) {
	name, settings, err := readOne(text, "NAME: {pool: ads, jobs: 100, job: {cpu: 2}}")
	if err != nil {
		return whatif.Operation{}, err
	}
	r := clusterReader{reader{document: settings.document}}
	op := whatif.Operation{ID: scheduling.OperationID(name)}
	r.operation(&op, []string{name}, settings.object)
	if len(r.faults) > 0 {
		return whatif.Operation{}, newError(r.faults)
	}
	return op, nil
}

// ReadPool reads a pool as it would be below pools, with its parent among the
// options, such as "new: {parent: ads, weight: 2}".
func ReadPool(text string) (pooltree.Pool, error) {
	name, settings, err := readOne(text, "NAME: {parent: ads, weight: 2}")
	if err != nil {
		return pooltree.Pool{}, err
	}
	r := reader{document: settings.document, places: make(map[scheduling.PoolName][]string)}
	p := pooltree.Pool{Name: scheduling.PoolName(name), Parent: scheduling.RootPool}
	if parent, given := settings.object["parent"]; given {
		text, ok := parent.(string)
		if !ok {
			r.fault([]string{name, "parent"}, "the name of a pool is needed")
		}
		p.Parent = scheduling.PoolName(text)
		delete(settings.object, "parent")
	}
	p.Options, err = pooltree.ReadPoolOptions(settings.object)
	r.optionFaults([]string{name}, err)
	if len(r.faults) > 0 {
		return pooltree.Pool{}, newError(r.faults)
	}
	return p, nil
}

type one struct {
	document *document.Document
	object   map[string]any
}

// readOne reads an object with one name, or the name alone.
func readOne(text, form string) (name string, settings one, err error) {
	if !strings.ContainsAny(text, ":{") {
		text += ": {}"
	}
	if settings.document, err = document.Read("pool file", []byte(text)); err != nil {
		return "", settings, wrap(err)
	}
	plain, err := settings.document.Plain()
	if err != nil {
		return "", settings, wrap(err)
	}
	for name = range plain {
		break
	}
	object, ok := plain[name].(map[string]any)
	if plain[name] == nil {
		object, ok = map[string]any{}, true
	}
	if len(plain) != 1 || !ok {
		return "", settings, newError([]option.Fault{{Problem: "write it as " + form}})
	}
	settings.object = object
	return name, settings, nil
}
