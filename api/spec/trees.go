package spec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

// MaxTrees is how many pool trees an operation may be in.
const MaxTrees = 100

const (
	fieldTrees          = "pool_trees"
	fieldOptionsPerTree = "scheduling_options_per_pool_tree"
	// fieldPool is no option of an operation in a tree, and stands with these.
	fieldPool = "pool"
)

// optionNames are the options of an operation in a pool tree, optionAliases what
// they are called too, and canonicalOptions leads from either to the first.
var optionNames, optionAliases, canonicalOptions = namesOfOptions()

func namesOfOptions() (names, aliases []string, first map[string]string) {
	first = make(map[string]string)
	for _, f := range option.Fields(pooltree.OperationOptions{}) {
		name, _, grouped := strings.Cut(f.Path, "/")
		if first[name] == "" {
			names, first[name] = append(names, name), name
		}
		if grouped {
			continue
		}
		aliases = append(aliases, f.Aliases...)
		for _, alias := range f.Aliases {
			first[alias] = name
		}
	}
	return names, aliases, first
}

// checkPool checks the name of the pool that the operation names. Whether the root
// takes operations is the tree's to say.
func (o options) checkPool(name string) {
	switch {
	case name == string(scheduling.RootPool):
	case name != "":
		if err := pooltree.ValidateName(scheduling.PoolName(name)); err != nil {
			o.fault(fieldPool, "%v", err)
		}
	case o.set[fieldPool] != nil && o.set[fieldPool].kind == text:
		o.fault(fieldPool, "it is empty: leave it out for the tree's pool of operations that name none")
	}
}

// trees returns a list of names of pool trees.
func (o options) trees(name string) []string {
	v := o.get(name, list)
	if v == nil {
		return nil
	}
	if n := len(v.items); n == 0 || n > MaxTrees {
		o.fault(name, "it names %d trees: name from 1 to %d, or leave it out for the default tree", n, MaxTrees)
		return nil
	}
	trees := make([]string, 0, len(v.items))
	for i, item := range v.items {
		path := fmt.Sprintf("%s[%d]", join(o.path, name), i)
		switch {
		case item.kind != text:
			o.c.fault(path, item.at, "it is %s: the name of a pool tree is needed", item.kind)
		case slices.Contains(trees, item.text):
			o.c.fault(path, item.at, "tree %q is there twice", clip(item.text))
		default:
			if err := pooltree.ValidateName(scheduling.PoolName(item.text)); err != nil {
				o.c.fault(path, item.at, "%v", err)
			}
			trees = append(trees, item.text)
		}
	}
	return trees
}

// schedulingOptions returns what is set of the options of an operation in a tree,
// by their first names.
func (o options) schedulingOptions() map[string]any {
	document := make(map[string]any)
	for name, v := range o.set {
		if canonicalOptions[name] != "" {
			document[name] = v.document()
		}
	}
	var read pooltree.OperationOptions
	faults := faultsOf(option.Read(&read, document))
	if len(faults) > 0 {
		// The others are checked all the same.
		for _, f := range faults {
			top, _, _ := strings.Cut(f.Path, "/")
			maps.DeleteFunc(document, func(name string, _ any) bool { return canonicalOptions[name] == canonicalOptions[top] })
		}
		read = pooltree.OperationOptions{}
		faults = append(faults, faultsOf(option.Read(&read, document))...)
	}
	if faults = append(faults, faultsOf(read.Validate())...); len(faults) == 0 {
		return option.Write(read)
	}
	for _, f := range faults {
		o.optionFault(f)
	}
	return nil
}

func faultsOf(err error) []option.Fault {
	var faults *option.Error
	if errors.As(err, &faults) {
		return faults.Faults
	}
	return nil
}

// optionFault adds a fault of an option at the place where it was written, by
// whichever of its names.
func (o options) optionFault(f option.Fault) {
	top, _, _ := strings.Cut(f.Path, "/")
	at := o.at
	if v := o.set[top]; v != nil {
		at = v.at
	} else {
		for name, v := range o.set {
			if canonicalOptions[name] == top {
				at = v.at
			}
		}
	}
	o.c.fault(join(o.path, strings.ReplaceAll(f.Path, "/", ".")), at, "%s", f.Problem)
}

// optionsPerTree returns the options and the pools that differ in a tree.
func (c *checker) optionsPerTree(o options, trees []string) map[string]*structpb.Struct {
	v := o.get(fieldOptionsPerTree, object)
	if v == nil || len(v.fields) == 0 {
		return nil
	}
	perTree := make(map[string]*structpb.Struct, len(v.fields))
	for _, f := range v.fields {
		path := join(fieldOptionsPerTree, f.name)
		switch {
		case trees != nil && !slices.Contains(trees, f.name):
			c.fault(path, f.at, "the operation is not in this tree: %s names %s", fieldTrees, strings.Join(quoteAll(slices.Clone(trees)), ", "))
			continue
		case f.value.kind != object:
			c.fault(path, f.value.at, "it is %s: an object with options such as pool and weight is needed", f.value.kind)
			continue
		}
		own := c.options(path, f.value, append([]string{fieldPool}, optionNames...), optionAliases...)
		document := own.schedulingOptions()
		pool := own.text(fieldPool, MaxTitleBytes)
		own.checkPool(pool)
		if pool != "" && document != nil {
			document[fieldPool] = pool
		}
		if s := structOf(document); s != nil {
			perTree[f.name] = s
		}
	}
	if len(perTree) == 0 {
		return nil
	}
	return perTree
}

// document returns the value as package option knows it: every number is a float.
func (v *value) document() any {
	switch v.kind {
	case number:
		return v.number
	case list:
		items := make([]any, len(v.items))
		for i, item := range v.items {
			items[i] = item.document()
		}
		return items
	case object:
		fields := make(map[string]any, len(v.fields))
		for _, f := range v.fields {
			fields[f.name] = f.value.document()
		}
		return fields
	}
	return v.plain()
}

// structOf returns options as a record holds them; nil for none.
func structOf(document map[string]any) *structpb.Struct {
	if len(document) == 0 {
		return nil
	}
	s, err := structpb.NewStruct(document)
	if err != nil {
		panic(fmt.Sprintf("write options: %v: they were read before", err))
	}
	return s
}

// formatTrees adds what a spec says of pool trees, and the options in them.
func formatTrees(out map[string]any, op *statepb.OperationSpec) {
	for name, v := range op.GetOptions().AsMap() {
		out[name] = v
	}
	if op.GetIsGang() {
		out["is_gang"] = true
	}
	if len(op.GetPoolTrees()) > 0 {
		trees := make([]any, len(op.GetPoolTrees()))
		for i, name := range op.GetPoolTrees() {
			trees[i] = name
		}
		out[fieldTrees] = trees
	}
	if len(op.GetOptionsPerTree()) > 0 {
		perTree := make(map[string]any, len(op.GetOptionsPerTree()))
		for name, options := range op.GetOptionsPerTree() {
			perTree[name] = options.AsMap()
		}
		out[fieldOptionsPerTree] = perTree
	}
}
