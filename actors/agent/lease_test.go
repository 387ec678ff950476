package agent

import (
	"testing"
	"time"
)

// TestLease (T7): its times count from the boot of the machine.
func TestLease(t *testing.T) {
	var l Lease
	at := func(seconds float64) time.Duration { return time.Hour + time.Duration(seconds*float64(time.Second)) }
	if l.Holds(at(0)) || l.Lapse(at(0)) {
		t.Error("a node that never had a lease has one, or lost it")
	}
	if !l.Renew(at(1), 5*time.Second) || !l.Holds(at(5.9)) || l.Holds(at(6)) {
		t.Errorf("lease until %v, want 5s from when the heartbeat was sent", l.Until()-at(0))
	}
	if l.Renew(at(0.5), 50*time.Second) || l.Holds(at(6)) {
		t.Error("an older heartbeat renewed the lease")
	}
	if l.Lapse(at(5.9)) || !l.Lapse(at(6)) || l.Lapse(at(7)) {
		t.Error("the end of the lease is not told once")
	}
	if !l.Renew(at(8), 2*time.Second) || !l.Holds(at(9.9)) || !l.Lapse(at(10)) {
		t.Error("a lease of a new leader, which is shorter, does not count")
	}
}
