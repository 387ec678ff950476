package chaos

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// target is something to ask about.
type target struct{ operation, job, pool string }

// targets are the latest operations and jobs of clients, which may be running.
type targets struct {
	mu               sync.Mutex
	operations, jobs []target
}

// latest is how many targets of a kind are kept.
const latest = 12

func (t *targets) add(operation, pool string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.operations = append(t.operations[max(0, len(t.operations)-latest+1):], target{operation: operation, pool: pool})
}

// addJob adds a job of an operation that is a target.
func (t *targets) addJob(job, operation string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.operations {
		if o.operation == operation {
			t.jobs = append(t.jobs[max(0, len(t.jobs)-latest+1):], target{operation: operation, job: job, pool: o.pool})
		}
	}
}

// pick returns an operation or a job, of a pool unless it is "". It returns false if there is none.
func (t *targets) pick(random *rand.Rand, job bool, pool string) (target, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := t.operations
	if job {
		from = t.jobs
	}
	from = slices.DeleteFunc(slices.Clone(from), func(one target) bool { return pool != "" && one.pool != pool })
	if len(from) == 0 {
		return target{}, false
	}
	return from[random.IntN(len(from))], true
}
