package lifecycle

import (
	"errors"
	"fmt"
)

// ErrNoSuchJob is returned when a count would become negative: no job is in the state from which
// the transition starts.
var ErrNoSuchJob = errors.New("no job in this state")

// Counters counts the jobs of a task.
//
// Cookies are the work to do, attempts are the tries. At every moment each cookie is in exactly
// one of four states:
//
//	Total == Pending + Running + Completed + GivenUp
//
// Failed, Aborted and Restarted count attempts; they only grow. Such an attempt returns its cookie
// to Pending, unless the cookie is skipped or given up.
type Counters struct {
	// Total is the number of cookies.
	Total int64
	// Pending cookies wait for an allocation.
	Pending int64
	// Running cookies have an allocation, whether or not its process runs yet.
	Running int64
	// Completed cookies are done.
	Completed int64
	// Failed counts attempts that exited by themselves, unsuccessfully.
	Failed int64
	// Aborted counts attempts that the system or a user ended.
	Aborted int64
	// Restarted counts attempts that succeeded in a task that never completes.
	Restarted int64
	// GivenUp cookies have failed as often as allowed.
	GivenUp int64
}

// Start moves a cookie from pending to running.
func (c *Counters) Start() error { return c.move("start job", &c.Pending, &c.Running, nil) }

// Complete moves a cookie from running to completed.
func (c *Counters) Complete() error { return c.move("complete job", &c.Running, &c.Completed, nil) }

// Fail counts a failed attempt and moves its cookie from running to pending.
func (c *Counters) Fail() error { return c.move("fail job", &c.Running, &c.Pending, &c.Failed) }

// Abort counts an aborted attempt and moves its cookie from running to pending.
func (c *Counters) Abort() error { return c.move("abort job", &c.Running, &c.Pending, &c.Aborted) }

// Restart counts an attempt that succeeded in a task that restarts completed jobs, and moves its
// cookie from running to pending.
func (c *Counters) Restart() error {
	return c.move("restart job", &c.Running, &c.Pending, &c.Restarted)
}

// Skip counts a failed attempt and moves its cookie from running to completed: the input that it
// failed on is left out.
func (c *Counters) Skip() error { return c.move("skip job", &c.Running, &c.Completed, &c.Failed) }

// GiveUp counts a failed attempt and moves its cookie from running to given up: it was the last
// attempt.
func (c *Counters) GiveUp() error { return c.move("give job up", &c.Running, &c.GivenUp, &c.Failed) }

// TakeBack moves a cookie from running to pending: its job was never started.
func (c *Counters) TakeBack() error { return c.move("take job back", &c.Running, &c.Pending, nil) }

// Reopen moves a cookie from completed to pending: its result is no longer usable.
func (c *Counters) Reopen() error { return c.move("reopen job", &c.Completed, &c.Pending, nil) }

// Grow adds a pending cookie.
func (c *Counters) Grow() error {
	c.Total++
	c.Pending++
	return nil
}

// Check returns an error that shows the counters if a count is negative, or if a cookie is missing
// or counted twice.
func (c Counters) Check() error {
	negative := min(c.Total, c.Pending, c.Running, c.Completed, c.Failed, c.Aborted, c.Restarted, c.GivenUp) < 0
	if negative || c.Total != c.Pending+c.Running+c.Completed+c.GivenUp {
		return fmt.Errorf("job counters %+v: total is not pending + running + completed + given up, or a count is negative", c)
	}
	return nil
}

func (c *Counters) move(step string, from, to, count *int64) error {
	if *from <= 0 {
		return fmt.Errorf("%s: %w: %+v", step, ErrNoSuchJob, *c)
	}
	*from--
	*to++
	if count != nil {
		*count++
	}
	return nil
}
