package agent

import (
	"testing"
	"time"
)

func TestLease(t *testing.T) {
	var l Lease
	if l.Holds(epoch) || l.Lapse(epoch) {
		t.Error("a node that never had a lease has one, or lost it")
	}
	at := func(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }
	if !l.Renew(at(1), 5*time.Second) || !l.Holds(at(5.9)) || l.Holds(at(6)) {
		t.Errorf("lease until %v, want 5s from when the heartbeat was sent", l.Until().Sub(epoch))
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
