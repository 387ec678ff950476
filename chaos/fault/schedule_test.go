package fault

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func config() Config {
	return Config{Faults: 100, Seed: 1, Replicas: 3, Agents: 4, Lease: 3 * time.Second, Kinds: Kinds, Longest: 10 * time.Second}
}

func TestPlanFollowsItsSeed(t *testing.T) {
	first, err := Plan(config())
	if err != nil {
		t.Fatal(err)
	}
	second, _ := Plan(config())
	if !slices.Equal(first, second) {
		t.Error("one seed made two schedules")
	}
	other := config()
	other.Seed = 2
	if third, _ := Plan(other); slices.Equal(first, third) {
		t.Error("two seeds made one schedule")
	}
	if got := first[0].String(); !strings.HasPrefix(got, "  1  +") {
		t.Errorf("a line of the schedule: %q", got)
	}
}

// Whatever the seed: the rules about who may be impaired at once hold, nothing lasts
// longer than it may, and each kind is there.
func TestPlanKeepsTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := config()
		c.Seed = rapid.Uint64().Draw(t, "seed")
		c.Faults = rapid.IntRange(20, 60).Draw(t, "faults")
		c.Replicas = rapid.SampledFrom([]int{3, 5}).Draw(t, "replicas")
		c.Agents = rapid.IntRange(2, 6).Draw(t, "agents")
		c.Kinds = rapid.SampledFrom([][]Kind{{Kill}, {Late}, {Kill, Pause}, {Kill, Pause, Cut}, Kinds}).Draw(t, "kinds")
		faults, err := Plan(c)
		if err != nil {
			t.Fatal(err)
		}
		if len(faults) != c.Faults {
			t.Fatalf("%d faults, want %d", len(faults), c.Faults)
		}
		seen := make(map[Kind]bool)
		for i, f := range faults {
			seen[f.Kind] = true
			if f.Seq != i+1 || i > 0 && f.At < faults[i-1].At {
				t.Errorf("fault %d is not in order: %v", i+1, f)
			}
			if f.For < 0 || f.For > max(c.Longest, 3*c.Lease) {
				t.Errorf("it lasts too long: %v", f)
			}
			var active []Fault
			for _, b := range faults[:i] {
				if b.End() > f.At {
					active = append(active, b)
				}
			}
			if !c.MayBegin(f, active) {
				t.Errorf("%v may not begin with %v", f, active)
			}
		}
		for _, kind := range c.Kinds {
			if !seen[kind] {
				t.Errorf("no %s in %v", kind, faults)
			}
		}
	})
}

// Swaps are drawn before all else where they are possible, and change nothing where they are not.
func TestSwaps(t *testing.T) {
	c := config()
	c.Faults, c.Kinds = 5, Kinds
	faults, err := Plan(c)
	if err != nil {
		t.Fatal(err)
	}
	scopes := make(map[Scope]int)
	for _, f := range faults {
		if f.Kind != Swap {
			t.Errorf("%v before swaps", f)
		}
		scopes[f.Scope]++
	}
	if scopes[Leader] != 1 || scopes[Follower] != 2 || scopes[Agent] != 2 {
		t.Errorf("swaps by scope: %v", scopes)
	}
	c.Faults, c.Kinds = 100, []Kind{Kill, Pause, Cut, Late, Hang}
	if faults, err = Plan(c); err != nil || slices.ContainsFunc(faults, func(f Fault) bool { return f.Kind == Swap }) {
		t.Errorf("%v, %v: swaps where there is one build", faults, err)
	}
}

// A run of few faults has what makes it worth something: a leader is replaced, and a
// node's lease runs out.
func TestShortPlansAreNotVacuous(t *testing.T) {
	for seed := range uint64(50) {
		c := config()
		c.Seed, c.Faults = seed, 8
		faults, err := Plan(c)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(faults, func(f Fault) bool { return f.Kind == Kill && f.Scope == Leader }) {
			t.Errorf("seed %d: no leader is killed", seed)
		}
		if !slices.ContainsFunc(faults, func(f Fault) bool { return f.Scope == Agent && f.For > c.Lease+time.Second }) {
			t.Errorf("seed %d: no lease runs out", seed)
		}
	}
}

func TestFaultsOverlap(t *testing.T) {
	faults, err := Plan(config())
	if err != nil {
		t.Fatal(err)
	}
	overlaps := 0
	for i := 1; i < len(faults); i++ {
		if faults[i].At < faults[i-1].At+faults[i-1].For {
			overlaps++
		}
	}
	if overlaps < 10 {
		t.Errorf("%d of 100 faults begin while another lasts", overlaps)
	}
}

func TestMayBegin(t *testing.T) {
	one := func(scope Scope) Fault { return Fault{Kind: Kill, Scope: scope} }
	tests := map[string]struct {
		replicas int
		begins   Scope
		active   []Fault
		want     bool
	}{
		"alone":                                {3, Leader, nil, true},
		"a follower beside an agent":           {3, Follower, []Fault{one(Agent)}, true},
		"two replicas of three":                {3, Follower, []Fault{one(Leader)}, false},
		"two replicas of five":                 {5, Follower, []Fault{one(Leader)}, true},
		"three replicas of five":               {5, Link, []Fault{one(Leader), one(Follower)}, false},
		"all replicas":                         {3, Replicas, nil, true},
		"all replicas beside an agent":         {3, Replicas, []Fault{one(Agent)}, false},
		"an agent while all replicas are down": {3, Agent, []Fault{one(Replicas)}, false},
		"the last agent":                       {3, Agent, []Fault{one(Agent), one(Agent), one(Agent)}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := config()
			c.Replicas = test.replicas
			if got := c.MayBegin(one(test.begins), test.active); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"faults: 0":      func(c *Config) { c.Faults = 0 },
		"replicas: 1":    func(c *Config) { c.Replicas = 1 },
		"agents: 1":      func(c *Config) { c.Agents = 1 },
		"lease 0s":       func(c *Config) { c.Lease = 0 },
		"longest fault ": func(c *Config) { c.Longest = 0 },
		"kinds: none":    func(c *Config) { c.Kinds = nil },
	} {
		c := config()
		change(&c)
		if _, err := Plan(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What holds a leader back from an agent impairs both.
func TestLateImpairsTwo(t *testing.T) {
	late, agent := Fault{Kind: Late, Scope: Leader}, Fault{Kind: Kill, Scope: Agent}
	c := config()
	if !c.MayBegin(late, nil) || !c.MayBegin(late, []Fault{agent, agent}) {
		t.Error("it may not begin where a replica and an agent may be hit")
	}
	if c.MayBegin(late, []Fault{agent, agent, agent}) || c.MayBegin(late, []Fault{{Kind: Cut, Scope: Follower}}) {
		t.Error("it may begin where no agent, or no replica may be hit")
	}
}

func TestParseKind(t *testing.T) {
	for _, kind := range Kinds {
		if got, err := ParseKind(string(kind)); got != kind || err != nil {
			t.Errorf("%s: %q, %v", kind, got, err)
		}
	}
	if _, err := ParseKind("fire"); err == nil || !strings.Contains(err.Error(), `"fire": must be one of kill pause cut late hang swap`) {
		t.Errorf("a kind that is none: %v", err)
	}
}
