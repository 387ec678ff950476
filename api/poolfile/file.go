// Package poolfile reads and writes files that declare a pool tree, and finds what
// has to change for a tree to be as a file declares it.
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
// What a pool has below the name pools is below it; all else are its options
// (F.17.2). Options that are not in the file have their defaults, and so have those
// of the tree when there are options at all; without them the tree's stay.
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

// poolFile is what this package reads.
const poolFile = "pool file"

// File is a pool tree as a file declares it.
type File struct {
	// Tree is the tree's name, empty when the file does not tell.
	Tree scheduling.TreeName
	// Options are those of the tree; nil: the file does not tell.
	Options *pooltree.TreeOptions
	// Pools are parents first, and by name among siblings.
	Pools []pooltree.Pool
}

// Declared is what a file has.
type Declared struct {
	Tree    *treeName             `option:"tree" kind:"name of a pool tree"`
	Options *pooltree.TreeOptions `option:"options" null:"empty"`
	Pools   map[string]*pools     `option:"pools" null:"empty"`
}

// pools are the options of a pool, and what is below it.
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

// Read reads a file. Everything that is wrong with it is reported at once, as an *option.Error.
func Read(data []byte) (File, error) {
	doc, err := document.Read(poolFile, data)
	if err != nil {
		return File{}, err
	}
	r := reader{Reading: doc.Reading()}
	f := r.file(doc.Root)
	return f, doc.Refuse(r.Faults)
}

// ReadWithin reads the pool tree that is declared beside other things: root has what of
// that may be in a pool file.
func ReadWithin(root *option.Value) (File, error) {
	r := reader{Reading: &option.Reading{Separator: "."}}
	f := r.file(root)
	return f, option.Refuse(poolFile, r.Faults)
}

// reader turns a document into a File.
type reader struct {
	*option.Reading
	// places are where in the document pools are.
	places map[scheduling.PoolName]*pools
}

// file reads a file that has nothing else.
func (r *reader) file(root *option.Value) File {
	var d Declared
	r.Options(&d, root, "")
	f := r.declared(&d)
	if len(r.Faults) == 0 {
		r.check(f)
	}
	return f
}

// declared returns what a file has said.
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

// below adds the pools below one, each followed by those below it.
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

// check notes what pools of a file cannot be together, as far as the file tells: the
// first fault. Ephemeral pools and others that the file does not have may add some.
func (r *reader) check(f File) {
	options := pooltree.TreeOptions{}
	if f.Options != nil {
		options = *f.Options
		if options.DefaultParentPool != nil && r.places[scheduling.PoolName(*options.DefaultParentPool)] == nil {
			// It may be there already.
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
