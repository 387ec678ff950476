package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/actors/agent/runner/proxyproto"
	"weir/cluster/clock"
)

// TestRenewal says how long a lease is when something is read about it.
func TestRenewal(t *testing.T) {
	now := clock.Boot().Milliseconds()
	const hour, minute = int64(3_600_000), int64(60_000)
	tests := map[string]struct {
		over  bool
		renew proxyproto.Renew
		// want is what is left, in milliseconds.
		want int64
	}{
		"the end is said":                            {renew: proxyproto.Renew{LeaseMillis: hour, EndMillis: now + minute}, want: minute},
		"the end is later than so much from now":     {renew: proxyproto.Renew{LeaseMillis: minute, EndMillis: now + hour}, want: minute},
		"it has waited beyond its end":               {renew: proxyproto.Renew{LeaseMillis: hour, EndMillis: now - minute}, want: -minute},
		"an older agent says no end":                 {renew: proxyproto.Renew{LeaseMillis: minute}, want: minute},
		"no end is said of a lease that is over":     {over: true, renew: proxyproto.Renew{LeaseMillis: hour}, want: -hour},
		"a lease that is over goes on to a said end": {over: true, renew: proxyproto.Renew{LeaseMillis: hour, EndMillis: now + minute}, want: minute},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSupervisor(t.TempDir(), &proxyproto.Spec{JobID: "job", LeaseMillis: 2 * hour}, outside{}, nil, nil)
			if test.over {
				s.lease.set(clock.Boot(), -time.Hour)
			}
			before := clock.Boot()
			s.lease.renew(test.renew)
			want := before + time.Duration(test.want)*time.Millisecond
			if late := s.lease.end - want; late < -patience/4 || late > patience/4 {
				t.Errorf("it ends %v from now, want %v", s.lease.end-before, time.Duration(test.want)*time.Millisecond)
			}
			if test.want < 0 {
				<-s.lease.over
				return
			}
			select {
			case <-s.lease.over:
				if test.over {
					break
				}
				t.Error("the lease is over")
			default:
			}
		})
	}
}

// TestSharedLease follows the end that the agent shares, until the agent has gone.
func TestSharedLease(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "lease"))
	if err != nil {
		t.Fatal(err)
	}
	share := func(end time.Duration) {
		data := binary.NativeEndian.AppendUint64(nil, uint64(end))
		if _, err := file.WriteAt(data, 0); err != nil {
			t.Fatal(err)
		}
	}
	s := newSupervisor(t.TempDir(), &proxyproto.Spec{JobID: "job", LeaseMillis: time.Hour.Milliseconds()}, outside{}, nil, nil)
	empty, err := os.Create(filepath.Join(t.TempDir(), "empty"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.lease.share(empty); err == nil || s.lease.shared != nil {
		t.Error("shared by a file that has no end")
	}
	first, second := clock.Boot()+time.Hour, clock.Boot()+2*time.Hour
	share(first)
	held, err := os.Open(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.lease.share(held); err != nil {
		t.Fatal(err)
	}
	for _, want := range []time.Duration{first, second} {
		share(want)
		s.lease.set(clock.Boot(), -time.Minute)
		<-s.lease.over
		if s.leaseOver(); s.lease.end != want || s.endingAll {
			t.Errorf("the lease ends at %v, want %v; the job is ended: %v", s.lease.end, want, s.endingAll)
		}
	}
	share(0)
	if s.lease.follow(); s.lease.end != second {
		t.Errorf("by an agent that shares none, a lease that ended at %v ends at %v", second, s.lease.end)
	}
	share(first)
	if s.lease.follow(); s.lease.end != first {
		t.Errorf("a lease that now ends at %v ends at %v", first, s.lease.end)
	}
	_, socket := socketPair(t)
	_, former := socketPair(t)
	s.agent = newConnection(socket)
	s.serve(request{from: newConnection(former), closed: true})
	share(second + 1)
	if s.lease.follow(); s.lease.end != second+1 {
		t.Errorf("after the end of a former connection the lease ends at %v, want %v", s.lease.end, second+1)
	}
	s.serve(request{from: s.agent, closed: true})
	share(second + 2)
	if s.lease.follow(); s.lease.end != second+1 {
		t.Errorf("without an agent the lease ends at %v, want %v", s.lease.end, second+1)
	}
}

// TestRenewedLeaseGoesOn though one that is over was read before: which of the two the proxy
// looks at first is chance.
func TestRenewedLeaseGoesOn(t *testing.T) {
	a := startProxy(t, "sleep 1000", time.Hour).connect(t)
	a.hear(t, "started")
	for range 100 {
		a.say(t, `{"renew":{"lease_millis":3600000,"end_millis":1}}`+"\n"+
			fmt.Sprintf(`{"renew":{"lease_millis":3600000,"end_millis":%d}}`, (clock.Boot()+time.Hour).Milliseconds()))
	}
	a.settled(t)
	a.say(t, `{"stop":{"reason":"enough","grace_millis":0}}`)
	if result := a.hear(t, "exited").Exited; result.Outcome != proxyproto.OutcomeStopped {
		t.Errorf("result %+v, want it to run until it is stopped", result)
	}
}

// TestLeaseThatIsOver ends the job, whatever it is told that says no end.
func TestLeaseThatIsOver(t *testing.T) {
	const over, endless = `{"renew":{"lease_millis":3600000,"end_millis":1}}`, `{"renew":{"lease_millis":3600000}}`
	for name, said := range map[string]string{"read late": over, "an older agent renews it": over + "\n" + endless} {
		t.Run(name, func(t *testing.T) {
			a := startProxy(t, "sleep 1000", time.Hour).connect(t)
			a.hear(t, "started")
			a.say(t, said)
			if result := a.hear(t, "exited").Exited; result.Outcome != proxyproto.OutcomeLeaseExpired {
				t.Errorf("result %+v, want the lease expired", result)
			}
		})
	}
}

// TestLeaseCountsTheBootClock (T7): a lease ends by the boot clock, which goes on while the machine is
// suspended. The proxy runs where this clock alone is two hours ahead, as after a suspend.
func TestLeaseCountsTheBootClock(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("no program unshare: ", err)
	}
	shifted := []string{unshare, "--time", "--boottime", "7200"}
	if os.Geteuid() != 0 {
		shifted = append(shifted, "--user", "--map-root-user")
	}
	if out, err := exec.Command(shifted[0], append(shifted[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no time namespace here: %v: %s", err, out)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "proxy")
	script := fmt.Sprintf("#!/bin/sh\nexec %s '%s' \"$@\"\n", strings.Join(shifted, " "), executable)
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(programVariable, program)
	start := func(left time.Duration) agent {
		return startProxy(t, "sleep 1000", 10*time.Hour, func(s *proxyproto.Spec) { s.LeaseEndMillis = (clock.Boot() + left).Milliseconds() }).connect(t)
	}
	if result := start(time.Hour).hear(t, "exited").Exited; result.Outcome != proxyproto.OutcomeLeaseExpired {
		t.Errorf("a lease of one hour: %+v, want it expired", result)
	}
	a := start(3 * time.Hour)
	a.hear(t, "started")
	a.say(t, `{"stop":{"reason":"enough","grace_millis":0}}`)
	if result := a.hear(t, "exited").Exited; result.Outcome != proxyproto.OutcomeStopped {
		t.Errorf("a lease of three hours: %+v, want it to run until it is stopped", result)
	}
}
