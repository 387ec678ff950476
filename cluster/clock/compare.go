package clock

import (
	"fmt"
	"slices"
	"time"
)

const (
	// Period is the time between two looks.
	Period = time.Second
	// heardWithin is how long what a replica has told counts.
	heardWithin = 10 * Period
	// keptTimes is how many of a replica's latest times are kept.
	keptTimes = 5
	// doubt is for how long the clock has to be off before it is corrected. A process that was
	// stopped reads late what others have told before, and finds them behind.
	doubt = (keptTimes + 1) * Period
	// patience is how long a replica waits for an agreement of the clocks.
	patience = 10 * Period
)

// Verdict is what a replica finds when it compares its clock with those of the other voters.
type Verdict int

// The verdicts.
const (
	// Unknown: too few have told their time.
	Unknown Verdict = iota
	// Agrees: the clock is one of a majority that agree.
	Agrees
	// Off: a majority agree with each other, but not with this clock.
	Off
	// Split: a majority have told their time, but no majority agree.
	Split
)

// Judge compares a clock with those of others. The offsets are how far the others are ahead of it.
// The number of voters includes all, also those that have told nothing. If the clock is off, `by` is
// how far the median of the majority is ahead of it.
func Judge(voters int, offsets []time.Duration) (verdict Verdict, by time.Duration) {
	all := slices.Sorted(slices.Values(append([]time.Duration{0}, offsets...)))
	majority := voters/2 + 1
	if len(all) < majority {
		return Unknown, 0
	}
	verdict = Split
	for i := range all {
		alike := all[i:]
		if end := slices.IndexFunc(alike, func(o time.Duration) bool { return o-all[i] > Tolerance }); end >= 0 {
			alike = alike[:end]
		}
		if len(alike) < majority {
			continue
		}
		if slices.Contains(alike, 0) {
			return Agrees, 0
		}
		verdict, by = Off, alike[len(alike)/2]
	}
	return verdict, by
}

// peer is what another replica has told of its time.
type peer struct {
	// zeros are the replica's time when this machine booted, as it follows from its latest messages.
	zeros []time.Time
	heard time.Duration
	well  bool
}

func (p *peer) hear(at time.Time, boot time.Duration, well bool) {
	p.zeros = append(p.zeros, at.Add(-boot))
	if more := len(p.zeros) - keptTimes; more > 0 {
		p.zeros = p.zeros[more:]
	}
	p.heard, p.well = boot, well
}

func (p *peer) fresh(boot time.Duration) bool { return boot-p.heard <= heardWithin }

// zero is the latest of the zeros. Messages arrive late, never early.
func (p *peer) zero() time.Time { return slices.MaxFunc(p.zeros, time.Time.Compare) }

// since remembers since when something holds, in time since the boot.
type since struct {
	holds bool
	at    time.Duration
}

// lasts reports whether it holds now, at the time `boot`, and has held for at least a time.
func (s *since) lasts(boot time.Duration, holds bool, least time.Duration) bool {
	if holds && !s.holds {
		s.at = boot
	}
	s.holds = holds
	return holds && boot-s.at >= least
}

// Report is what a replica knows of its clock.
type Report struct {
	// Off is how far the clock of the machine is ahead of the replica's time; 0 within Tolerance.
	Off time.Duration
	// Corrected means that it is off because the others' clocks differ, not because it has jumped.
	Corrected bool
	// By is by how much the replica's time was corrected at this look.
	By time.Duration
	// Verdict is that of the comparison with the other voters.
	Verdict Verdict
	// Well are the other voters that were heard and whose machines have the right time.
	Well []string
}

// Trouble describes what is wrong with the clock of a replica; "" if nothing is.
func (r Report) Trouble(replica string) string {
	switch {
	case r.Off != 0 && r.Corrected:
		return fmt.Sprintf("clock of %s is %s the clocks of a majority of the replicas: it uses their time, and lets another lead; set the clock of its machine", replica, ahead(r.Off))
	case r.Off != 0:
		return fmt.Sprintf("clock of %s jumped %s: it ignores the jump, and lets another lead; set the clock of its machine, or restart the replica if the new time is right",
			replica, distance(r.Off))
	case r.Verdict == Split:
		return fmt.Sprintf("clock of %s differs from those of other replicas, and no majority of them agree: check the clocks of all machines", replica)
	}
	return ""
}

func ahead(d time.Duration) string {
	if d < 0 {
		return distance(-d) + " behind"
	}
	return distance(d) + " ahead of"
}

// distance writes a difference between clocks: 30d, 1h0m0s, 2d back.
func distance(d time.Duration) string {
	const day = 24 * time.Hour
	text := d.Abs().Round(time.Second).String()
	if d.Abs() >= 2*day {
		text = fmt.Sprintf("%dd", d.Abs().Round(day)/day)
	}
	if d < 0 {
		text += " back"
	}
	return text
}

// Handover decides when a leader lets another replica lead because of its clock. It waits, so that
// a clock that is set right again changes nothing, and repeats rarely.
type Handover struct {
	bad since
	// wait is how long the clock has to be off now.
	wait time.Duration
}

const (
	// badFor is how long a leader's clock has to be off before it hands over.
	badFor = 3 * Period
	// retryAfter is when a leader tries again.
	retryAfter = 10 * Period
)

// Next returns the replica that leads instead, after a look at the time `boot` since the boot; "" if
// leadership stays.
func (h *Handover) Next(boot time.Duration, leads bool, r Report) (to string) {
	bad := leads && r.Off != 0 && len(r.Well) > 0
	if !bad || !h.bad.holds {
		h.wait = badFor
	}
	if !h.bad.lasts(boot, bad, h.wait) {
		return ""
	}
	h.bad.at, h.wait = boot, retryAfter
	return r.Well[0]
}
