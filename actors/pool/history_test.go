package pool

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/messages/actorpb"
	"weir/scheduling"
)

// epoch is the beginning of an hour.
var epoch = time.Unix(1_800_000_000, 0)

// record records a second after another: each has its number as fair share.
func record(h *Histories, from, to int, pools ...scheduling.PoolName) {
	for i := from; i < to; i++ {
		points := map[scheduling.PoolName]Sample{}
		for _, name := range pools {
			points[name] = Sample{Point: Point{FairShare: float32(i)}}
		}
		h.Record("default", epoch.Add(time.Duration(i)*time.Second), points)
	}
}

// seen returns what is known of a pool, by second and by minute since epoch.
func seen(h *Histories, pool string) (seconds, minutes map[int64]float32) {
	seconds, minutes = map[int64]float32{}, map[int64]float32{}
	for _, p := range h.Answer(&actorpb.PoolHistoryRequest{Tree: "default", Pool: pool}).GetPools() {
		for i, at := range p.GetSeconds().GetAt() {
			seconds[at-epoch.Unix()] = p.GetSeconds().GetFairShare()[i]
		}
		for i, at := range p.GetMinutes().GetAt() {
			minutes[at-epoch.Unix()/60] = p.GetMinutes().GetFairShare()[i]
		}
	}
	return seconds, minutes
}

func TestSecondsOfAnHourAndMinutesOfADay(t *testing.T) {
	h := NewHistories()
	record(h, 0, 7200, "ads")
	record(h, 7300, 7320, "ads")
	seconds, minutes := seen(h, "ads")
	if len(seconds) != 3600-100 || len(minutes) != 120 {
		t.Errorf("%d seconds and %d minutes are known, want 3500 and 120", len(seconds), len(minutes))
	}
	for at, want := range map[int64]float32{7319: 7319, 7300: 7300, 7199: 7199, 3720: 3720} {
		if seconds[at] != want {
			t.Errorf("second %d is %v, want %v", at, seconds[at], want)
		}
	}
	for _, at := range []int64{7250, 3719, 0} {
		if got, known := seconds[at]; known {
			t.Errorf("second %d is %v, want none", at, got)
		}
	}
	// The mean of 0 to 59, and of 7140 to 7199.
	if minutes[0] != 29.5 || minutes[119] != 7169.5 || minutes[120] != 0 {
		t.Errorf("minutes 0, 119 and 120 are %v, %v and %v", minutes[0], minutes[119], minutes[120])
	}
	record(h, 86400*2, 86400*2+1, "ads")
	if seconds, minutes = seen(h, "ads"); len(seconds) != 1 || len(minutes) != 0 {
		t.Errorf("after a day of nothing, %d seconds and %d minutes are known", len(seconds), len(minutes))
	}
}

func TestAPoolThatIsGoneHasNoHistory(t *testing.T) {
	h := NewHistories()
	record(h, 0, 10, "ads", "web")
	record(h, 10, 11, "ads")
	if seconds, _ := seen(h, "web"); len(seconds) != 0 {
		t.Errorf("%d seconds of web are known", len(seconds))
	}
	h.Keep([]scheduling.TreeName{"other"})
	if seconds, _ := seen(h, "ads"); len(seconds) != 0 {
		t.Errorf("%d seconds of a tree that is gone are known", len(seconds))
	}
}

// TestHistoryFollowsAName renames pools, at the leader and so at who follows it: what
// they were goes with them, and a pool that takes over a name begins anew.
func TestHistoryFollowsAName(t *testing.T) {
	leader, follower := NewHistories(), NewHistories()
	at := 0
	second := func(ids map[scheduling.PoolName]scheduling.PoolID) {
		samples := map[scheduling.PoolName]Sample{}
		for name, id := range ids {
			samples[name] = Sample{ID: id, Point: Point{FairShare: float32(id)}}
		}
		leader.Record("default", epoch.Add(time.Duration(at)*time.Second), samples)
		at++
	}
	for range 3 {
		second(map[scheduling.PoolName]scheduling.PoolID{"ads": 1, "web": 2, "old": 3})
	}
	follower.Follow("default", leader.Answer(follower.Missing("default")))
	second(map[scheduling.PoolName]scheduling.PoolID{"web": 1, "ads": 2, "old": 4, "new": 3})
	follower.Follow("default", leader.Answer(follower.Missing("default")))
	for name, h := range map[string]*Histories{"leader": leader, "follower": follower} {
		for pool, want := range map[string]struct {
			id     float32
			points int
		}{"web": {1, 4}, "ads": {2, 4}, "new": {3, 4}, "old": {4, 1}} {
			seconds, _ := seen(h, pool)
			if len(seconds) != want.points {
				t.Errorf("%s: %d seconds of %s are known, want %d", name, len(seconds), pool, want.points)
			}
			for at, share := range seconds {
				if share != want.id {
					t.Errorf("%s: second %d of %s is that of pool %v, want %v", name, at, pool, share, want.id)
				}
			}
		}
	}
}

func TestDueOnceASecond(t *testing.T) {
	h := NewHistories()
	for i, want := range []bool{true, false, false, true, false} {
		now := epoch.Add(time.Duration(i) * 400 * time.Millisecond)
		due := h.Due("default", now)
		if due != want {
			t.Errorf("%v is due: %v, want %v", now, due, want)
		}
		if due {
			h.Record("default", now, map[scheduling.PoolName]Sample{"ads": {}})
		}
	}
}

// TestTheNextLeaderGoesOn has a replica follow another now and then, whatever it has
// missed: in the end both know the same, and when it leads it loses only what came
// since.
func TestTheNextLeaderGoesOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		leader, follower := NewHistories(), NewHistories()
		pools := make([]scheduling.PoolName, rapid.IntRange(1, 40).Draw(t, "pools"))
		for i := range pools {
			pools[i] = scheduling.PoolName(fmt.Sprint("p", i))
		}
		catchUp := func() {
			for more, asked := true, 0; more; asked++ {
				if asked > 1000 {
					t.Fatal("there is always more")
				}
				more = follower.Follow("default", leader.Answer(follower.Missing("default")))
			}
		}
		at := 0
		for range rapid.IntRange(1, 4).Draw(t, "lives") {
			next := at + rapid.IntRange(1, 2000).Draw(t, "seconds")
			record(leader, at, next, pools[:rapid.IntRange(1, len(pools)).Draw(t, "now")]...)
			catchUp()
			at = next + rapid.IntRange(0, 100).Draw(t, "without a leader")
			if rapid.Bool().Draw(t, "transfer") {
				leader, follower = follower, leader
			}
		}
		record(leader, at, at+1, pools...)
		catchUp()
		for _, name := range []string{"p0", string(pools[len(pools)-1])} {
			wantSeconds, wantMinutes := seen(leader, name)
			seconds, minutes := seen(follower, name)
			if fmt.Sprint(seconds) != fmt.Sprint(wantSeconds) || fmt.Sprint(minutes) != fmt.Sprint(wantMinutes) {
				t.Fatalf("%s: the follower knows %d seconds and %d minutes, the leader %d and %d",
					name, len(seconds), len(minutes), len(wantSeconds), len(wantMinutes))
			}
		}
	})
}

func TestALeaderThatKnowsNothingTakesNothing(t *testing.T) {
	h := NewHistories()
	record(h, 0, 10, "ads")
	if h.Follow("default", NewHistories().Answer(h.Missing("default"))) {
		t.Error("there is more of nothing")
	}
	if seconds, _ := seen(h, "ads"); len(seconds) != 10 {
		t.Errorf("%d seconds are left, want 10", len(seconds))
	}
	// Points of a mistaken peer are not worth a crash.
	h.Follow("default", &actorpb.PoolHistory{SecondsNewest: 1, Pools: []*actorpb.PoolPoints{{Pool: "ads", Seconds: &actorpb.Points{At: []int64{-5, 7}}}}})
}

// BenchmarkHistories prints what a pool takes after a day, and what a second costs.
func BenchmarkHistories(b *testing.B) {
	const count = 1000
	points := map[scheduling.PoolName]Sample{}
	for i := range count {
		points[scheduling.PoolName(fmt.Sprint("p", i))] = Sample{Point: Point{FairShare: 1}}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	h := NewHistories()
	for i := range 24 {
		record := epoch.Add(time.Duration(i) * time.Hour)
		for j := range 60 {
			h.Record("default", record.Add(time.Duration(j)*time.Minute), points)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	now := epoch.Add(24 * time.Hour)
	for b.Loop() {
		h.Record("default", now, points)
		now = now.Add(time.Second)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/count, "B/pool")
}
