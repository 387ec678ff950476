package poolfile

import (
	"errors"
	"strings"

	"weir/api/document"
	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
	"weir/scheduling/whatif"
)

// cluster are the options of the description of a cluster.
type cluster struct {
	Declared
	Total      *pooltree.Resources            `option:"total" kind:"resources"`
	Nodes      []Nodes                        `option:"nodes" kind:"list of nodes"`
	Operations map[string]*operation          `option:"operations" null:"empty"`
	Volumes    map[string]*pooltree.Resources `option:"volumes" null:"empty" kind:"resources by name"`
}

// Nodes are identical nodes: their number, name, tags and, in the same object, the resources
// of each.
type Nodes struct {
	Count     *int64   `option:"count" min:"0" max:"1e12"`
	Name      *string  `option:"name"`
	Tags      []string `option:"tags"`
	Resources pooltree.Resources
}

// ReadOption implements option.Reader.
func (n *Nodes) ReadOption(v *option.Value) error {
	if v.Kind != option.Object && v.Kind != option.Null {
		return errors.New("must be an object, such as {count: 10, cpu: 32, memory: 128GiB}")
	}
	own, rest := &option.Value{Kind: option.Object, At: v.At}, &option.Value{Kind: option.Object, At: v.At}
	for _, f := range v.Fields {
		to := rest
		if option.Has(n, f.Name) {
			to = own
		}
		to.Fields = append(to.Fields, f)
	}
	r := option.Reading{Separator: "."}
	r.Options(n, own, "")
	for i, tag := range n.Tags {
		if tag == "" && len(r.Faults) == 0 {
			r.FaultOfItem(n, &n.Tags, i, "a tag is empty")
		}
	}
	if len(r.Faults) > 0 {
		return option.NewError(r.Faults)
	}
	return n.Resources.ReadOption(rest)
}

// operation is the demand of an operation, and its options.
type operation struct {
	Pool    *string             `option:"pool" default:"default"`
	Gang    *bool               `option:"gang" default:"false"`
	Running *int64              `option:"running" min:"0" max:"1e12" default:"0"`
	Jobs    *int64              `option:"jobs" min:"0" max:"1e12"`
	Job     *pooltree.Resources `option:"job" kind:"resources"`
	pooltree.OperationOptions
}

// ReadCluster reads a pool file that describes a whole cluster: its resources, pools and
// operations.
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
// The field jobs is the number of jobs that the operation could run now. The field running is the
// number of these jobs that already run. A job needs 1 of user_slots unless the field job sets
// another amount. The field gang says that the operation is a gang. All other fields are options of
// the operation.
func ReadCluster(data []byte) (whatif.Cluster, error) {
	doc, err := document.Read(poolFile, data)
	if err != nil {
		return whatif.Cluster{}, err
	}
	r := reader{Reading: doc.Reading()}
	var d cluster
	r.Options(&d, doc.Root, "")
	c := r.cluster(&d)
	if err := doc.Refuse(r.Faults); err != nil {
		return whatif.Cluster{}, err
	}
	return c, nil
}

func (r *reader) cluster(d *cluster) whatif.Cluster {
	var c whatif.Cluster
	f := r.declared(&d.Declared)
	options := pooltree.TreeOptions{}
	if f.Options != nil {
		options = *f.Options
	}
	if len(r.Faults) == 0 {
		var err error
		if c.Pools, err = pooltree.FromPools(options, f.Pools); err != nil {
			r.Fault(&d.Declared, &d.Pools, "%v", err)
		}
	}
	if d.Total != nil {
		c.Nodes = []whatif.Node{{Count: 1, Resources: d.Total.Amounts}}
		if d.Nodes != nil {
			r.Fault(d, &d.Total, "nodes is set too: give only one of the two")
		}
	}
	for _, n := range d.Nodes {
		c.Nodes = append(c.Nodes, whatif.Node{Count: or(n.Count, 1), Name: or(n.Name, ""), Tags: n.Tags, Resources: n.Resources.Amounts})
	}
	for _, name := range option.SortedNames(d.Operations) {
		op := r.operation(name, d.Operations[name])
		if len(r.Faults) == 0 && !c.Pools.Has(op.Pool) {
			r.FaultOfName(d.Operations[name], "there is no pool %q", op.Pool)
		}
		c.Operations = append(c.Operations, op)
	}
	for _, name := range option.SortedNames(d.Volumes) {
		if len(r.Faults) == 0 && !c.Pools.Has(scheduling.PoolName(name)) {
			r.Add("volumes."+option.Clip(name), r.Given(d, &d.Volumes).At, "there is no pool %q", name)
		}
		volume := engine.PoolVolume{Pool: scheduling.PoolName(name)}
		for i := range resource.Count {
			k := resource.Kind(i)
			volume.Volume = volume.Volume.With(k, volumeOf(k, d.Volumes[name].Amounts))
		}
		c.Volumes = append(c.Volumes, volume)
	}
	return c
}

// operation returns an operation with its usage and demand.
func (r *reader) operation(name string, own *operation) whatif.Operation {
	r.Adopt(own, own.OperationOptions.Validate())
	options := own.OperationOptions
	option.Complete(own)
	perJob, jobs := own.Job.Or(resource.Amounts{UserSlots: 1}), or(own.Jobs, *own.Running)
	if jobs < *own.Running {
		r.Fault(own, &own.Jobs, "%d is less than running, %d", jobs, *own.Running)
	}
	return whatif.Operation{
		ID: scheduling.OperationID(name), Pool: scheduling.PoolName(*own.Pool), Gang: *own.Gang, Options: options,
		Usage: perJob.Times(*own.Running), Tasks: []whatif.Task{{Pending: jobs - *own.Running, PerJob: perJob}},
	}
}

func volumeOf(k resource.Kind, a resource.Amounts) float64 {
	if k == resource.CPU {
		return a.CPU.Cores()
	}
	return float64(a.Of(k))
}

// ReadOperation reads one entry of operations, such as
// "big: {pool: ads, jobs: 100, job: {cpu: 2}}".
func ReadOperation(text string) (whatif.Operation, error) {
	var own operation
	r, name, err := readOne(text, "NAME: {pool: ads, jobs: 100, job: {cpu: 2}}", &own)
	if err != nil {
		return whatif.Operation{}, err
	}
	op := r.operation(name, &own)
	return op, option.Refuse(poolFile, r.Faults)
}

// ReadPool reads one entry of pools, with its parent among the options, such as
// "new: {parent: ads, weight: 2}".
func ReadPool(text string) (pooltree.Pool, error) {
	var own struct {
		Parent *string `option:"parent"`
		pooltree.PoolOptions
	}
	r, name, err := readOne(text, "NAME: {parent: ads, weight: 2}", &own)
	if err != nil {
		return pooltree.Pool{}, err
	}
	r.Adopt(&own, own.Validate())
	p := pooltree.Pool{Name: scheduling.PoolName(name), Parent: scheduling.PoolName(or(own.Parent, string(scheduling.RootPool))), Options: own.PoolOptions}
	return p, option.Refuse(poolFile, r.Faults)
}

// readOne reads an object with one name, or the name alone.
func readOne(text, form string, own any) (r *reader, name string, err error) {
	if !strings.ContainsAny(text, ":{") {
		text += ": {}"
	}
	doc, err := document.Read(poolFile, []byte(text))
	if err != nil {
		return nil, "", err
	}
	var of option.Entry
	if len(doc.Root.Fields) == 1 {
		of = doc.Root.Fields[0]
	}
	switch {
	case of.Value != nil && of.Value.Kind == option.Null:
		of.Value.Kind = option.Object
	case of.Value == nil || of.Value.Kind != option.Object:
		return nil, "", doc.Refuse([]option.Fault{{Problem: "write it as " + form}})
	}
	r = &reader{Reading: doc.Reading()}
	r.Options(own, of.Value, of.Name)
	return r, of.Name, nil
}

var _ = option.Declare(cluster{}, Nodes{})

func or[T any](set *T, missing T) T {
	if set == nil {
		return missing
	}
	return *set
}
