package pool

import "math"

// Point is what a pool was at a time: shares by dominant resource, and the volume in
// seconds of the whole cluster.
type Point struct {
	FairShare, UsageShare, DemandShare, Volume float32
}

// chunkPoints is how many points of a ring are kept in one piece.
const chunkPoints = 60

// chunk is the points of chunkPoints units of time in a row. One without a fair share
// is not known.
type chunk struct {
	number int64
	points [chunkPoints]Point
}

// ring keeps the points of the latest units of time: seconds, or minutes, since
// 1970. A piece is made when there is a point for it, and used again when its time is
// over, so a pool that lives for a minute takes no more than its minute.
type ring struct {
	chunks []*chunk
}

// newRing keeps so many units of time at least, and up to chunkPoints more.
func newRing(units int) ring { return ring{make([]*chunk, units/chunkPoints+1)} }

func (r ring) slot(at int64) **chunk { return &r.chunks[at/chunkPoints%int64(len(r.chunks))] }

// put keeps the point of a time, which is 0 or later.
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

// at returns the point of a time, if it is known.
func (r ring) at(at int64) (Point, bool) {
	c := *r.slot(at)
	if c == nil || c.number != at/chunkPoints {
		return Point{}, false
	}
	p := c.points[at%chunkPoints]
	return p, p.FairShare == p.FairShare
}

// mean returns the mean of the points of times in [from, to), if any is known.
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
