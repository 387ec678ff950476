package api

import (
	"maps"
	"strings"
	"sync"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

// heldByPool returns the settings in effect for a pool by option name, including those that pools
// do not pass down to their children.
func heldByPool(e pooltree.Effective, s pooltree.Settings) map[string]any {
	all := pooltree.PoolOptions{StrongGuarantee: &pooltree.Resources{}, Integral: &pooltree.IntegralOptions{
		ResourceFlow: &pooltree.Resources{}, BurstGuarantee: &pooltree.Resources{},
		RelaxedMultiplier: &s.RelaxedShareMultiplierLimit, DistributeFreeVolume: &s.DistributeFreeVolume,
	}}
	option.Complete(&all)
	out := option.Write(all)
	maps.Copy(out, e.Document())
	return out
}

// addOptions copies the options that are set into the map `holds`, where they replace settings of
// the same name. An option that is not set and is not in the map becomes null there.
func addOptions(holds map[string]any, options any) {
	written := option.Write(options)
	for _, f := range option.Fields(options) {
		in, set := holds, written
		names := strings.Split(f.Path, "/")
		name := names[len(names)-1]
		for _, group := range names[:len(names)-1] {
			if _, known := in[group].(map[string]any); !known {
				in[group] = map[string]any{}
			}
			in = in[group].(map[string]any)
			set, _ = set[group].(map[string]any)
		}
		value, isSet := set[name]
		if _, known := in[name]; isSet || !known {
			in[name] = value
		}
	}
}

// optionNames maps each alias of an option to its name.
var optionNames = sync.OnceValue(func() map[string]string {
	names := map[string]string{}
	for _, options := range []any{pooltree.TreeOptions{}, pooltree.PoolOptions{}, pooltree.OperationOptions{}} {
		for _, f := range option.Fields(options) {
			for _, alias := range f.Aliases {
				names[alias] = f.Path[strings.LastIndex(f.Path, "/")+1:]
			}
		}
	}
	return names
})

// optionsIn returns the options of an operation in a tree with these pools, and the settings in
// effect for its pool.
func optionsIn(pools pooltree.Tree, in *statepb.OperationTree) (set pooltree.OperationOptions, pool pooltree.Effective, err error) {
	if set, err = pooltree.ReadOperationOptions(in.GetOptions().AsMap()); err == nil {
		pool, err = pools.Effective(scheduling.PoolName(in.GetPool()))
	}
	return set, pool, err
}

// effectiveTree returns the settings in effect in a tree with these options. An option that is
// not set and has no default is null.
func effectiveTree(options pooltree.TreeOptions) map[string]any {
	holds := option.Write(options.Complete())
	addOptions(holds, options)
	return holds
}

// list returns names as a list for a document.
func list[T ~string](names []T) []any { return mapped(names, func(name T) any { return string(name) }) }
