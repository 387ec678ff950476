package clock

import (
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for story, test := range map[string]struct {
		voters  int
		offsets []time.Duration
		want    Verdict
		wantBy  time.Duration
	}{
		"the only voter":                         {1, nil, Agrees, 0},
		"two, the other silent":                  {2, nil, Unknown, 0},
		"two that agree":                         {2, []time.Duration{s}, Agrees, 0},
		"two that do not":                        {2, []time.Duration{s + 1}, Split, 0},
		"three, both silent":                     {3, nil, Unknown, 0},
		"three, one silent, one agrees":          {3, []time.Duration{-s}, Agrees, 0},
		"three, one silent, one does not":        {3, []time.Duration{month}, Split, 0},
		"three, one off":                         {3, []time.Duration{10 * ms, month}, Agrees, 0},
		"three, this one ahead":                  {3, []time.Duration{-month, -month + 200*ms}, Off, -month + 200*ms},
		"three, this one behind":                 {3, []time.Duration{month, month}, Off, month},
		"three that all differ":                  {3, []time.Duration{month, -month}, Split, 0},
		"three in a row":                         {3, []time.Duration{900 * ms, 1800 * ms}, Agrees, 0},
		"this one at the end of a row":           {3, []time.Duration{1100 * ms, 2000 * ms}, Off, 2000 * ms},
		"five, two off alike":                    {5, []time.Duration{0, 0, hour, hour}, Agrees, 0},
		"five, this one off, and another":        {5, []time.Duration{hour, hour + 2*ms, hour + 4*ms, -hour}, Off, hour + 2*ms},
		"five, this one off, one silent":         {5, []time.Duration{hour, hour, hour}, Off, hour},
		"five, two and two, one silent":          {5, []time.Duration{0, hour, hour}, Split, 0},
		"five, two against this one, two silent": {5, []time.Duration{hour, hour}, Split, 0},
	} {
		t.Run(story, func(t *testing.T) {
			if got, by := Judge(test.voters, test.offsets); got != test.want || by != test.wantBy {
				t.Errorf("got %v, %v; want %v, %v", got, by, test.want, test.wantBy)
			}
		})
	}
}

func TestHandover(t *testing.T) {
	well := Report{Well: []string{"r1", "r3"}}
	bad := Report{Off: month, Well: []string{"r1", "r3"}}
	var h Handover
	var boot time.Duration
	next := func(story string, leads bool, r Report, want string) {
		t.Helper()
		boot += Period
		if got := h.Next(boot, leads, r); got != want {
			t.Errorf("%s: got %q, want %q", story, got, want)
		}
	}
	repeat := func(n int, story string, leads bool, r Report) {
		t.Helper()
		for range n {
			next(story, leads, r, "")
		}
	}
	repeat(20, "its clock is right", true, well)
	repeat(20, "it does not lead", false, bad)
	repeat(20, "no other is well", true, Report{Off: month})
	repeat(20, "no majority agree", true, Report{Verdict: Split, Well: []string{"r1"}})
	repeat(int(badFor/Period), "for a moment", true, bad)
	next("set right", true, well, "")
	repeat(int(badFor/Period), "off", true, bad)
	next("off for longer", true, bad, "r1")
	repeat(int(retryAfter/Period)-1, "the others need a while", true, bad)
	next("it still leads", true, bad, "r1")
}
