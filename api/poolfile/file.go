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
	"maps"
	"slices"
	"strings"

	"weir/api/document"
	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

// The names in a file that are no options.
const (
	keyTree    = "tree"
	keyOptions = "options"
	keyPools   = "pools"
)

// File is a pool tree as a file declares it.
type File struct {
	// Tree is the tree's name, empty when the file does not tell.
	Tree scheduling.TreeName
	// Options are those of the tree; nil: the file does not tell.
	Options *pooltree.TreeOptions
	// Pools are parents first, and by name among siblings.
	Pools []pooltree.Pool
}

// Read reads a file. Everything that is wrong with it is told at once, by a *option.Error.
func Read(data []byte) (File, error) {
	document, err := document.Read("pool file", data)
	if err != nil {
		return File{}, wrap(err)
	}
	plain, err := document.Plain()
	if err != nil {
		return File{}, wrap(err)
	}
	return ReadWithin(document, plain)
}

// ReadWithin reads the pool tree that a document declares beside other things. plain
// is what of it may be in a pool file; faults have their places in the document.
func ReadWithin(document *document.Document, plain map[string]any) (File, error) {
	r := reader{document: document, places: make(map[scheduling.PoolName][]string)}
	f := r.file(plain)
	if len(r.faults) == 0 {
		r.check(f)
	}
	if len(r.faults) > 0 {
		return File{}, newError(r.faults)
	}
	return f, nil
}

// reader turns a document into a File.
type reader struct {
	document *document.Document
	faults   []option.Fault
	// places are where in the document pools are.
	places map[scheduling.PoolName][]string
	// besides are other names that the file may have at its top.
	besides []string
}

// fault notes that what is at the end of a path is wrong.
func (r *reader) fault(path []string, format string, args ...any) {
	line, column := r.document.Place(path...)
	r.faults = append(r.faults, option.Fault{Path: strings.Join(path, "."), Position: option.Position{Line: line, Column: column}, Problem: fmt.Sprintf(format, args...)})
}

func (r *reader) file(plain map[string]any) File {
	var f File
	for _, name := range slices.Sorted(maps.Keys(plain)) {
		switch value := plain[name]; name {
		case keyTree:
			text, ok := value.(string)
			if !ok || text == "" {
				r.fault([]string{name}, "the name of a tree is needed")
			}
			f.Tree = scheduling.TreeName(text)
		case keyOptions:
			if object, ok := r.object([]string{name}, value); ok {
				options, err := pooltree.ReadTreeOptions(object)
				r.optionFaults([]string{name}, err)
				f.Options = &options
			}
		case keyPools:
			f.Pools = r.pools([]string{name}, scheduling.RootPool, value)
		default:
			r.unknown(name)
		}
	}
	return f
}

func (r *reader) unknown(name string) {
	known := slices.Sorted(slices.Values(append([]string{keyOptions, keyPools, keyTree}, r.besides...)))
	switch {
	case option.Closest(name, known) != "":
		r.fault([]string{name}, "unknown; did you mean %s?", option.Closest(name, known))
	default:
		r.fault([]string{name}, "unknown: a file has %s: pools are below %s", strings.Join(known, ", "), keyPools)
	}
}

// object returns a value that has to be an object; nothing is an empty one.
func (r *reader) object(path []string, value any) (map[string]any, bool) {
	if value == nil {
		return map[string]any{}, true
	}
	object, ok := value.(map[string]any)
	if !ok {
		r.fault(path, "an object is needed")
	}
	return object, ok
}

// pools reads the pools below one, each followed by those below it.
func (r *reader) pools(path []string, parent scheduling.PoolName, value any) []pooltree.Pool {
	object, ok := r.object(path, value)
	if !ok {
		return nil
	}
	if len(path) > 2*pooltree.MaxDepth {
		r.fault(path, "more than %d pools below each other", pooltree.MaxDepth)
		return nil
	}
	var out []pooltree.Pool
	for _, name := range slices.Sorted(maps.Keys(object)) {
		at := append(slices.Clone(path), name)
		settings, ok := r.object(at, object[name])
		if !ok {
			continue
		}
		pool := scheduling.PoolName(name)
		if first, twice := r.places[pool]; twice {
			r.fault(at, "there is a pool of this name at %s: names are unique in a tree", strings.Join(first, "."))
			continue
		}
		r.places[pool] = at
		below, hasBelow := settings[keyPools]
		delete(settings, keyPools)
		options, err := pooltree.ReadPoolOptions(settings)
		r.optionFaults(at, err)
		out = append(out, pooltree.Pool{Name: pool, Parent: parent, Options: options})
		if hasBelow {
			out = append(out, r.pools(append(slices.Clone(at), keyPools), pool, below)...)
		}
	}
	return out
}

// optionFaults notes the faults of options at a path.
func (r *reader) optionFaults(path []string, err error) {
	var faults *option.Error
	switch {
	case err == nil:
	case errors.As(err, &faults):
		for _, f := range faults.Faults {
			name, _, _ := strings.Cut(f.Path, "[")
			at := append(slices.Clone(path), strings.Split(name, "/")...)
			line, column := r.document.Place(at...)
			r.faults = append(r.faults, option.Fault{Path: strings.Join(path, ".") + "." + strings.ReplaceAll(f.Path, "/", "."), Position: option.Position{Line: line, Column: column}, Problem: f.Problem})
		}
	default:
		r.fault(path, "%v", err)
	}
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
			r.fault(r.places[p.Name], "%s", rest)
			return
		}
	}
	r.fault(nil, "%v", err)
}
