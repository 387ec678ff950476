package statepb

import (
	"slices"

	"weir/scheduling/statistics"
)

// NewAggregates returns the records of a set, as deep copies.
func NewAggregates(set statistics.Set) []*Aggregate {
	out := make([]*Aggregate, len(set))
	for i := range set {
		e := &set[i]
		out[i] = &Aggregate{
			Name: e.Name, State: e.State, Count: e.Count, Sum: e.Sum, Min: e.Min, Max: e.Max,
			Buckets: slices.Clone(e.Buckets), Counts: slices.Clone(e.Counts),
		}
	}
	return out
}

// Aggregates returns the set of these records, as a deep copy. The records may be in any order.
func Aggregates(records []*Aggregate) statistics.Set {
	var set statistics.Set
	for _, r := range records {
		n := min(len(r.GetBuckets()), len(r.GetCounts()))
		set.Merge(statistics.Set{{Name: r.GetName(), State: r.GetState(), Aggregate: statistics.Aggregate{
			Count: r.GetCount(), Sum: r.GetSum(), Min: r.GetMin(), Max: r.GetMax(), Buckets: r.GetBuckets()[:n], Counts: r.GetCounts()[:n],
		}}})
	}
	return set
}

// Measured returns a copy of the measurements of a job, by name, in whichever form the record
// stores them. It returns nothing for invalid data, which is never committed.
func (x *JobStatistics) Measured() map[string]int64 {
	values, err := statistics.Unpack(x.GetPacked(), x.GetValues())
	if err != nil {
		return nil
	}
	return values
}

// Value returns the measurement of a name; 0 if there is none.
func (x *JobStatistics) Value(name string) int64 {
	if amount, ok := statistics.Find(x.GetPacked(), name); ok {
		return amount
	}
	return x.GetValues()[name]
}
