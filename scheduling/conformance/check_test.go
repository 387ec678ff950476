package conformance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// checker compares what came of a case with what was expected.
type checker struct {
	*world
	result *result
	name   string
}

func (k *checker) check() error {
	if err := k.checkElements(k.Expect.Elements, k.Tolerance); err != nil {
		return err
	}
	if k.Derived != nil {
		if err := k.checkElements(k.Derived.Elements, k.Derived.Tolerance); err != nil {
			return err
		}
	}
	for id, want := range k.Expect.Volumes {
		e, err := k.pool(id)
		if err != nil {
			return err
		}
		k.byName(id, "accumulated_volume", e.Volume.Map(), want, k.Tolerance)
	}
	for id, want := range k.Expect.RatioVolumes {
		e, err := k.pool(id)
		if err != nil {
			return err
		}
		k.number(id, "accumulated_resource_ratio_volume", e.Volume.MinRatio(k.total), want, k.Tolerance.Abs)
	}
	for id, want := range k.Expect.TagLimits {
		got, err := k.tagLimits(id)
		if err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		k.byName(id, "scheduling_tag_filter_resource_limits", full(got), want, k.Tolerance)
	}
	for field, elements := range k.Expect.Effective {
		byElement, ok := elements.(document)
		if !ok {
			return fmt.Errorf("expect: unknown field %q", field)
		}
		for id, want := range byElement {
			if err := k.checkEffective(id, field, want); err != nil {
				return fmt.Errorf("expect: %s: %w", field, err)
			}
		}
	}
	if err := k.checkOrder(); err != nil {
		return err
	}
	k.checkAlerts()
	for _, p := range k.Expect.Properties {
		if err := k.checkProperty(p); err != nil {
			return fmt.Errorf("property %s: %w", p.Kind, err)
		}
	}
	return nil
}

func (k *checker) checkAlerts() {
	raised := func(code int) bool {
		return slices.ContainsFunc(k.report.Alerts, func(a fairshare.Alert) bool { return int(a.Code) == code })
	}
	for _, code := range k.Expect.ErrorsContain {
		k.equal("<Root>", "errors_contain", code, raised(code), true)
	}
	for _, code := range k.Expect.ErrorsAbsent {
		k.equal("<Root>", "errors_absent", code, raised(code), false)
	}
}

func (k *checker) checkElements(elements map[string]map[string]json.RawMessage, eps tolerance) error {
	for id, fields := range elements {
		e := k.elements[id]
		if e == nil {
			return fmt.Errorf("unknown element %q", id)
		}
		for field, want := range fields {
			if err := k.checkField(id, e, field, want, eps); err != nil {
				return fmt.Errorf("%s.%s: %w", id, field, err)
			}
		}
	}
	return nil
}

func (k *checker) checkField(id string, e *fairshare.Element, field string, want json.RawMessage, eps tolerance) error {
	if got, ok := vectors(e)[field]; ok {
		return k.vector(id, field, got, want, eps)
	}
	if strings.HasPrefix(field, "effective_") && field != "effective_fifo_index" {
		var wanted any
		if err := strict(want, &wanted); err != nil {
			return err
		}
		return k.checkEffective(id, field, wanted)
	}
	switch field {
	case "starvation_status", "lowest_starving_ancestor", "lowest_aggressively_starving_ancestor", "below_fair_share_since":
		return k.checkStarvation(id, field, want)
	case "fair_share", "promised_guarantee_fair_share", "strong_guarantee_share_by_tier":
		return k.group(id, e, field, want, eps)
	case "fifo_index":
		return k.index(id, field, e.FIFOIndex, want)
	case "effective_fifo_index":
		return k.index(id, field, e.EffectiveFIFOIndex, want)
	case "status":
		var text string
		if err := strict(want, &text); err != nil {
			return err
		}
		got, err := k.status(e)
		if err == nil {
			k.equal(id, field, "", got.String(), text)
		}
		return err
	case "inferred_strong_guarantee_resources", "integral_pool_capacity", "limited_resource_demand", "best_allocation_share":
		if e.Pool != nil && field == "integral_pool_capacity" && want[0] != '{' {
			break // in seconds of the whole cluster
		}
		var all map[string]float64
		if err := strict(want, &all); err != nil {
			return err
		}
		got, err := k.resources(e, field)
		if err == nil {
			k.byName(id, field, got, all, eps)
		}
		return err
	}
	var wanted float64
	if err := strict(want, &wanted); err != nil {
		return err
	}
	got, err := k.scalar(id, e, field)
	if err == nil {
		k.number(id, field, got, wanted, eps.Abs)
	}
	return err
}

// vectors are the fields of an element that are shares.
func vectors(e *fairshare.Element) map[string]resource.Vector {
	return map[string]resource.Vector{
		"demand_share":              e.DemandShare,
		"usage_share":               e.UsageShare,
		"limits_share":              e.LimitsShare,
		"strong_guarantee_share":    e.StrongGuaranteeShare,
		"guarantee_share":           e.GuaranteeShare(),
		"integral_guarantee_share":  e.IntegralShare,
		"estimated_guarantee_share": e.EstimatedGuaranteeShare,
	}
}

// group compares fields that have shares by name.
func (k *checker) group(id string, e *fairshare.Element, field string, want json.RawMessage, eps tolerance) error {
	var parts map[string]json.RawMessage
	if err := strict(want, &parts); err != nil {
		return err
	}
	got := map[string]resource.Vector{}
	switch field {
	case "fair_share":
		got = named(e.Parts())
	case "promised_guarantee_fair_share":
		got = named(e.PromisedParts())
	default:
		got["priority_pools"] = e.Pool.Tiers[fairshare.PriorityTier]
		got["regular_pools"] = e.Pool.Tiers[fairshare.RegularTier]
	}
	for part, vector := range parts {
		v, ok := got[part]
		if !ok {
			return fmt.Errorf("unknown part %q", part)
		}
		if err := k.vector(id, field+"."+part, v, vector, eps); err != nil {
			return err
		}
	}
	return nil
}

func named(p fairshare.Parts) map[string]resource.Vector {
	return map[string]resource.Vector{
		"total": p.Total, "strong_guarantee": p.Strong,
		"integral_guarantee": p.Integral, "weight_proportional": p.Proportional,
	}
}

func (k *checker) resources(e *fairshare.Element, field string) (map[string]float64, error) {
	switch {
	case field == "limited_resource_demand":
		return full(e.LimitedDemandShare.Amounts(k.total)), nil
	case field == "best_allocation_share":
		return e.BestAllocation.Map(), nil
	case e.Pool == nil:
		return nil, errors.New("the element is no pool")
	case field == "inferred_strong_guarantee_resources":
		return full(e.Pool.InferredGuarantee), nil
	default:
		return e.Pool.Capacity.Map(), nil
	}
}

func (k *checker) scalar(id string, e *fairshare.Element, field string) (float64, error) {
	switch field {
	case "dominant_estimated_guarantee_share":
		return e.EstimatedGuaranteeShare.MaxComponent(), nil
	case "local_satisfaction_ratio":
		return k.localSatisfaction(e)
	case "satisfaction_ratio":
		return k.satisfaction(e)
	}
	p, err := k.pool(id)
	if err != nil {
		return 0, err
	}
	switch field {
	case "specified_burst_ratio":
		return p.SpecifiedBurstRatio, nil
	case "specified_resource_flow_ratio":
		return p.SpecifiedFlowRatio, nil
	case "total_burst_ratio":
		return p.TotalBurstRatio, nil
	case "total_resource_flow_ratio":
		return p.TotalFlowRatio, nil
	case "integral_pool_capacity":
		return p.Capacity.MinRatio(k.total), nil
	case "accumulated_resource_ratio_volume":
		return p.Volume.MinRatio(k.total), nil
	default:
		return 0, errors.New("unknown field")
	}
}

func (k *checker) checkProperty(p property) error {
	switch p.Kind {
	case "no_crash":
		k.result.checks++
		return nil
	case "dominates":
		left, err := k.lookup(p.Left)
		if err != nil {
			return err
		}
		right, err := k.lookup(p.Right)
		k.equal(p.Left, "dominates", p.Right, left.Dominates(right), true)
		return err
	case "not_dominated_by_ones":
		got, err := k.lookup(p.Element + "." + p.Field)
		if p.ImplementationSpecific {
			k.equal(p.Element, p.Field, "within rounding of 1", got.Within(resource.Ones, resource.Epsilon), true)
		} else {
			k.equal(p.Element, p.Field, "dominated by ones", resource.Ones.Dominates(got), false)
		}
		return err
	case "equal_under_options":
		return k.equalUnderOptions(p)
	default:
		return errors.New("unknown property")
	}
}

func (k *checker) equalUnderOptions(p property) error {
	a, err := k.run(k.Options.with(p.OptionsA))
	if err != nil {
		return err
	}
	b, err := k.run(k.Options.with(p.OptionsB))
	if err != nil {
		return err
	}
	var only []string
	if string(p.Elements) != `"all"` {
		if err := strict(p.Elements, &only); err != nil {
			return err
		}
	}
	for id := range a.elements {
		if only != nil && !slices.Contains(only, id) {
			continue
		}
		got, err := (&checker{world: a}).lookup(id + "." + p.Field)
		if err != nil {
			return err
		}
		want, err := (&checker{world: b}).lookup(id + "." + p.Field)
		if err != nil {
			return err
		}
		for r := range got {
			k.number(id, p.Field+"."+resource.Kind(r).String(), got[r], want[r], p.Tolerance)
		}
	}
	return nil
}
