// Package poolfile reads and writes files that declare a pool tree, and finds the
// changes that turn a tree into the one that a file declares.
//
// A file is one object in YAML or JSON:
//
//	tree: default
//	options:
//	  max_running_operation_count: 500
//	pools:
//	  ads:
//	    weight: 3
//	    strong_guarantee_resources: {cpu: 100, memory: 400GiB}
//	    pools:
//	      ads-prod: {weight: 2}
//	  batch:
//
// The field pools of a pool holds its child pools; all other fields are options of
// the pool (F.17.2). Options of a pool that are not in the file get their defaults.
// The same holds for the options of the tree if the file has the field options;
// without it, they stay as they are.
package poolfile

import (
	"errors"
	"fmt"
	"strings"

	"weir/api/document"
	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

// poolFile names the kind of document in errors.
const poolFile = "pool file"

// File is a pool tree as a file declares it.
type File struct {
	// Tree is the tree's name, empty if the file has none.
	Tree scheduling.TreeName
	// Options are the options of the tree, nil if the file has none.
	Options *pooltree.TreeOptions
	// Pools are ordered parents first, and by name among siblings.
	Pools []pooltree.Pool
}

// Declared are the fields of a file.
type Declared struct {
	Tree    *treeName             `option:"tree" kind:"name of a pool tree"`
	Options *pooltree.TreeOptions `option:"options" null:"empty"`
	Pools   map[string]*pools     `option:"pools" null:"empty"`
}

// pools are the options of a pool, and its child pools.
type pools struct {
	pooltree.PoolOptions
	Pools map[string]*pools `option:"pools" null:"empty"`
}

// treeName is the name of a pool tree.
type treeName string

// ReadOption implements option.Reader.
func (t *treeName) ReadOption(v *option.Value) error {
	if v.Kind != option.Text || v.Text == "" {
		return errors.New("the name of a tree is needed")
	}
	*t = treeName(v.Text)
	return nil
}

// Read reads a file. The error is an *option.Error that lists all faults.
func Read(data []byte) (File, error) {
	doc, err := document.Read(poolFile, data)
	if err != nil {
		return File{}, err
	}
	r := reader{Reading: doc.Reading()}
	f := r.file(doc.Root)
	return f, doc.Refuse(r.Faults)
}

// ReadWithin reads a pool tree that is declared as part of another document. root holds only
// the fields of a pool file.
func ReadWithin(root *option.Value) (File, error) {
	r := reader{Reading: &option.Reading{Separator: "."}}
	f := r.file(root)
	return f, option.Refuse(poolFile, r.Faults)
}

// reader turns a document into a File.
type reader struct {
	*option.Reading
	// places holds the options of each pool by name, as they were read from the document.
	places map[scheduling.PoolName]*pools
}

// file reads and checks a file that has only the fields of Declared.
func (r *reader) file(root *option.Value) File {
	var d Declared
	r.Options(&d, root, "")
	f := r.declared(&d)
	if len(r.Faults) == 0 {
		r.check(f)
	}
	return f
}

// declared returns the file with these fields.
func (r *reader) declared(d *Declared) File {
	f := File{Options: d.Options}
	if d.Tree != nil {
		f.Tree = scheduling.TreeName(*d.Tree)
	}
	if d.Options != nil {
		r.Adopt(d.Options, d.Options.Validate())
	}
	r.places = make(map[scheduling.PoolName]*pools)
	f.Pools = r.below(d.Pools, scheduling.RootPool, nil)
	return f
}

// below appends the pools below parent to a list and returns it. Each pool is followed by the pools
// below it.
func (r *reader) below(all map[string]*pools, parent scheduling.PoolName, to []pooltree.Pool) []pooltree.Pool {
	for _, name := range option.SortedNames(all) {
		own, pool := all[name], scheduling.PoolName(name)
		if first, twice := r.places[pool]; twice {
			r.FaultOfName(own, "there is a pool of this name at %s: names are unique in a tree", r.PathOf(first))
			continue
		}
		r.places[pool] = own
		r.Adopt(own, own.Validate())
		to = append(to, pooltree.Pool{Name: pool, Parent: parent, Options: own.PoolOptions})
		to = r.below(own.Pools, pool, to)
	}
	return to
}

// check adds the first fault of the tree that the file alone declares. Pools of the cluster
// that are not in the file, such as ephemeral ones, may cause further faults.
func (r *reader) check(f File) {
	options := pooltree.TreeOptions{}
	if f.Options != nil {
		options = *f.Options
		if options.DefaultParentPool != nil && r.places[scheduling.PoolName(*options.DefaultParentPool)] == nil {
			// The cluster may already have this pool.
			options.DefaultParentPool = nil
		}
	}
	_, err := pooltree.FromPools(options, f.Pools)
	if err == nil {
		return
	}
	for _, p := range f.Pools {
		if rest, ok := strings.CutPrefix(err.Error(), fmt.Sprintf("pool %q: ", p.Name)); ok {
			r.FaultOfName(r.places[p.Name], "%s", rest)
			return
		}
	}
	r.Add("", option.Position{}, "%v", err)
}
