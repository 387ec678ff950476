package allocation

import (
	"math"
	"slices"
	"time"

	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// Angle says how far the proportion of cpu and memory that a job needs is from the proportion that
// is free, both as parts of total: 1 minus the cosine of the angle between them. It is 0 for a
// perfect match, and for a job that needs neither.
func Angle(needs, free, total resource.Amounts) float64 {
	job, node := packed(needs, total), packed(free, total)
	if job.length() == 0 {
		return 0
	}
	if node.length() == 0 {
		return 1
	}
	return max(1-(job.cpu*node.cpu+job.memory*node.memory)/(job.length()*node.length()), 0)
}

// AngleLength is Angle times the length of free relative to that of needs. Of two nodes with the
// same proportion, the fuller one has the lower value and is better.
func AngleLength(needs, free, total resource.Amounts) float64 {
	job, node := packed(needs, total), packed(free, total)
	if job.length() == 0 {
		return 0
	}
	return Angle(needs, free, total) * node.length() / job.length()
}

// plane is a vector of the shares of cpu and memory.
type plane struct{ cpu, memory float64 }

func packed(a, total resource.Amounts) plane {
	s := resource.Share(a, total)
	return plane{s[resource.CPU], s[resource.Memory]}
}

func (p plane) length() float64 { return math.Hypot(p.cpu, p.memory) }

// Packing remembers the nodes that an operation was offered, so that the operation can wait for
// better ones (F.14). The zero value remembers nothing.
type Packing struct {
	// seen is in ascending order of time.
	seen []offer
}

// offer is what was free on a node at one time.
type offer struct {
	at   time.Time
	free resource.Amounts
}

// Accepts reports whether a job may start on a node with this much free. For this, at least
// MinWindowSize recent offers must be known. Of the recent offers that could hold the job, fewer
// than MaxBetter may have been clearly better.
func (p *Packing) Accepts(now time.Time, needs, free, total resource.Amounts, s pooltree.EffectivePacking) bool {
	p.forget(now, s)
	if len(p.seen) < s.MinWindowSize {
		return false
	}
	metric := AngleLength
	if s.Metric == pooltree.PackByAngle {
		metric = Angle
	}
	value := metric(needs, free, total)
	better := 0
	for _, o := range p.seen {
		if !needs.Fits(o.free) {
			continue
		}
		if past := metric(needs, o.free, total); past < value-s.AbsoluteTolerance && past < value/s.RelativeTolerance {
			better++
		}
	}
	return better < s.MaxBetter
}

// Saw remembers what was free on a node. Call it after a job was refused on the node, and after one
// was started there.
func (p *Packing) Saw(now time.Time, free resource.Amounts, s pooltree.EffectivePacking) {
	p.forget(now, s)
	if n := len(p.seen) - s.MaxWindowSize + 1; n > 0 {
		p.seen = slices.Delete(p.seen, 0, n)
	}
	p.seen = append(p.seen, offer{now, free})
}

// forget drops offers that are too old to count.
func (p *Packing) forget(now time.Time, s pooltree.EffectivePacking) {
	old := 0
	for old < len(p.seen) && now.Sub(p.seen[old].at) > s.MaxHeartbeatAge {
		old++
	}
	p.seen = slices.Delete(p.seen, 0, old)
}
