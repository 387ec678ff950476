package clock

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

const (
	hour  = time.Hour
	month = 30 * 24 * hour
)

// machine has a wall clock and a boot clock that a test moves.
type machine struct {
	wall time.Time
	boot time.Duration
	// stall is how long the process is stopped between two reads.
	stall time.Duration
}

func (m *machine) pass(d time.Duration) { m.wall, m.boot = m.wall.Add(d), m.boot+d }

func (m *machine) clock() *Clock {
	return newClock(func() time.Time {
		now := m.wall
		m.pass(m.stall)
		return now
	}, func() time.Duration { return m.boot })
}

func (m *machine) settled() *Clock {
	c := m.clock()
	c.Look(nil)
	return c
}

func wantTime(t *testing.T, story string, c *Clock, want time.Time) {
	t.Helper()
	if got := c.Now(); !got.Equal(want) {
		t.Errorf("%s: it is %v, want %v (%v off)", story, got, want, got.Sub(want))
	}
}

// TestWallClock (T7): a replica alone follows its wall clock, but no jump.
func TestWallClock(t *testing.T) {
	m := &machine{wall: noon, boot: hour}
	c := m.settled()
	wantTime(t, "at first", c, noon)
	m.pass(hour)
	wantTime(t, "an hour later, suspended or not", c, noon.Add(hour))
	m.wall = m.wall.Add(900 * time.Millisecond)
	wantTime(t, "a small correction", c, noon.Add(hour+900*time.Millisecond))
	m.wall = m.wall.Add(-900 * time.Millisecond)
	wantTime(t, "and back: it stands still", c, noon.Add(hour+900*time.Millisecond))
	m.pass(hour)
	wantTime(t, "and goes on", c, noon.Add(2*hour))

	m.wall = m.wall.Add(month)
	wantTime(t, "a jump", c, noon.Add(2*hour))
	if got, want := c.Look(nil).Trouble("r2"), "clock of r2 jumped 30d: it ignores the jump, and lets another lead; set the clock of its machine, or restart the replica if the new time is right"; got != want {
		t.Errorf("told: %q, want %q", got, want)
	}
	if _, well := c.Own(); well {
		t.Error("the others are told that its clock is right")
	}
	m.pass(hour)
	wantTime(t, "an hour after the jump", c, noon.Add(3*hour))
	m.wall = m.wall.Add(-month)
	wantTime(t, "set right again", c, noon.Add(3*hour))
	if got := c.Look(nil).Trouble("r2"); got != "" {
		t.Errorf("told: %q", got)
	}
	m.wall = m.wall.Add(-hour)
	if got := c.Look(nil).Trouble("r2"); got[:len("clock of r2 jumped 1h0m0s back:")] != "clock of r2 jumped 1h0m0s back:" {
		t.Errorf("told: %q", got)
	}
	m.wall = m.wall.Add(hour)
	m.stall = hour
	c.Look(nil)
	m.stall = 0
	wantTime(t, "stopped while it reads the clocks", c, noon.Add(4*hour))
}

// TestTimeOfTheState (T7): until the clock is compared, and while the state is ahead, the state's time goes on.
func TestTimeOfTheState(t *testing.T) {
	m := &machine{wall: noon.Add(month), boot: hour}
	c := m.clock()
	wantTime(t, "a new cluster", c, noon.Add(month))
	c.Applied(noon)
	wantTime(t, "not compared", c, noon)
	m.pass(time.Minute)
	wantTime(t, "a minute later", c, noon.Add(time.Minute))
	c.Applied(noon.Add(time.Second))
	wantTime(t, "an entry that was written earlier", c, noon.Add(time.Minute).Add(-time.Minute+time.Second))
	c.Look(nil)
	wantTime(t, "the cluster was down", c, noon.Add(month+time.Minute))

	c.Applied(noon.Add(2 * month))
	wantTime(t, "the state is ahead", c, noon.Add(2*month))
	m.pass(100 * time.Second)
	wantTime(t, "it goes on slower", c, noon.Add(2*month+99*time.Second))
	m.pass(100 * month)
	wantTime(t, "until the clock has caught up", c, noon.Add(101*month+time.Minute+100*time.Second))
}

// group is replicas that tell each other their times.
type group struct {
	machines []*machine
	clocks   []*Clock
}

var names = []string{"r1", "r2", "r3", "r4", "r5"}

func groupOf(off ...time.Duration) *group {
	g := &group{}
	for i, d := range off {
		m := &machine{wall: noon.Add(d), boot: time.Duration(i) * month}
		g.machines, g.clocks = append(g.machines, m), append(g.clocks, m.clock())
	}
	return g
}

// seconds passes with a look of each replica every second; messages to silent ones are lost.
func (g *group) seconds(n int, silent ...int) {
	for range n {
		for _, m := range g.machines {
			m.pass(time.Second)
		}
		for from := range g.clocks {
			at, well := g.clocks[from].Own()
			for to := range g.clocks {
				if from != to && !slices.Contains(silent, from) && !slices.Contains(silent, to) {
					g.clocks[to].Hear(names[from], at, well)
				}
			}
		}
		for i, c := range g.clocks {
			c.Look(slices.Delete(slices.Clone(names[:len(g.clocks)]), i, i+1))
		}
	}
}

// TestWrongSinceTheStart (T7): a replica that starts with a wrong clock goes on with the time of the others.
func TestWrongSinceTheStart(t *testing.T) {
	g := groupOf(0, month, 500*time.Millisecond)
	g.clocks[1].Applied(noon.Add(-time.Minute))
	g.seconds(1)
	wantTime(t, "r2 before it is corrected", g.clocks[1], noon.Add(-time.Minute+time.Second))
	g.seconds(9)
	for i, c := range g.clocks {
		if off := c.Now().Sub(noon.Add(10 * time.Second)); off.Abs() > Tolerance {
			t.Errorf("%s is %v off", names[i], off)
		}
		want := ""
		if i == 1 {
			want = "clock of r2 is 30d ahead of the clocks of a majority of the replicas: it uses their time, and lets another lead; set the clock of its machine"
		}
		r := c.Report()
		if got := r.Trouble(names[i]); got != want || r.Verdict != Agrees {
			t.Errorf("%s: %q, verdict %v; want %q", names[i], got, r.Verdict, want)
		}
		if slices.Contains(r.Well, "r2") {
			t.Errorf("%s takes r2 for well", names[i])
		}
	}
	// Its machine's clock is set right, and then goes behind.
	g.machines[1].wall = g.machines[1].wall.Add(-month)
	g.seconds(2)
	if got := g.clocks[1].Report().Trouble("r2"); got != "" {
		t.Errorf("r2 with the right clock: %q", got)
	}
	if g := groupOf(0, -hour, 0); true {
		g.seconds(10)
		want := "clock of r2 is 1h0m0s behind the clocks of a majority"
		if got := g.clocks[1].Report().Trouble("r2"); got[:len(want)] != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
}

// TestNoMajority (T7): of two clocks nobody knows which is right. Both tell, and the state's time goes on.
func TestNoMajority(t *testing.T) {
	g := groupOf(0, month)
	for _, c := range g.clocks {
		c.Applied(noon.Add(-hour))
	}
	g.seconds(60)
	for i, c := range g.clocks {
		wantTime(t, names[i], c, noon.Add(-hour+time.Minute))
		want := "clock of " + names[i] + " differs from those of other replicas, and no majority of them agree: check the clocks of all machines"
		if got := c.Report().Trouble(names[i]); got != want {
			t.Errorf("%s: %q, want %q", names[i], got, want)
		}
	}
	g = groupOf(0, month)
	g.seconds(20)
	wantTime(t, "a new cluster of two", g.clocks[1], noon.Add(month+20*time.Second))
}

// TestNobodyTells: a replica that hears nobody believes its clock after a while.
func TestNobodyTells(t *testing.T) {
	g := groupOf(0, 0, 0)
	g.clocks[0].Applied(noon.Add(-hour))
	const seconds = int(patience / time.Second)
	g.seconds(seconds, 0, 1, 2)
	wantTime(t, "at first", g.clocks[0], noon.Add(-hour+patience))
	g.seconds(1, 0, 1, 2)
	wantTime(t, "later", g.clocks[0], noon.Add(patience+time.Second))
	select {
	case <-g.clocks[0].Compared():
	default:
		t.Error("it waits for ever")
	}
}

// TestStoppedReplica: a process that was stopped reads late what the others have told, and is not misled.
func TestStoppedReplica(t *testing.T) {
	g := groupOf(0, 0, 0)
	g.seconds(20)
	var late []time.Time
	for range keptTimes {
		at, _ := g.clocks[1].Own()
		late = append(late, at)
	}
	for _, m := range g.machines {
		m.pass(hour)
	}
	for _, at := range late {
		g.clocks[0].Hear("r2", at, true)
		g.clocks[0].Hear("r3", at, true)
	}
	others := []string{"r2", "r3"}
	if r := g.clocks[0].Look(others); r.Verdict != Off || r.By != 0 {
		t.Errorf("got %+v, want it in doubt and not corrected", r)
	}
	g.seconds(1)
	if r := g.clocks[0].Report(); r.Verdict != Agrees {
		t.Errorf("a second later: %+v", r)
	}
	wantTime(t, "afterwards", g.clocks[0], noon.Add(hour+21*time.Second))
}

// TestClockProperties: whatever the wall clocks of a minority do, the time of no replica goes back, and
// that of each is right once it was compared.
func TestClockProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{3, 5}).Draw(t, "replicas")
		wrong := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 0, (n-1)/2, rapid.ID[int]).Draw(t, "wrong")
		offs := make([]time.Duration, n)
		drift := rapid.Custom(func(t *rapid.T) time.Duration {
			return rapid.SampledFrom([]time.Duration{-month, -hour, -2 * time.Second, 2 * time.Second, hour, month}).Draw(t, "jump")
		})
		for _, i := range wrong {
			offs[i] = drift.Draw(t, "at the start")
		}
		g := groupOf(offs...)
		for _, c := range g.clocks {
			c.Applied(noon)
		}
		latest := make([]time.Time, n)
		for second := range 40 {
			if len(wrong) > 0 && rapid.IntRange(0, 5).Draw(t, "jumps") == 0 {
				i := rapid.SampledFrom(wrong).Draw(t, "which")
				g.machines[i].wall = g.machines[i].wall.Add(drift.Draw(t, "by"))
			}
			g.seconds(1)
			for i, c := range g.clocks {
				now := c.Now()
				if now.Before(latest[i]) {
					t.Fatalf("second %d: %s went back from %v to %v", second, names[i], latest[i], now)
				}
				latest[i] = now
				if off := now.Sub(noon.Add(time.Duration(second+1) * time.Second)); off.Abs() > 2*Tolerance {
					t.Fatalf("second %d: %s is %v off", second, names[i], off)
				}
			}
		}
	})
}
