package pooltree

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"weir/scheduling"
)

const (
	// MaxNameBytes is the longest name of a pool, in bytes.
	MaxNameBytes = 100
	// MaxDepth is how many pools a path may have below the root. It bounds the
	// work per operation that goes up or down the tree.
	MaxDepth = 32
	// MaxWeight is the greatest weight of a pool. Weights are ratios between
	// siblings: sums of them must stay exact enough.
	MaxWeight = 1e9
)

// DefaultWeight is the weight of a pool or an operation that sets none.
const DefaultWeight = 1.0

// Settings are the options of a whole tree.
type Settings struct {
	// MaxOperationCount limits the operations of the tree that have not ended.
	MaxOperationCount int64
	// MaxRunningOperationCount limits the operations of the tree that run.
	MaxRunningOperationCount int64
	// MaxOperationCountPerPool is the MaxOperationCount of pools that set none.
	MaxOperationCountPerPool int64
	// MaxRunningOperationCountPerPool is the MaxRunningOperationCount of pools
	// that set none.
	MaxRunningOperationCountPerPool int64
}

// Default returns the settings of a tree that sets nothing (F.17.1).
func Default() Settings {
	return Settings{
		MaxOperationCount:               50000,
		MaxRunningOperationCount:        2000,
		MaxOperationCountPerPool:        50,
		MaxRunningOperationCountPerPool: 8,
	}
}

// Validate returns an error that names the first setting that cannot be.
func (s Settings) Validate() error {
	for _, limit := range []struct {
		option string
		value  int64
	}{
		{"max_operation_count", s.MaxOperationCount},
		{"max_running_operation_count", s.MaxRunningOperationCount},
		{"max_operation_count_per_pool", s.MaxOperationCountPerPool},
		{"max_running_operation_count_per_pool", s.MaxRunningOperationCountPerPool},
	} {
		if limit.value < 0 {
			return fmt.Errorf("%s: negative limit %d", limit.option, limit.value)
		}
	}
	if s.MaxOperationCount < s.MaxRunningOperationCount {
		return fmt.Errorf("max_operation_count %d is less than max_running_operation_count %d",
			s.MaxOperationCount, s.MaxRunningOperationCount)
	}
	if s.MaxOperationCountPerPool < s.MaxRunningOperationCountPerPool {
		return fmt.Errorf("max_operation_count_per_pool %d is less than max_running_operation_count_per_pool %d",
			s.MaxOperationCountPerPool, s.MaxRunningOperationCountPerPool)
	}
	return nil
}

// Pool is a pool as its owner set it. A nil option takes the default of the
// tree. What the pointers point to must not be changed.
type Pool struct {
	// Name is unique within the tree.
	Name scheduling.PoolName
	// Parent is another pool or scheduling.RootPool.
	Parent scheduling.PoolName
	// Weight is the part of the pool in what its siblings divide, relative to
	// theirs. A pool of weight 0 gets what the others leave.
	Weight *float64
	// MaxOperationCount limits the operations in the pool and below it that have
	// not ended.
	MaxOperationCount *int64
	// MaxRunningOperationCount limits the operations in the pool and below it
	// that run.
	MaxRunningOperationCount *int64
}

// Effective is the settings that hold for a pool.
type Effective struct {
	Weight                   float64
	MaxOperationCount        int64
	MaxRunningOperationCount int64
}

// ValidateName returns an error that says what a pool's name may not be.
func ValidateName(name scheduling.PoolName) error {
	s := string(name)
	switch {
	case s == "":
		return errors.New("pool name is empty")
	case len(s) > MaxNameBytes:
		return fmt.Errorf("pool name of %d bytes is longer than %d", len(s), MaxNameBytes)
	case !utf8.ValidString(s):
		return fmt.Errorf("pool name %q is not UTF-8", s)
	}
	if i := strings.IndexFunc(s, forbidden); i >= 0 {
		r, _ := utf8.DecodeRuneInString(s[i:])
		return fmt.Errorf("pool name %q holds %q: these are not allowed: / $ < > * spaces and control characters", s, r)
	}
	return nil
}

// ValidateWeight returns an error unless the weight of a pool or an operation is
// in [0, MaxWeight].
func ValidateWeight(weight float64) error {
	if math.IsNaN(weight) || weight < 0 || weight > MaxWeight {
		return fmt.Errorf("weight %v is not a number from 0 to %v", weight, MaxWeight)
	}
	return nil
}

func forbidden(r rune) bool {
	return strings.ContainsRune("/$<>*", r) || unicode.IsSpace(r) || unicode.IsControl(r)
}

// effective fills in the defaults. The root has the limits of the whole tree.
func (p Pool) effective(s Settings) Effective {
	e := Effective{
		Weight:                   DefaultWeight,
		MaxOperationCount:        s.MaxOperationCountPerPool,
		MaxRunningOperationCount: s.MaxRunningOperationCountPerPool,
	}
	if p.Weight != nil {
		e.Weight = *p.Weight
	}
	if p.MaxOperationCount != nil {
		e.MaxOperationCount = *p.MaxOperationCount
	}
	if p.MaxRunningOperationCount != nil {
		e.MaxRunningOperationCount = *p.MaxRunningOperationCount
	}
	return e
}

// validate checks what can be seen without the rest of the tree.
func (p Pool) validate(s Settings) error {
	if err := ValidateName(p.Name); err != nil {
		return err
	}
	e := p.effective(s)
	if err := ValidateWeight(e.Weight); err != nil {
		return err
	}
	if e.MaxOperationCount < 0 {
		return fmt.Errorf("max_operation_count: negative limit %d", e.MaxOperationCount)
	}
	if e.MaxRunningOperationCount < 0 {
		return fmt.Errorf("max_running_operation_count: negative limit %d", e.MaxRunningOperationCount)
	}
	if e.MaxOperationCount < e.MaxRunningOperationCount {
		return fmt.Errorf("max_operation_count %d%s is less than max_running_operation_count %d%s",
			e.MaxOperationCount, orDefault(p.MaxOperationCount),
			e.MaxRunningOperationCount, orDefault(p.MaxRunningOperationCount))
	}
	return nil
}

func orDefault(option *int64) string {
	if option == nil {
		return " (the tree's default)"
	}
	return ""
}
