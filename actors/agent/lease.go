package agent

import "time"

// Lease is how long a node may run jobs without hearing from a leader. The zero value is no
// lease. All times count from the boot of the machine, so that a lease also runs out while the
// machine is suspended.
type Lease struct {
	sent, until time.Duration
	// lapsed: Lapse has reported the expiry.
	lapsed bool
}

// Renew renews the lease by the leader's answer to a message that was sent at the time `sent`. The
// lease begins at that time. Renew returns false, and changes nothing, for the answer to an older
// message.
func (l *Lease) Renew(sent, length time.Duration) bool {
	if sent <= l.sent {
		return false
	}
	*l = Lease{sent: sent, until: sent + length}
	return true
}

// Until is when the lease runs out.
func (l *Lease) Until() time.Duration { return l.until }

// Holds reports whether the node may run jobs.
func (l *Lease) Holds(now time.Duration) bool { return now < l.until }

// Lapse reports once that the lease has run out.
func (l *Lease) Lapse(now time.Duration) bool {
	if l.sent == 0 || l.lapsed || l.Holds(now) {
		return false
	}
	l.lapsed = true
	return true
}

// longest bounds the durations in messages.
const longest = 24 * time.Hour

// millis reads a duration from a message.
func millis(n int64) time.Duration {
	return time.Duration(max(0, min(n, longest.Milliseconds()))) * time.Millisecond
}
