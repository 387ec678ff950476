package engine

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// PoolVolume is what has to be remembered of a pool from one Tick to the next, and
// from one leader to the next (G7).
type PoolVolume struct {
	Pool scheduling.PoolName
	// ID is the pool under whatever name; 0: the one of the name.
	ID scheduling.PoolID
	// Volume has accumulated and was not spent.
	Volume resource.Volume
	// Rest is fairshare.Pool's.
	Rest float64
	// LastShareRatio was granted by the last Tick, to be paid by the next one.
	LastShareRatio float64
}

// Volumes returns the pools that have volume or owe some, sorted by name, and the
// time of the last Tick, to which they belong.
func (e *Engine) Volumes() (at time.Time, volumes []PoolVolume) {
	for name, p := range e.tree.pools {
		if p := p.share.Pool; !p.Volume.IsZero() || p.LastShareRatio != 0 {
			volumes = append(volumes, PoolVolume{Pool: name, ID: e.tree.pools[name].id, Volume: p.Volume, Rest: p.Rest, LastShareRatio: p.LastShareRatio})
		}
	}
	slices.SortFunc(volumes, func(a, b PoolVolume) int { return cmp.Compare(a.Pool, b.Pool) })
	return e.tree.shares.Updated, volumes
}

// SetVolumes goes on from what Volumes returned: at the next Tick, the time since
// then flows in and is paid. It fails, and changes nothing, when a pool is not
// known or what it has cannot be.
func (e *Engine) SetVolumes(at time.Time, volumes []PoolVolume) error {
	pools := make([]*pool, len(volumes))
	for i, v := range volumes {
		pools[i] = e.tree.poolOf(v)
		switch {
		case pools[i] == nil:
			return fmt.Errorf("set volume of pool %q: %w", v.Pool, ErrUnknown)
		case v.Volume.Min(resource.Volume{}) != resource.Volume{}:
			return fmt.Errorf("set volume of pool %q: %+v is negative", v.Pool, v.Volume)
		case math.IsNaN(v.Rest) || math.IsInf(v.Rest, 0):
			return fmt.Errorf("set volume of pool %q: rest %v is no number", v.Pool, v.Rest)
		case !(v.LastShareRatio >= 0 && v.LastShareRatio <= 1+resource.LargeEpsilon):
			return fmt.Errorf("set volume of pool %q: last share ratio %v is not a number from 0 to 1", v.Pool, v.LastShareRatio)
		}
	}
	for i, v := range volumes {
		p := pools[i].share.Pool
		p.Volume, p.LastShareRatio, p.Rest = v.Volume, v.LastShareRatio, v.Rest
	}
	e.tree.shares.Updated = at
	return nil
}

// poolOf returns the pool of a volume, nil when there is none.
func (tr *tree) poolOf(v PoolVolume) *pool {
	if p := tr.pools[v.Pool]; v.ID == 0 || p != nil && p.id == v.ID {
		return p
	}
	for _, p := range tr.pools {
		if p.id == v.ID {
			return p
		}
	}
	return nil
}
