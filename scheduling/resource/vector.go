package resource

import "math"

const (
	// Epsilon is the tolerance of comparisons of shares, per resource (F.1.4).
	Epsilon = 1e-9
	// LargeEpsilon is the tolerance for shares that were rounded to whole amounts on the way
	// (F.1.4).
	LargeEpsilon = 1e-4
	// MaxSatisfaction is the satisfaction of elements whose fair share is zero. It is also the upper
	// bound of the satisfaction of all others (F.1.4).
	MaxSatisfaction = 1e9
)

// Vector is a share of the cluster per resource: 1 is all of it.
type Vector [Count]float64

// Ones is the share of the whole cluster.
var Ones = Vector{1, 1, 1, 1, 1}

// Share returns each amount as a part of total. It is 0 where total is 0.
func Share(a, total Amounts) Vector {
	return Vector{
		ratio(a.UserSlots, total.UserSlots),
		ratio(int64(a.CPU), int64(total.CPU)),
		ratio(a.GPU, total.GPU),
		ratio(a.Memory, total.Memory),
		ratio(a.Network, total.Network),
	}
}

// MaxRatio returns the greatest share of a resource of `total` that the amounts a have. It returns 0
// if `total` is nothing.
func MaxRatio(a, total Amounts) float64 { return max(Share(a, total).MaxComponent(), 0) }

// Dominant returns the kind of which the amounts a have the greatest share of `total`. Among equals it
// is the first. If all shares are zero it is cpu (F.1.6).
func Dominant(a, total Amounts) Kind {
	s := Share(a, total)
	best, k := 0.0, CPU
	for i, v := range s {
		if v > best {
			best, k = v, Kind(i)
		}
	}
	return k
}

// Add returns v + w.
func (v Vector) Add(w Vector) Vector {
	return Vector{v[0] + w[0], v[1] + w[1], v[2] + w[2], v[3] + w[3], v[4] + w[4]}
}

// Sub returns v - w.
func (v Vector) Sub(w Vector) Vector {
	return Vector{v[0] - w[0], v[1] - w[1], v[2] - w[2], v[3] - w[3], v[4] - w[4]}
}

// Min returns the lesser share of each resource.
func (v Vector) Min(w Vector) Vector {
	return Vector{min(v[0], w[0]), min(v[1], w[1]), min(v[2], w[2]), min(v[3], w[3]), min(v[4], w[4])}
}

// Max returns the greater share of each resource.
func (v Vector) Max(w Vector) Vector {
	return Vector{max(v[0], w[0]), max(v[1], w[1]), max(v[2], w[2]), max(v[3], w[3]), max(v[4], w[4])}
}

// Scale returns v * factor.
func (v Vector) Scale(factor float64) Vector {
	return Vector{v[0] * factor, v[1] * factor, v[2] * factor, v[3] * factor, v[4] * factor}
}

// Amounts returns these shares of `total` as amounts. Cpu is rounded to the nearest hundredth of a
// core, other amounts to the nearest whole number.
func (v Vector) Amounts(total Amounts) Amounts {
	return Amounts{
		UserSlots: nearest(float64(total.UserSlots) * v[UserSlots]),
		CPU:       Hundredths(nearest(float64(total.CPU) * v[CPU])),
		GPU:       nearest(float64(total.GPU) * v[GPU]),
		Memory:    nearest(float64(total.Memory) * v[Memory]),
		Network:   nearest(float64(total.Network) * v[Network]),
	}
}

// Uniform returns the same share of every resource.
func Uniform(share float64) Vector { return Vector{share, share, share, share, share} }

// Largest returns the resource with the greatest share. Among equals it is the first.
func (v Vector) Largest() Kind { return v.MaxKind(0) }

// MaxComponent returns the greatest share.
func (v Vector) MaxComponent() float64 {
	most := v[0]
	for _, share := range v[1:] {
		if share > most {
			most = share
		}
	}
	return most
}

// MaxKind returns the kind with the greatest share. Among equals it is the
// preferred one, or else the first.
func (v Vector) MaxKind(preferred Kind) Kind {
	best := preferred
	for i := range v {
		if v[i] > v[best] {
			best = Kind(i)
		}
	}
	return best
}

// IsZero reports whether every share is exactly zero.
func (v Vector) IsZero() bool { return v == Vector{} }

// Near reports whether no share differs by more than eps. A NaN is near no number.
func (v Vector) Near(w Vector, eps float64) bool {
	for i := range v {
		if !(math.Abs(v[i]-w[i]) <= eps) {
			return false
		}
	}
	return true
}

// Dominates reports whether v has at least the share of w in every resource,
// without any tolerance.
func (v Vector) Dominates(w Vector) bool {
	return v[0] >= w[0] && v[1] >= w[1] && v[2] >= w[2] && v[3] >= w[3] && v[4] >= w[4]
}

// Within reports whether no share exceeds the share in `limit` by more than eps.
func (v Vector) Within(limit Vector, eps float64) bool {
	for i := range v {
		if !(v[i] <= limit[i]+eps) {
			return false
		}
	}
	return true
}

func ratio(a, total int64) float64 {
	if total == 0 {
		return 0
	}
	return float64(a) / float64(total)
}
