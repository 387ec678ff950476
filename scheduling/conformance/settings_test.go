package conformance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"weir/scheduling"
	"weir/scheduling/fairshare"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// document is options by name.
type document = map[string]any

// config is settings that hold for a whole case, by the names of options. Those of a
// time may end in _seconds, those of pools and operations begin with pool_ and
// operation_.
type config document

// withSettings decodes an object whose fields are those of into, and beside these
// others, which it leaves in settings.
func withSettings(content []byte, into any, settings *document) error {
	var all map[string]json.RawMessage
	if err := strict(content, &all); err != nil {
		return err
	}
	known := map[string]bool{}
	t := reflect.TypeOf(into).Elem()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		known[name] = true
	}
	fields := map[string]json.RawMessage{}
	for name, value := range all {
		if known[name] {
			fields[name] = value
			continue
		}
		if *settings == nil {
			*settings = document{}
		}
		var v any
		if err := json.Unmarshal(value, &v); err != nil {
			return err
		}
		(*settings)[name] = v
	}
	again, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return strict(again, into)
}

// absolute is an option of trees by which cases judge operations.
const absolute = "enable_absolute_fair_share_starvation_tolerance"

// ofTrees, ofPools and ofOperations are the settings that cases may have: those about
// starvation and preemption, and the order of FIFO pools.
var (
	ofTrees = with(namesOf(pooltree.Starvation{}, pooltree.TreePreemption{}), "enable_pool_starvation")
	ofPools = with(namesOf(pooltree.Starvation{}, pooltree.PoolPreemption{}), "fifo_sort_parameters")
	// What an operation has as well is a field of the case.
	ofOperations = without(namesOf(pooltree.OperationOptions{}), "max_share_ratio", "apply_specified_resource_limits_to_demand")
)

func namesOf(structs ...any) map[string]bool {
	names := map[string]bool{}
	for _, s := range structs {
		for _, f := range option.Fields(s) {
			top, _, _ := strings.Cut(f.Path, "/")
			names[top] = true
			for _, alias := range f.Aliases {
				names[alias] = true
			}
		}
	}
	return names
}

func with(names map[string]bool, more string) map[string]bool {
	names[more] = true
	return names
}

func without(names map[string]bool, less ...string) map[string]bool {
	for _, name := range less {
		delete(names, name)
	}
	return names
}

// times are the options that are a time.
var times = func() map[string]bool {
	names := map[string]bool{}
	for _, f := range option.Fields(pooltree.PoolOptions{}) {
		for _, name := range append(f.Aliases, f.Path) {
			names[name] = f.Kind == "duration"
		}
	}
	return names
}()

// only refuses settings of other names.
func only(known map[string]bool, d document) error {
	for name := range d {
		if !known[name] {
			return fmt.Errorf("unknown setting %q", name)
		}
	}
	return nil
}

// split gives the settings to whom they are of.
func (c config) split(version string) (tree, pool, operation document, err error) {
	tree, pool, operation = document{}, document{}, document{}
	for given, value := range c {
		name, value := inSeconds(given, value)
		whose, isTree := strings.CutPrefix(name, "tree_")
		ofPool, isPool := strings.CutPrefix(name, "pool_")
		ofOperation, isOperation := strings.CutPrefix(name, "operation_")
		switch {
		case name == absolute:
		case name == "enable_conditional_preemption", name == "preemption_check_starvation", name == "preemption_check_satisfaction":
			if value != false && version != versionParts {
				return nil, nil, nil, fmt.Errorf("config: %s is of older revisions", name)
			}
		case isTree:
			tree[whose] = value
		case isPool:
			pool[ofPool] = value
		case isOperation:
			operation[ofOperation] = value
		case !ofTrees[name] && ofPools[name]:
			pool[name] = value
		default:
			tree[name] = value
		}
	}
	return tree, pool, operation, nil
}

// inSeconds returns a setting by its own name, a time, which is in seconds, as option
// has it.
func inSeconds(name string, value any) (string, any) {
	name = strings.TrimSuffix(name, "_seconds")
	if n, ok := value.(float64); ok && times[name] {
		return name, seconds(n).String()
	}
	return name, value
}

func durations(d document) document {
	out := document{}
	for name, value := range d {
		name, value = inSeconds(name, value)
		out[name] = value
	}
	return out
}

// readTree reads the options of a tree. Two settings that must not be less, or more,
// than others of the tree or of pools are what these allow where they are not given.
func readTree(tree document, pools ...document) (pooltree.TreeOptions, error) {
	const patience, threshold = "fair_share_aggressive_starvation_timeout", "aggressive_preemption_satisfaction_threshold"
	s := pooltree.Default().Settings().Starvation
	longest, least := s.AggressiveTimeout, s.AggressiveThreshold
	for _, d := range append(pools, tree) {
		if text, ok := d["fair_share_starvation_timeout"].(string); ok {
			timeout, err := time.ParseDuration(text)
			if err != nil {
				return pooltree.TreeOptions{}, err
			}
			longest = max(longest, timeout)
		}
		if n, ok := d["preemption_satisfaction_threshold"].(float64); ok {
			least = min(least, n)
		}
	}
	for name, value := range map[string]any{patience: longest.String(), threshold: least} {
		if _, given := tree[name]; !given {
			tree[name] = value
		}
	}
	return pooltree.ReadTreeOptions(tree)
}

// readSettings finds the settings that hold.
func (w *world) readSettings() error {
	tree, ofPool, ofOperation, err := w.Config.split(w.Version)
	if err != nil {
		return err
	}
	maps.Copy(tree, durations(document(w.TreeConfig)))
	if err := only(ofTrees, tree); err != nil {
		return err
	}
	var documents []document
	for _, p := range w.Pools {
		d := durations(ofPool)
		maps.Copy(d, durations(p.Settings))
		documents = append(documents, d)
	}
	options, err := readTree(tree, documents...)
	if err != nil {
		return err
	}
	var pools []pooltree.Pool
	for i, p := range w.Pools {
		d := documents[i]
		read, err := pooltree.ReadPoolOptions(d)
		if err == nil {
			err = only(ofPools, d)
		}
		if err != nil {
			return fmt.Errorf("pool %q: %w", p.ID, err)
		}
		pools = append(pools, pooltree.Pool{Name: scheduling.PoolName(p.ID), Parent: scheduling.PoolName(p.Parent), Options: read})
	}
	if w.settings, err = pooltree.FromPools(options, pools); err != nil {
		return err
	}
	if err := w.checkRunning(); err != nil {
		return err
	}
	for _, op := range w.Operations {
		d := durations(ofOperation)
		for _, own := range []document{op.Settings, w.OfOperations[op.ID]} {
			maps.Copy(d, durations(own))
		}
		read, err := pooltree.ReadOperationOptions(d)
		if err == nil {
			err = only(ofOperations, d)
		}
		if err != nil {
			return fmt.Errorf("operation %q: %w", op.ID, err)
		}
		pool, err := w.settings.Effective(scheduling.PoolName(op.Parent))
		if err != nil {
			return fmt.Errorf("operation %q: %w", op.ID, err)
		}
		w.ofOperations[op.ID] = read.Effective(pool)
	}
	return nil
}

// checkRunning wants the allocations of an operation, where they are listed, to be what
// it uses.
func (w *world) checkRunning() error {
	for id, all := range w.Running {
		i := slices.IndexFunc(w.Operations, func(op operationCase) bool { return op.ID == id })
		if i < 0 {
			return fmt.Errorf("running_allocations: unknown operation %q", id)
		}
		usage, err := w.Operations[i].Usage.exact()
		if err != nil {
			return err
		}
		sum, err := sumOf(all)
		if err != nil || sum != usage {
			return fmt.Errorf("running_allocations of %q hold %v and it uses %v: %w", id, sum, usage, err)
		}
	}
	for id := range w.OfOperations {
		if !slices.ContainsFunc(w.Operations, func(op operationCase) bool { return op.ID == id }) {
			return fmt.Errorf("operation_options: unknown operation %q", id)
		}
	}
	return nil
}

func sumOf(all []allocationsCase) (resource.Amounts, error) {
	var sum resource.Amounts
	for _, a := range all {
		each, err := a.Resources.exact()
		if err != nil {
			return sum, err
		}
		sum = sum.Add(each.Times(int64(a.Count)))
	}
	return sum, nil
}

// starvation is the settings of starvation that hold for an element.
func (w *world) starvation(id string) (pooltree.EffectiveStarvation, error) {
	if op, ok := w.ofOperations[id]; ok {
		return op.Starvation, nil
	}
	pool, err := w.settings.Effective(scheduling.PoolName(id))
	return pool.Starvation, err
}

// sortKeys is how a FIFO pool of the case sorts.
func (w *world) sortKeys(id string) ([]fairshare.SortKey, error) {
	pool, err := w.settings.Effective(scheduling.PoolName(id))
	keys := make([]fairshare.SortKey, 0, len(pool.FIFOSort))
	for _, name := range pool.FIFOSort {
		keys = append(keys, map[string]fairshare.SortKey{
			pooltree.SortByWeight: fairshare.ByWeight, pooltree.SortByStartTime: fairshare.ByStartTime,
			pooltree.SortByPendingJobCount: fairshare.ByPendingJobs,
		}[name])
	}
	return keys, err
}

// checkEffective compares a setting that holds for an element.
func (k *checker) checkEffective(id, field string, want any) error {
	s, err := k.starvation(id)
	if err != nil {
		return err
	}
	all := s.Document()
	if op, ok := k.ofOperations[id]; ok {
		all["packing"], all["preemption_mode"] = op.Packing.Document(), op.PreemptionMode()
	} else {
		pool, err := k.settings.Effective(scheduling.PoolName(id))
		if err != nil {
			return err
		}
		maps.Copy(all, pool.Preemption.Document())
	}
	name := strings.TrimSuffix(strings.TrimPrefix(field, "effective_"), "_seconds")
	got, known := all[name]
	if !known || name == field {
		return errors.New("unknown setting")
	}
	if text, ok := got.(string); ok {
		if n, ok := want.(float64); ok {
			d, err := time.ParseDuration(text)
			k.number(id, field, d.Seconds(), n, k.Tolerance.Abs)
			return err
		}
	}
	k.result.checks++
	if !alike(got, want, k.Tolerance.Abs) {
		k.mismatch(id, field, got, want)
	}
	return nil
}

// alike compares plain values, numbers with a tolerance.
func alike(got, want any, eps float64) bool {
	switch w := want.(type) {
	case float64:
		g, ok := got.(float64)
		return ok && math.Abs(g-w) <= eps
	case document:
		g, ok := got.(document)
		if !ok || len(g) != len(w) {
			return false
		}
		for name := range w {
			if !alike(g[name], w[name], eps) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(got, want)
	}
}
