package pooltree

import (
	"errors"
	"fmt"
	"slices"

	"weir/scheduling"
)

// ErrTooManyOperations is returned when a pool holds, or runs, as many
// operations as it may.
var ErrTooManyOperations = errors.New("too many operations")

// Count is the operations of a pool and of all pools below it.
type Count struct {
	// Operations have not ended.
	Operations int64
	// Running ones count against max_running_operation_count.
	Running int64
	// Waiting ones could run if the pool and all above it had room.
	Waiting int64
}

// Plus returns the operations of both.
func (c Count) Plus(other Count) Count {
	return Count{c.Operations + other.Operations, c.Running + other.Running, c.Waiting + other.Waiting}
}

// Minus returns c without other.
func (c Count) Minus(other Count) Count {
	return Count{c.Operations - other.Operations, c.Running - other.Running, c.Waiting - other.Waiting}
}

// Counts is the operations of each pool and of all pools below it, and of
// scheduling.RootPool: of the whole tree.
type Counts map[scheduling.PoolName]Count

// Total returns the counts of every pool with those below it, given those of
// each pool alone.
func (t Tree) Total(immediate map[scheduling.PoolName]Count) (Counts, error) {
	total := make(Counts, len(t.pools)+1)
	for pool, count := range immediate {
		if err := total.Add(t, pool, count); err != nil {
			return nil, err
		}
	}
	return total, nil
}

// Add counts operations of a pool at the pool and at all above it. Negative
// counts take them away again.
func (c Counts) Add(t Tree, pool scheduling.PoolName, count Count) error {
	path, err := t.Path(pool)
	if err != nil {
		return err
	}
	for _, name := range path {
		c[name] = c[name].Plus(count)
	}
	return nil
}

// LimitError says which limit of which pool an operation ran into. It wraps
// ErrTooManyOperations.
type LimitError struct {
	// Pool is the pool whose limit is reached: the one asked for, or one above it.
	Pool scheduling.PoolName
	// Limit is the value of the limit, and Now how many operations count against it.
	Limit, Now int64
	// Option is the setting of the pool that changes the limit; of the tree, when
	// Pool is scheduling.RootPool.
	Option string
}

// Error implements error.
func (e *LimitError) Error() string {
	if e.Pool == scheduling.RootPool {
		return fmt.Sprintf("pool tree: limit of %d operations reached (option %s of the tree), %d now", e.Limit, e.Option, e.Now)
	}
	return fmt.Sprintf("pool %q: limit of %d operations reached (option %s), %d now", e.Pool, e.Limit, e.Option, e.Now)
}

// Unwrap returns ErrTooManyOperations.
func (e *LimitError) Unwrap() error { return ErrTooManyOperations }

// AdmitStart returns nil when one more operation may start in the pool. It
// returns a *LimitError that names the nearest pool, upwards, that holds as many
// as it may, and ErrUnknownPool when there is no such pool (F.16). from is the pool
// that an operation comes from, or "": those that count it already have room for it,
// however many they hold. Place tells whether the pool takes operations of its own.
func (t Tree) AdmitStart(pool, from scheduling.PoolName, counts Counts) error {
	return t.admit(pool, from, func(name scheduling.PoolName, allowed, _ int64) *LimitError {
		return &LimitError{Pool: name, Limit: allowed, Now: counts[name].Operations, Option: "max_operation_count"}
	})
}

// AdmitRun returns nil when one more operation of the pool may run now. It
// returns a *LimitError that names the nearest pool, upwards, that runs as many
// as it may: the one for which the operation has to wait (F.16). from is the pool
// where an operation runs already, or "". Where operations are Lightweight they need
// not be asked for.
func (t Tree) AdmitRun(pool, from scheduling.PoolName, counts Counts) error {
	return t.admit(pool, from, func(name scheduling.PoolName, _, allowed int64) *LimitError {
		return &LimitError{Pool: name, Limit: allowed, Now: counts[name].Running, Option: "max_running_operation_count"}
	})
}

// admit compares a pool and all above it, up to those that are above from as well, with a limit:
// of those on how many operations a pool may hold and run.
func (t Tree) admit(pool, from scheduling.PoolName, limit func(name scheduling.PoolName, hold, run int64) *LimitError) error {
	var have []scheduling.PoolName
	if from != "" {
		var err error
		if have, err = t.Path(from); err != nil {
			return err
		}
	}
	path, err := t.Path(pool)
	for _, name := range path {
		if slices.Contains(have, name) {
			break
		}
		hold, run := t.settings.MaxOperationCount, t.settings.MaxRunningOperationCount
		if i, found := t.find(name); found {
			hold, run = t.pools[i].Options.operationCounts(t.settings)
		}
		if l := limit(name, hold, run); l.Now >= l.Limit {
			return l
		}
	}
	return err
}
