package rolling

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/internal/devcluster"
)

func TestOrder(t *testing.T) {
	var members []devcluster.Member
	for _, name := range []string{"r1", "r2", "r3", "n1", "n2"} {
		kind := devcluster.Replica
		if name[0] == 'n' {
			kind = devcluster.Agent
		}
		members = append(members, devcluster.Member{Name: name, Kind: kind})
	}
	for leader, want := range map[string][]string{
		"r1": {"n1", "n2", "r2", "r3", "r1"},
		"r2": {"n1", "n2", "r1", "r3", "r2"},
	} {
		if got := order(members, leader); !slices.Equal(got, want) {
			t.Errorf("while %s leads: %v, want %v", leader, got, want)
		}
	}
}

func TestLongest(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(millis ...int) (times []time.Time) {
		for _, m := range millis {
			times = append(times, start.Add(time.Duration(m)*time.Millisecond))
		}
		return times
	}
	for name, test := range map[string]struct {
		times []time.Time
		from  int
		want  int
	}{
		"none":                              {nil, 0, 0},
		"one":                               {at(5), 0, 0},
		"all of them":                       {at(0, 10, 40, 45), 0, 30},
		"one that began before":             {at(0, 100, 130, 140), 110, 30},
		"those before are left out":         {at(0, 100, 130, 140), 130, 10},
		"nothing was acknowledged after it": {at(0, 100), 100, 0},
	} {
		if got := longest(test.times, start.Add(time.Duration(test.from)*time.Millisecond)); got != time.Duration(test.want)*time.Millisecond {
			t.Errorf("%s: %v, want %d ms", name, got, test.want)
		}
	}
}

// TestUpgradesOneByOne refuses to upgrade a cluster that another process upgrades.
func TestUpgradesOneByOne(t *testing.T) {
	u := Upgrade{Dir: t.TempDir()}
	file := devcluster.SettingsFile(u.Dir)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := devcluster.TryLock(file)
	if err != nil || other == nil {
		t.Fatal(other, err)
	}
	if err := u.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another weir dev upgrade") {
		t.Errorf("got %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := u.Run(t.Context()); err == nil || strings.Contains(err.Error(), "another weir dev upgrade") {
		t.Errorf("got %v, want that there is no cluster", err)
	}
}
