package pooltree

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/scheduling"
)

// ErrTooManyOperations is returned when a pool has reached its limit on operations or on running
// operations.
var ErrTooManyOperations = errors.New("too many operations")

// Count holds numbers of operations of a pool and of all pools below it.
type Count struct {
	// Operations is the number of operations that have not ended.
	Operations int64
	// Running is the number of operations that count against max_running_operation_count.
	Running int64
	// Waiting is the number of operations that could run if no limit of the pool or of a pool above
	// it were reached.
	Waiting int64
	// Bytes is what the records of operations that have not ended take.
	Bytes int64
}

// Plus returns c + other.
func (c Count) Plus(other Count) Count {
	return Count{c.Operations + other.Operations, c.Running + other.Running, c.Waiting + other.Waiting, c.Bytes + other.Bytes}
}

// Minus returns c - other.
func (c Count) Minus(other Count) Count {
	return Count{c.Operations - other.Operations, c.Running - other.Running, c.Waiting - other.Waiting, c.Bytes - other.Bytes}
}

// Counts holds, for each pool, the count of the pool and all pools below it. The count of
// scheduling.RootPool is that of the whole tree.
type Counts map[scheduling.PoolName]Count

// Total returns the counts of every pool including the pools below it. The parameter immediate
// holds the counts of each pool alone.
func (t Tree) Total(immediate map[scheduling.PoolName]Count) (Counts, error) {
	total := make(Counts, len(t.pools)+1)
	for pool, count := range immediate {
		if err := total.Add(t, pool, count); err != nil {
			return nil, err
		}
	}
	return total, nil
}

// Add adds the count to that of a pool and of all pools above it. The count may be
// negative. Counts of 0 are left out.
func (c Counts) Add(t Tree, pool scheduling.PoolName, count Count) error {
	path, err := t.Path(pool)
	if err != nil {
		return err
	}
	for _, name := range path {
		if c[name] = c[name].Plus(count); c[name] == (Count{}) {
			delete(c, name)
		}
	}
	return nil
}

// LimitError says which limit of which pool is reached. It wraps
// ErrTooManyOperations.
type LimitError struct {
	// Pool is the pool whose limit is reached: that of the operation, or one above it.
	Pool scheduling.PoolName
	// Limit is the value of the limit. Now is the number of operations that count against it.
	Limit, Now int64
	// Option is the name of the option that sets the limit: an option of the pool, or of the
	// tree if Pool is scheduling.RootPool.
	Option string
}

// Error implements error.
func (e *LimitError) Error() string {
	if e.Pool == scheduling.RootPool {
		return fmt.Sprintf("pool tree: limit of %d operations reached (option %s of the tree), %d now", e.Limit, e.Option, e.Now)
	}
	return fmt.Sprintf("pool %q: limit of %d operations reached (option %s), %d now", e.Pool, e.Limit, e.Option, e.Now)
}

// Raise returns the command that raises the limit in a tree to twice of what it is, and who may run
// it.
func (e *LimitError) Raise(tree scheduling.TreeName) string {
	most := max(2*e.Limit, e.Now+1)
	if e.Pool == scheduling.RootPool {
		return fmt.Sprintf("weir tree set %s %s=%d (operators)", tree, e.Option, most)
	}
	pool := string(e.Pool)
	if strings.Trim(pool, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@") != "" {
		pool = "'" + strings.ReplaceAll(pool, "'", `'\''`) + "'"
	}
	return fmt.Sprintf("weir pool set %s %s=%d --tree %s (operators, and those with the right administer on a pool above)", pool, e.Option, most, tree)
}

// Unwrap returns ErrTooManyOperations.
func (e *LimitError) Unwrap() error { return ErrTooManyOperations }

// AdmitStart returns nil if one more operation may start in the pool. Otherwise it returns a
// *LimitError that names the nearest pool, from this one upwards, whose limit is reached (F.16), or
// ErrUnknownPool if the tree does not have the pool. The parameter `from` is the pool that a moved
// operation leaves, or "": pools that already count the operation are not checked. Place checks
// whether the pool itself may hold operations.
func (t Tree) AdmitStart(pool, from scheduling.PoolName, counts Counts) error {
	return t.admit(pool, from, func(name scheduling.PoolName, allowed, _ int64) *LimitError {
		return &LimitError{Pool: name, Limit: allowed, Now: counts[name].Operations, Option: "max_operation_count"}
	})
}

// AdmitRun returns nil if one more operation of the pool may run now. Otherwise it returns a
// *LimitError that names the nearest pool, from this one upwards, whose limit is reached: the
// operation waits for that pool (F.16). The parameter `from` is the pool where the operation
// already runs, or "". Lightweight operations need no AdmitRun.
func (t Tree) AdmitRun(pool, from scheduling.PoolName, counts Counts) error {
	return t.admit(pool, from, func(name scheduling.PoolName, _, allowed int64) *LimitError {
		return &LimitError{Pool: name, Limit: allowed, Now: counts[name].Running, Option: "max_running_operation_count"}
	})
}

// admit checks a limit for a pool and the pools above it. The pool `from` and the pools above it
// are skipped. The function `limit` gets a pool's limits on all and on running operations, and
// returns the one to check.
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
