package e2e

import (
	"fmt"
	"math"
	"testing"
	"time"

	"weir/messages/apipb"
)

// The pool saver of tree saving: cores that flow in, cores at burst, and how many
// seconds of the flow it may save.
const (
	flowCores  = 4.0
	burstCores = 12.0
	savingTime = 16
)

// volumeAt is what a pool has saved, in core seconds, and as of when.
type volumeAt struct {
	cores float64
	at    time.Time
}

func (c *cluster) saved(t testing.TB) volumeAt {
	t.Helper()
	var answer apipb.WhatIfResponse
	c.ask(t, "TreeService/WhatIf", object{"tree": "saving"}, &answer)
	for _, p := range answer.GetBefore().GetShares() {
		if p.GetName() == "saver" {
			return volumeAt{p.GetVolume() * slots, answer.GetTime().AsTime()}
		}
	}
	return volumeAt{}
}

// attribute returns a number that is known of the pool saver.
func (c *cluster) attribute(t testing.TB, name string) float64 {
	t.Helper()
	var answer apipb.GetAttributeResponse
	c.ask(t, "AttributeService/Get", object{"path": "scheduler/pool_trees/saving/pools/saver/" + name}, &answer)
	return answer.GetValue().GetNumberValue()
}

// fills waits until the volume is so great.
func (c *cluster) fills(t testing.TB, cores float64) (now volumeAt) {
	t.Helper()
	until(t, fmt.Sprintf("%v core seconds are saved", cores), func() string {
		if now = c.saved(t); now.cores < cores {
			return fmt.Sprint(now.cores)
		}
		return ""
	})
	return now
}

// burstPool has a burst pool save, over a change of leader, spend at burst level while
// another pool wants all, fall back to its flow, and save again.
func burstPool(t *testing.T, c *cluster) {
	c.ask(t, "TreeService/Set", object{"tree": "saving", "options": object{
		"integral_guarantees/pool_capacity_saturation_period": fmt.Sprintf("%ds", savingTime), "integral_guarantees/smooth_period": "1s",
	}}, &apipb.SetTreeResponse{})
	c.pool(t, "saving", "saver", object{"weight": 0.001, "integral_guarantees": object{
		"guarantee_type": "burst", "resource_flow": object{"cpu": flowCores}, "burst_guarantee_resources": object{"cpu": burstCores},
	}})
	c.pool(t, "saving", "greedy", object{"weight": 1000})
	greedy := c.hungry(t, "saving", "greedy", "500ms")
	// By now it has been kept once, on a slow disk too: that is done every three seconds.
	before := c.fills(t, 8*flowCores)
	killed := c.leader(t)
	c.process(killed).kill()
	// The next leader goes on from what was kept last, as if nothing had been.
	c.leader(t)
	continues(t, c, "after a kill of the leader", before)
	c.startReplica(killed)
	before = c.saved(t)
	// It has not been there for long, and knows no pool's past.
	handOver(t, c, killed)
	continues(t, c, "after a transfer", before)

	var saver string
	for spent := false; !spent; {
		full := c.fills(t, flowCores*savingTime)
		if full.cores > flowCores*savingTime*1.0001 {
			t.Errorf("%v core seconds are saved, more than the capacity", full.cores)
		}
		term := c.term(t)
		saver = c.hungry(t, "saving", "saver", "300ms")
		until(t, "the saver has its burst", func() string {
			if p := c.pools(t, "saving")["saver"]; math.Abs(p.GetFairShare()*slots-burstCores) > 0.01 && c.term(t) == term {
				return p.String()
			}
			return ""
		})
		if spent = spends(t, c, term); !spent {
			c.abort(t, saver)
		}
	}
	// What the burst used shows in the history.
	c.settles(t, "saving", "the saver is back at its flow", map[string]float64{"saver": flowCores, "greedy": slots - flowCores})
	if left := c.saved(t); left.cores > burstCores || left.cores < 0 {
		t.Errorf("%v core seconds are left, want next to nothing", left.cores)
	}
	burstInHistory(t, c)
	c.abort(t, saver)
	until(t, "the saver has no share left", func() string {
		if p := c.pools(t, "saving")["saver"]; p.GetFairShare() > 0 {
			return p.String()
		}
		return ""
	})
	before = c.saved(t)
	continues(t, c, "when it wants nothing any more", before)
	c.abort(t, greedy)
}

// continues waits until the volume has grown by a second of its flow or more, and by exactly what
// flowed since, or is full: a new leader is behind while it waits for the nodes of the tree.
func continues(t *testing.T, c *cluster, what string, before volumeAt) {
	t.Helper()
	until(t, what, func() string {
		after := c.fills(t, min(before.cores+flowCores, flowCores*savingTime))
		seconds := after.at.Sub(before.at).Seconds()
		got, want := after.cores-before.cores, min(flowCores*seconds, flowCores*savingTime-before.cores)
		grown := fmt.Sprintf("%s: %+.3f core seconds in %.3f s, want %+.3f", what, got, seconds, want)
		if math.Abs(got-want) > 0.01*flowCores {
			return grown
		}
		t.Log(grown)
		return ""
	})
}

// spends checks that the volume falls by burst less flow, and lasts as long as was
// said. When another leads than in term, it goes on from what was kept last, and nothing
// can be said: done is false then.
func spends(t *testing.T, c *cluster, term uint64) (done bool) {
	t.Helper()
	const duration = "estimated_burst_usage_duration_seconds"
	began, said := c.saved(t), c.attribute(t, duration)
	// What was said is of a moment between these two.
	asked := c.saved(t)
	var now volumeAt
	until(t, "the volume is spent", func() string {
		if now = c.saved(t); now.cores > 1.5*burstCores {
			return fmt.Sprint(now.cores)
		}
		return ""
	})
	if c.term(t) != term {
		return false
	}
	rate := (began.cores - now.cores) / now.at.Sub(began.at).Seconds()
	t.Logf("at burst: %.3f core seconds a second are spent", rate)
	if math.Abs(rate-(burstCores-flowCores)) > 0.01*(burstCores-flowCores) {
		t.Errorf("%.3f core seconds a second are spent at burst, want %v", rate, burstCores-flowCores)
	}
	longest, shortest := began.cores/rate, asked.cores/rate
	t.Logf("the volume was said to last %.2f s, and lasts %.2f to %.2f s", said, shortest, longest)
	if said > 1.05*longest || said < 0.95*shortest {
		t.Errorf("the volume was said to last %.2f s, and lasts %.2f to %.2f s", said, shortest, longest)
	}
	return true
}

// handOver has a replica lead.
func handOver(t *testing.T, c *cluster, to string) {
	t.Helper()
	until(t, to+" leads", func() string {
		leader := c.leader(t)
		if leader == to {
			return ""
		}
		err := c.call(t.Context(), leader, "ClusterService/Transfer", object{"to": to}, &apipb.TransferResponse{})
		return fmt.Sprint(leader, " leads, ", err)
	})
}

// burstInHistory checks that the points since the beginning are there though the leader
// has changed twice, but for some seconds, and have what was seen.
func burstInHistory(t *testing.T, c *cluster) {
	t.Helper()
	var answer apipb.PoolHistoryResponse
	c.ask(t, "PoolService/History", object{"tree": "saving", "pool": "saver", "step_seconds": 1}, &answer)
	points := answer.GetPoints()
	if len(points) < savingTime {
		t.Fatalf("%d points are known", len(points))
	}
	first, last := points[0].GetTime().AsTime(), points[len(points)-1].GetTime().AsTime()
	missing := int(last.Sub(first).Seconds()) + 1 - len(points)
	var fair, volume float64
	for _, p := range points {
		fair, volume = max(fair, p.GetFairShare()), max(volume, p.GetVolume())
	}
	t.Logf("%d points, %d seconds are missing", len(points), missing)
	if missing > 15 || math.Abs(fair*slots-burstCores) > 0.1 || math.Abs(volume*slots-flowCores*savingTime) > 1.5*flowCores {
		t.Errorf("%d points, %d seconds are missing, the greatest fair share is %v and volume %v", len(points), missing, fair, volume)
	}
}
