package cluster

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/scheduling"
)

var drawReplicas = rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9-]{1,12}`), 1, 9, rapid.ID[string])

func TestOnlyKeysOfTheDeadMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		live := drawReplicas.Draw(t, "live")
		dead := rapid.SampledFrom(live).Draw(t, "dead")
		rest := slices.DeleteFunc(slices.Clone(live), func(id string) bool { return id == dead })
		for _, key := range rapid.SliceOfN(rapid.String(), 1, 50).Draw(t, "keys") {
			before, after := Assign(key, live), Assign(key, rest)
			if before != dead && after != before {
				t.Fatalf("key %q moved from %s to %s when %s died", key, before, after, dead)
			}
			if len(rest) > 0 && !slices.Contains(rest, after) || len(rest) == 0 && after != "" {
				t.Fatalf("key %q belongs to %q of %v", key, after, rest)
			}
		}
	})
}

func TestAssignDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		live := drawReplicas.Draw(t, "live")
		key := rapid.String().Draw(t, "key")
		other := rapid.Permutation(live).Draw(t, "other")
		if a, b := Assign(key, live), Assign(key, other); a != b {
			t.Fatalf("key %q belongs to %s of %v and to %s of %v", key, a, live, b, other)
		}
	})
}

func TestAssignSpreadsEvenly(t *testing.T) {
	// Names alike as names are: an uneven hash would show.
	live := []scheduling.ReplicaID{"replica-1", "replica-2", "replica-3", "replica-4", "replica-5"}
	const keys = 10000
	count := make(map[scheduling.ReplicaID]int)
	for i := range keys {
		count[Assign(fmt.Sprintf("operation-%06d", i), live)]++
	}
	fair := keys / len(live)
	for _, id := range live {
		if count[id] < fair*9/10 || count[id] > fair*11/10 {
			t.Errorf("%s has %d keys, a fair part is %d", id, count[id], fair)
		}
	}
}

// TestAssignIsForEver holds results that replicas of all versions must agree on.
func TestAssignIsForEver(t *testing.T) {
	for key, want := range map[string]string{"op-1": "r1", "op-2": "r3", "": "r1"} {
		if got := Assign(key, []string{"r1", "r2", "r3"}); got != want {
			t.Errorf("Assign(%q) = %q, want %q", key, got, want)
		}
	}
}
