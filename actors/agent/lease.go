package agent

import "time"

// Lease is how long a node may go on without its leader. The zero value is no
// lease. All times are on the agent's monotonic clock.
type Lease struct {
	sent, until time.Time
	// lapsed: Lapse has told that the lease ran out.
	lapsed bool
}

// Renew takes the leader's answer to what the agent sent at sent: from then on
// the lease runs. It returns false for an answer to something older, which
// changes nothing.
func (l *Lease) Renew(sent time.Time, length time.Duration) bool {
	if !sent.After(l.sent) {
		return false
	}
	*l = Lease{sent: sent, until: sent.Add(length)}
	return true
}

// Until is when the lease runs out.
func (l *Lease) Until() time.Time { return l.until }

// Holds reports whether the node may run jobs.
func (l *Lease) Holds(now time.Time) bool { return now.Before(l.until) }

// Lapse reports once that the lease has run out.
func (l *Lease) Lapse(now time.Time) bool {
	if l.sent.IsZero() || l.lapsed || l.Holds(now) {
		return false
	}
	l.lapsed = true
	return true
}

// longest bounds what a message may say of time: beyond it nobody waits.
const longest = 24 * time.Hour

// millis reads a length of time from a message.
func millis(n int64) time.Duration {
	return time.Duration(max(0, min(n, longest.Milliseconds()))) * time.Millisecond
}
