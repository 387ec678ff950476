package pool

import "math"

// Point is the state of a pool at a time: its shares of the dominant resource, and its volume in
// seconds of the whole cluster.
type Point struct {
	FairShare, UsageShare, DemandShare, Volume float32
}

// chunkPoints is the number of points in a chunk.
const chunkPoints = 60

// chunk holds the points of chunkPoints consecutive units of time. A point whose fair share is NaN
// is unknown.
type chunk struct {
	number int64
	points [chunkPoints]Point
}

// ring holds the points of the latest units of time: seconds, or minutes, since 1970. A chunk is
// allocated with its first point, and reused when its time is no longer kept, so a pool that exists
// for a minute needs memory only for that minute.
type ring struct {
	chunks []*chunk
}

// newRing returns a ring of at least this many units of time, and up to chunkPoints more.
func newRing(units int) ring { return ring{make([]*chunk, units/chunkPoints+1)} }

func (r ring) slot(at int64) **chunk { return &r.chunks[at/chunkPoints%int64(len(r.chunks))] }

// put stores the point of a time, which is not negative.
func (r ring) put(at int64, p Point) {
	slot := r.slot(at)
	if *slot == nil {
		*slot = &chunk{number: -1}
	}
	if c := *slot; c.number != at/chunkPoints {
		c.number = at / chunkPoints
		for i := range c.points {
			c.points[i].FairShare = float32(math.NaN())
		}
	}
	(*slot).points[at%chunkPoints] = p
}

// at returns the point of a time, and whether that point is known.
func (r ring) at(at int64) (Point, bool) {
	c := *r.slot(at)
	if c == nil || c.number != at/chunkPoints {
		return Point{}, false
	}
	p := c.points[at%chunkPoints]
	return p, p.FairShare == p.FairShare
}

// mean returns the mean of the known points with times in [from, to); false if none is known.
func (r ring) mean(from, to int64) (Point, bool) {
	var fair, usage, demand, volume, n float64
	for at := from; at < to; at++ {
		if p, ok := r.at(at); ok {
			fair, usage, demand, volume = fair+float64(p.FairShare), usage+float64(p.UsageShare), demand+float64(p.DemandShare), volume+float64(p.Volume)
			n++
		}
	}
	if n == 0 {
		return Point{}, false
	}
	return Point{float32(fair / n), float32(usage / n), float32(demand / n), float32(volume / n)}, true
}
