package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/messages/actorpb"
)

// TestHistory has a leader that knows of the last minutes by second and of the hours
// before by minute.
func TestHistory(t *testing.T) {
	s := newSite(t)
	now := begin.Unix() + 7200
	var asked *actorpb.PoolHistoryRequest
	recorded := func(m *actorpb.PoolHistoryRequest) *actorpb.PoolHistory {
		asked = m
		points := func(unit, from, to int64) *actorpb.Points {
			p := &actorpb.Points{}
			for at := from / unit; at < to/unit; at++ {
				p.At = append(p.At, at)
				p.FairShare, p.UsageShare = append(p.FairShare, float32(unit)), append(p.UsageShare, float32(at*unit-begin.Unix()))
				p.DemandShare, p.Volume = append(p.DemandShare, 1), append(p.Volume, 2)
			}
			return p
		}
		// The minute in which the seconds begin is known, too.
		return &actorpb.PoolHistory{Pools: []*actorpb.PoolPoints{{Pool: m.GetPool(), Seconds: points(1, now-90, now), Minutes: points(60, begin.Unix(), now-60)}}}
	}
	s.history.Store(&recorded)
	ask := func(fields string) any {
		return s.get("PoolService/History", fmt.Sprintf(`{"pool": "default", "to": %q%s}`, time.Unix(now, 0).UTC().Format(time.RFC3339), fields))
	}
	usual := ask("")
	want(t, usual, "60", "step_seconds")
	// The hour's last minutes: the seconds of one begin in its middle.
	points := at(t, usual, "points").([]any)
	if len(points) != 60 {
		t.Fatalf("%d points, want 60", len(points))
	}
	want(t, usual, 3600.0, "points", 0, "usage_share")
	want(t, usual, 60.0, "points", 57, "fair_share")
	want(t, usual, 1.0, "points", 58, "fair_share")
	want(t, usual, 7124.5, "points", 58, "usage_share")
	want(t, usual, 7169.5, "points", 59, "usage_share")
	want(t, usual, 2.0, "points", 59, "volume")
	// A peak of a second is seen in a step of a minute; what is known by minute shows its minutes.
	want(t, usual, 7140.0, "points", 59, "usage_share_min")
	want(t, usual, 7199.0, "points", 59, "usage_share_max")
	want(t, usual, 3600.0, "points", 0, "usage_share_max")
	if asked.GetTree() != "default" || asked.GetSecondsAfter() != now-3601 || asked.GetMinutesAfter() != (now-3600)/60-1 {
		t.Errorf("asked for %v", asked)
	}
	hours := ask(`, "from": "` + time.Unix(now-7200, 0).UTC().Format(time.RFC3339) + `", "step_seconds": 600`)
	want(t, hours, 270.0, "points", 0, "usage_share")
	want(t, hours, 0.0, "points", 0, "usage_share_min")
	want(t, hours, 540.0, "points", 0, "usage_share_max")
	fine := ask(`, "from": "` + time.Unix(now-100, 0).UTC().Format(time.RFC3339) + `", "step_seconds": 10`)
	if got := len(at(t, fine, "points").([]any)); got != 9 {
		t.Errorf("%d points of the last 100 s in steps of 10, want 9", got)
	}
	for name, test := range map[string]struct {
		body string
		code int
		want string
	}{
		"unknown pool":    {`{"pool": "nowhere"}`, 404, "nowhere"},
		"unknown tree":    {`{"pool": "default", "tree": "gpu"}`, 404, "gpu"},
		"no time":         {`{"pool": "default", "from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}`, 400, "'from' must be before 'to'"},
		"negative step":   {`{"pool": "default", "step_seconds": -1}`, 400, "step_seconds"},
		"too many points": {`{"pool": "default", "from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "step_seconds": 1}`, 400, "set step_seconds to at least 9"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := s.post("PoolService/History", test.body); got.status != test.code || !strings.Contains(got.raw, test.want) {
				t.Errorf("%d %s, want %d %s", got.status, got.raw, test.code, test.want)
			}
		})
	}
	s.history.Store(nil)
	if got := s.post("PoolService/History", `{"pool": "default"}`); got.status != 503 {
		t.Errorf("without a leader: %d %s", got.status, got.raw)
	}
}
