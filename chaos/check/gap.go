package check

import (
	"cmp"
	"slices"
	"time"

	"weir/chaos/fault"
	"weir/chaos/history"
)

// FaultFigures are about the faults of one kind and scope.
type FaultFigures struct {
	Kind  fault.Kind
	Scope fault.Scope
	// Count is the number of faults that took effect. Void is the number that did not.
	Count, Void int
	// MedianGap and WorstGap are the median and the maximum of the gaps that the faults caused: for
	// each fault, the longest time between two acknowledged submissions.
	MedianGap, WorstGap time.Duration
}

// gap is the time between two consecutive acknowledged submissions.
type gap struct{ from, to int64 }

func (g gap) length() int64 { return g.to - g.from }

// gapsOf returns the gaps between the acknowledged submissions in `calls`, in order.
func gapsOf(calls []history.Call) []gap {
	var acks []int64
	for _, c := range calls {
		if c.What == history.Submit && c.Outcome == history.OK {
			acks = append(acks, c.Returned)
		}
	}
	slices.Sort(acks)
	var gaps []gap
	for i := 1; i < len(acks); i++ {
		gaps = append(gaps, gap{acks[i-1], acks[i]})
	}
	return gaps
}

// aftermath is how long a fault may still cause a gap after it has ended: a replica that was cut
// off comes back and asks for an election.
const aftermath = int64(3 * time.Second)

// strike is one fault of a run.
type strike struct {
	history.Act
	// until is when its aftermath is over.
	until int64
	worst int64
}

// faultFigures counts faults and attributes gaps to them. A gap belongs to the last fault of
// replicas that overlaps it, with the aftermath counted as part of the fault. Without such a fault
// it belongs to the last fault of an agent that overlaps it.
func faultFigures(acts []history.Act, gaps []gap) []FaultFigures {
	strikes := strikesOf(acts)
	for _, g := range gaps {
		var blamed *strike
		for _, s := range strikes {
			if s.At >= g.to || s.until <= g.from || s.Error != "" {
				continue
			}
			if blamed == nil || blamed.onAgent() || !s.onAgent() {
				blamed = s
			}
		}
		if blamed != nil {
			blamed.worst = max(blamed.worst, g.length())
		}
	}
	type key [2]string
	by := make(map[key][]int64)
	figures := make(map[key]*FaultFigures)
	for _, s := range strikes {
		k := key{s.Kind, s.Scope}
		f := figures[k]
		if f == nil {
			f = &FaultFigures{Kind: fault.Kind(s.Kind), Scope: fault.Scope(s.Scope)}
			figures[k] = f
		}
		if s.Error != "" {
			f.Void++
			continue
		}
		f.Count++
		by[k] = append(by[k], s.worst)
	}
	out := make([]FaultFigures, 0, len(figures))
	for k, f := range figures {
		if worst := by[k]; len(worst) > 0 {
			slices.Sort(worst)
			f.MedianGap, f.WorstGap = time.Duration(worst[len(worst)/2]), time.Duration(worst[len(worst)-1])
		}
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b FaultFigures) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Scope, b.Scope))
	})
	return out
}

func (s *strike) onAgent() bool { return fault.Scope(s.Scope) == fault.Agent }

// strikesOf returns the faults, ordered by when they began.
func strikesOf(acts []history.Act) []*strike {
	var out []*strike
	last := int64(0)
	for _, a := range acts {
		last = max(last, a.At)
		switch a.What {
		case history.Inject:
			out = append(out, &strike{Act: a})
		case history.Heal:
			if i := slices.IndexFunc(out, func(s *strike) bool { return s.Fault == a.Fault }); i >= 0 {
				out[i].until = a.At + aftermath
			}
		}
	}
	for _, s := range out {
		if s.until == 0 {
			s.until = last
		}
	}
	return out
}
