package chaosrun

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/cmd/weir/internal/devcluster"
)

// TestUnaskedEnd looks at a member whose process has ended by what the run wants, and by what
// the record says by then.
func TestUnaskedEnd(t *testing.T) {
	ended, next := devcluster.Process{Boot: "this"}, devcluster.Process{Boot: "this"}
	ended.Pid, next.Pid = 1<<22+1, 1<<22+2
	for name, test := range map[string]struct {
		down   bool
		latest devcluster.Process
		want   bool
	}{
		"by itself":                             {false, ended, true},
		"killed, and down":                      {true, ended, false},
		"killed and replaced since it was seen": {false, next, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			data, err := json.Marshal(devcluster.Record{Members: []devcluster.Member{{Name: "r1", Process: ended}, {Name: "r2", Process: test.latest}}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(dir, "dev"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "dev", "cluster.json"), data, 0o600); err != nil {
				t.Fatal(err)
			}
			c := &runCluster{reach: &devcluster.Reach{Dir: dir}}
			if test.down {
				c.down.Store("r2", true)
			}
			if got, err := c.unasked(&devcluster.Member{Name: "r2", Process: ended}); err != nil || got != test.want {
				t.Errorf("unasked %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

// TestPace: only a run without simulated nodes has a lease of its own.
func TestPace(t *testing.T) {
	for simulated, want := range map[int]time.Duration{0: 3 * time.Second, 20: 5 * time.Second, 2000: 5 * time.Second, 10_000: 25 * time.Second} {
		if got := Pace(simulated); got.Lease != want || got.Heartbeat > got.Lease/5 {
			t.Errorf("%d simulated nodes: %v, want a lease of %v", simulated, got, want)
		}
	}
}
