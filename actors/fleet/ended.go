package fleet

import "time"

// remembered is how long a node remembers at least that a job has ended. A delayed plan, which may
// still order its start, is seconds old at most: a call that takes longer than its AskTimeout has failed.
const remembered = time.Minute

// ended is a set of jobs that have ended. It forgets each after one to two times remembered, because a
// fleet may run for days and end thousands of jobs a second.
type ended struct {
	// recent are the jobs since the time began, earlier those of the time before it.
	recent, earlier map[string]bool
	began           time.Time
}

// add adds a job that has ended now.
func (e *ended) add(job string, now time.Time) {
	switch age := now.Sub(e.began); {
	case age >= 2*remembered:
		e.recent, e.earlier, e.began = map[string]bool{}, nil, now
	case age >= remembered:
		e.recent, e.earlier, e.began = map[string]bool{}, e.recent, now
	}
	e.recent[job] = true
}

// has reports whether a job is known to have ended.
func (e *ended) has(job string) bool { return e.recent[job] || e.earlier[job] }
