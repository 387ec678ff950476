package gateway

import "time"

// complainEvery is the minimum time between two log lines about refusals of the same code. Without
// it, a peer could cause any number of lines.
const complainEvery = 10 * time.Second

// complaints decides which refusals are logged. It is not safe for concurrent use.
type complaints struct {
	byCode map[string]*complaint
}

type complaint struct {
	logged time.Time
	// unlogged counts the refusals after the time `logged`.
	unlogged int
}

func newComplaints() *complaints { return &complaints{byCode: map[string]*complaint{}} }

// add reports whether to log a refusal, and how many refusals of its code were not logged since the
// last logged one.
func (c *complaints) add(now time.Time, code string) (tell bool, before int) {
	last, ok := c.byCode[code]
	if !ok {
		c.byCode[code] = &complaint{logged: now}
		return true, 0
	}
	if now.Sub(last.logged) < complainEvery {
		last.unlogged++
		return false, 0
	}
	before = last.unlogged
	*last = complaint{logged: now}
	return true, before
}
