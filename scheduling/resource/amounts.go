package resource

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Hundredths is an amount of cpu in hundredths of a core.
type Hundredths int64

// Cores returns the amount of cpu nearest to this number of cores.
func Cores(cores float64) Hundredths { return Hundredths(nearest(cores * 100)) }

// Cores returns the amount as a number of cores.
func (h Hundredths) Cores() float64 { return float64(h) / 100 }

// String returns the number of cores with at most two decimals.
func (h Hundredths) String() string {
	return strconv.FormatFloat(h.Cores(), 'f', -1, 64)
}

// Amounts is an amount of each resource. It may be negative as the result of Sub. The zero value
// is nothing.
//
// Add, Sub, Times and Scale stop at the limits of int64 and never wrap.
type Amounts struct {
	// UserSlots counts jobs: each takes one.
	UserSlots int64
	// CPU is in hundredths of a core.
	CPU Hundredths
	// GPU counts devices.
	GPU int64
	// Memory is in bytes.
	Memory int64
	// Network has the unit that the nodes of the cluster register with.
	Network int64
}

// Infinite is more of everything than any cluster has (F.1.1).
var Infinite = Amounts{
	UserSlots: math.MaxInt64 / 4,
	CPU:       math.MaxInt64 / 4,
	GPU:       math.MaxInt64 / 4,
	Memory:    math.MaxInt64 / 4,
	Network:   math.MaxInt64 / 4,
}

// Of returns the amount of one kind. A cpu amount is in hundredths.
func (a Amounts) Of(k Kind) int64 {
	switch k {
	case UserSlots:
		return a.UserSlots
	case CPU:
		return int64(a.CPU)
	case GPU:
		return a.GPU
	case Memory:
		return a.Memory
	default:
		return a.Network
	}
}

// With returns a copy of the amounts with that of one kind replaced. A cpu amount is in hundredths.
func (a Amounts) With(k Kind, amount int64) Amounts {
	switch k {
	case UserSlots:
		a.UserSlots = amount
	case CPU:
		a.CPU = Hundredths(amount)
	case GPU:
		a.GPU = amount
	case Memory:
		a.Memory = amount
	default:
		a.Network = amount
	}
	return a
}

// Add returns a + b. Fair share updates add often, and a call of `with` would slow them down.
func (a Amounts) Add(b Amounts) Amounts {
	return Amounts{
		UserSlots: add(a.UserSlots, b.UserSlots),
		CPU:       Hundredths(add(int64(a.CPU), int64(b.CPU))),
		GPU:       add(a.GPU, b.GPU),
		Memory:    add(a.Memory, b.Memory),
		Network:   add(a.Network, b.Network),
	}
}

// Sub returns a - b, which may be negative.
func (a Amounts) Sub(b Amounts) Amounts { return a.with(b, sub) }

// Min returns the lesser amount of each resource.
func (a Amounts) Min(b Amounts) Amounts {
	return a.with(b, func(a, b int64) int64 { return min(a, b) })
}

// Max returns the greater amount of each resource.
func (a Amounts) Max(b Amounts) Amounts {
	return a.with(b, func(a, b int64) int64 { return max(a, b) })
}

// Times returns a * n.
func (a Amounts) Times(n int64) Amounts {
	return a.with(a, func(a, _ int64) int64 { return mul(a, n) })
}

// Scale returns a * factor. Cpu is rounded to the nearest hundredth of a core, other amounts to the
// nearest whole number. The factor must be finite.
func (a Amounts) Scale(factor float64) Amounts {
	return a.with(a, func(a, _ int64) int64 { return nearest(float64(a) * factor) })
}

// with combines each resource of a and b by the function `of`. Cpu is passed in hundredths.
func (a Amounts) with(b Amounts, of func(a, b int64) int64) Amounts {
	return Amounts{
		UserSlots: of(a.UserSlots, b.UserSlots),
		CPU:       Hundredths(of(int64(a.CPU), int64(b.CPU))),
		GPU:       of(a.GPU, b.GPU),
		Memory:    of(a.Memory, b.Memory),
		Network:   of(a.Network, b.Network),
	}
}

// Dominates reports whether a has at least as much of every resource as b.
func (a Amounts) Dominates(b Amounts) bool {
	return a.UserSlots >= b.UserSlots && a.CPU >= b.CPU && a.GPU >= b.GPU &&
		a.Memory >= b.Memory && a.Network >= b.Network
}

// StrictlyDominates reports whether a has more of every resource than b.
func (a Amounts) StrictlyDominates(b Amounts) bool {
	return a.UserSlots > b.UserSlots && a.CPU > b.CPU && a.GPU > b.GPU &&
		a.Memory > b.Memory && a.Network > b.Network
}

// Fits reports whether the amounts can be taken from what is free.
func (a Amounts) Fits(free Amounts) bool { return free.Dominates(a) }

// Lacking returns the first kind of which `free` has less than the receiver. The result ok is false if
// there is no such kind.
func (a Amounts) Lacking(free Amounts) (k Kind, ok bool) {
	for k := Kind(0); k < Count; k++ {
		if a.Of(k) > free.Of(k) {
			return k, true
		}
	}
	return 0, false
}

// IsZero reports whether all amounts are 0.
func (a Amounts) IsZero() bool { return a == Amounts{} }

// Validate returns an error that names the first negative amount.
func (a Amounts) Validate() error {
	for k := Kind(0); k < Count; k++ {
		if v := a.Of(k); v < 0 {
			return fmt.Errorf("resource %s: negative amount %d", k, v)
		}
	}
	return nil
}

// String returns the amounts that are not zero, such as
// "user_slots=1 cpu=0.5 memory=1024". It returns "nothing" if all are zero.
func (a Amounts) String() string {
	var parts []string
	for k := Kind(0); k < Count; k++ {
		switch n := a.Of(k); {
		case n == 0:
		case k == CPU:
			parts = append(parts, "cpu="+a.CPU.String())
		default:
			parts = append(parts, fmt.Sprintf("%s=%d", k, n))
		}
	}
	return cmp.Or(strings.Join(parts, " "), "nothing")
}

func add(a, b int64) int64 {
	s := a + b
	if (a^s)&(b^s) < 0 {
		return saturated(a < 0)
	}
	return s
}

func sub(a, b int64) int64 {
	d := a - b
	if (a^b)&(a^d) < 0 {
		return saturated(a < 0)
	}
	return d
}

func mul(a, n int64) int64 {
	if a == 0 || n == 0 {
		return 0
	}
	p := a * n
	if p/n != a || (a == -1 && n == math.MinInt64) || (n == -1 && a == math.MinInt64) {
		return saturated((a < 0) != (n < 0))
	}
	return p
}

func saturated(negative bool) int64 {
	if negative {
		return math.MinInt64
	}
	return math.MaxInt64
}

// nearest rounds to the nearest whole number, halves away from zero.
func nearest(x float64) int64 {
	x = math.Round(x)
	switch {
	case x >= math.MaxInt64:
		return math.MaxInt64
	case x <= math.MinInt64:
		return math.MinInt64
	}
	return int64(x)
}

// Truncated returns a copy of the amounts with that of one kind replaced. Cpu is given in
// hundredths and rounded to the nearest; other kinds are rounded towards zero (F.1.1).
func (a Amounts) Truncated(k Kind, amount float64) Amounts {
	if k != CPU {
		amount = math.Trunc(amount)
	}
	return a.With(k, nearest(amount))
}
