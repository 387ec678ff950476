package resource

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// FromMap returns the amounts that a setting or a request names: user_slots, cpu (cores), gpu,
// memory (bytes), network. Names that are missing count as 0. Cpu is rounded to the nearest
// hundredth of a core, the others towards zero (F.1.1).
//
// It fails on unknown names and on amounts that are negative, not finite or
// beyond Infinite; the error names the first such key in alphabetical order.
func FromMap(m map[string]float64) (Amounts, error) { return FromMapOr(m, Amounts{}) }

// FromMapOr is like FromMap, but names that are not in the map have the amounts in `missing`.
func FromMapOr(m map[string]float64, missing Amounts) (Amounts, error) {
	a := missing
	for _, name := range slices.Sorted(maps.Keys(m)) {
		k, err := ParseKind(name)
		if err != nil {
			return Amounts{}, err
		}
		amount, err := parseAmount(k, m[name])
		if err != nil {
			return Amounts{}, err
		}
		a = a.With(k, amount)
	}
	return a, nil
}

// Map returns the amounts that are not zero, by name. Cpu is in cores.
func (a Amounts) Map() map[string]float64 {
	m := make(map[string]float64, Count)
	for k := Kind(0); k < Count; k++ {
		switch {
		case a.Of(k) == 0:
		case k == CPU:
			m[k.String()] = a.CPU.Cores()
		default:
			m[k.String()] = float64(a.Of(k))
		}
	}
	return m
}

// Map returns all shares by the name of their resource.
func (v Vector) Map() map[string]float64 {
	m := make(map[string]float64, Count)
	for i, share := range v {
		m[Kind(i).String()] = share
	}
	return m
}

func parseAmount(k Kind, x float64) (int64, error) {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return 0, fmt.Errorf("resource %s: amount %v is not a finite number", k, x)
	case x < 0:
		return 0, fmt.Errorf("resource %s: negative amount %v", k, x)
	}
	if k == CPU {
		x = math.Round(x * 100)
	}
	if x > float64(Infinite.Of(k)) && k == Memory {
		return 0, fmt.Errorf("resource %s: amount %v is %w", k, x, tooMuch(Infinite.Memory))
	}
	if x > float64(Infinite.Of(k)) {
		return 0, fmt.Errorf("resource %s: amount %v is too much: the limit is %d", k, x, Infinite.Of(k))
	}
	return int64(x), nil
}

// Kind names one resource. The order of kinds breaks ties between dominant
// resources (F.1.1).
type Kind uint8

// The kinds of resources, in the order of F.1.1.
const (
	UserSlots Kind = iota
	CPU
	GPU
	Memory
	Network

	// Count is the number of kinds.
	Count = 5
)

var kindNames = [Count]string{"user_slots", "cpu", "gpu", "memory", "network"}

// String returns the name of the kind in settings, such as "user_slots".
func (k Kind) String() string {
	if int(k) >= Count {
		return fmt.Sprintf("resource.Kind(%d)", uint8(k))
	}
	return kindNames[k]
}

// Format returns an amount of the kind for people. Cpu is given in hundredths and returned in cores.
func (k Kind) Format(amount int64) string {
	switch k {
	case CPU:
		return Hundredths(amount).String()
	case Memory:
		return FormatSize(amount)
	default:
		return strconv.FormatInt(amount, 10)
	}
}

// ParseKind returns the kind with this name.
func ParseKind(name string) (Kind, error) {
	k := slices.Index(kindNames[:], name)
	if k < 0 {
		return 0, fmt.Errorf("unknown resource %q: use one of user_slots, cpu, gpu, memory, network", name)
	}
	return Kind(k), nil
}
