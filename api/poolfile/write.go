package poolfile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// Write returns the text of a file, from which Read returns an equal File. Ephemeral
// pools are left out: they come and go with their operations.
func (f File) Write() ([]byte, error) {
	var out yaml.MapSlice
	if f.Tree != "" {
		out = append(out, yaml.MapItem{Key: "tree", Value: string(f.Tree)})
	}
	if f.Options != nil {
		out = append(out, yaml.MapItem{Key: "options", Value: ordered(*f.Options)})
	}
	out = append(out, yaml.MapItem{Key: "pools", Value: f.below(scheduling.RootPool)})
	data, err := yaml.MarshalWithOptions(out, yaml.Indent(2))
	if err != nil {
		return nil, fmt.Errorf("write pool file: %w", err)
	}
	return data, nil
}

// below returns the pools directly below parent, by name.
func (f File) below(parent scheduling.PoolName) yaml.MapSlice {
	out := yaml.MapSlice{}
	for _, p := range f.Pools {
		if p.Parent != parent || p.Ephemeral != "" {
			continue
		}
		settings := ordered(p.Options)
		if below := f.below(p.Name); len(below) > 0 {
			settings = append(settings, yaml.MapItem{Key: "pools", Value: below})
		}
		out = append(out, yaml.MapItem{Key: string(p.Name), Value: settings})
	}
	slices.SortFunc(out, func(a, b yaml.MapItem) int { return cmp.Compare(a.Key.(string), b.Key.(string)) })
	return out
}

// ordered returns the options that are set, in the order of the fields of the struct.
func ordered(options any) yaml.MapSlice {
	return arrange(option.Write(options), option.Fields(options), "")
}

func arrange(document map[string]any, fields []option.Field, prefix string) yaml.MapSlice {
	out := yaml.MapSlice{}
	for _, field := range fields {
		below, ok := strings.CutPrefix(field.Path, prefix)
		name, _, inGroup := strings.Cut(below, "/")
		value, given := document[name]
		if !ok || !given {
			continue
		}
		delete(document, name)
		if group, ok := value.(map[string]any); ok && inGroup {
			inner := arrange(group, fields, prefix+name+"/")
			if len(inner) == 0 {
				continue
			}
			value = inner
		} else {
			value = readable(value)
		}
		out = append(out, yaml.MapItem{Key: name, Value: value})
	}
	return out
}

// readable returns a value as people write it: whole numbers without a point, memory
// with a unit.
func readable(value any) any {
	switch v := value.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
	case map[string]any:
		out := yaml.MapSlice{}
		for i := range resource.Count {
			name := resource.Kind(i).String()
			amount, ok := v[name].(float64)
			switch {
			case !ok:
			case resource.Kind(i) == resource.Memory:
				out = append(out, yaml.MapItem{Key: name, Value: resource.FormatSize(int64(amount))})
			default:
				out = append(out, yaml.MapItem{Key: name, Value: readable(amount)})
			}
		}
		return out
	}
	return value
}

// Of returns the file that declares a tree as it is, without its ephemeral pools.
func Of(name scheduling.TreeName, tree pooltree.Tree) File {
	options := tree.Options()
	pools := slices.DeleteFunc(tree.ParentsFirst(), func(p pooltree.Pool) bool { return p.Ephemeral != "" })
	return File{Tree: name, Options: &options, Pools: pools}
}
