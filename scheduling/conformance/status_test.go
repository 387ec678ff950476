package conformance_test

import (
	"weir/scheduling/fairshare"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// usage is what an element uses at the moment of the comparison.
func (k *checker) usage(e *fairshare.Element) (resource.Amounts, error) {
	if k.Instant == nil {
		return e.Usage, nil
	}
	if e.Pool == nil {
		instant, ok := k.Instant[e.ID]
		if !ok {
			return e.Usage, nil
		}
		return instant.exact()
	}
	var sum resource.Amounts
	for _, c := range e.Children {
		u, err := k.usage(c)
		if err != nil {
			return sum, err
		}
		sum = sum.Add(u)
	}
	return sum, nil
}

func (k *checker) localSatisfaction(e *fairshare.Element) (float64, error) {
	if k.Instant == nil {
		return e.LocalSatisfaction, nil
	}
	u, err := k.usage(e)
	return fairshare.Satisfaction(resource.Share(u, k.total), e.FairShare, e.DemandShare), err
}

func (k *checker) satisfaction(e *fairshare.Element) (float64, error) {
	if k.Instant == nil {
		return e.PoolSatisfaction, nil
	}
	least, found := resource.MaxSatisfaction, false
	for _, c := range e.Children {
		if c.Schedulable() {
			s, err := k.satisfaction(c)
			if err != nil {
				return 0, err
			}
			least, found = min(least, s), true
		}
	}
	if found {
		return least, nil
	}
	return k.localSatisfaction(e)
}

func (k *checker) status(e *fairshare.Element) (preemption.Status, error) {
	u, err := k.usage(e)
	if err != nil {
		return preemption.Normal, err
	}
	return k.statusAt(e, u)
}
