package memory

import "slices"

// ProfileSamples bounds the samples that stand for all of a profile.
const ProfileSamples = 100

// Points returns up to k samples that stand for all of the digest: those at the quantiles
// 1/k, 2/k … 1. A digest of fewer samples gives what it has. Their 95th percentile is the
// digest's own where 20 divides k.
func (d *Digest) Points(k int) []float64 {
	if d.sketch == nil {
		k = min(k, max(len(d.samples)+len(d.prior), 0))
	}
	points := make([]float64, 0, k)
	for i := range k {
		v, _ := d.Quantile(float64(i+1) / float64(k))
		points = append(points, v)
	}
	slices.Sort(points)
	return points
}

// Of returns a digest of these samples. It fails as Add does.
func Of(samples ...float64) (*Digest, error) {
	d := new(Digest)
	for _, v := range samples {
		if err := d.Add(v); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Scaled returns a digest of up to ProfileSamples samples that stand for all of d, times
// scale, but not more than most.
func (d *Digest) Scaled(scale, most float64) *Digest {
	scaled := d.Summary(ProfileSamples)
	for i, v := range scaled.samples {
		scaled.samples[i] = min(v*scale, most)
	}
	return scaled
}

// Summary returns a digest of up to k samples that stand for all of d.
func (d *Digest) Summary(k int) *Digest {
	short := &Digest{samples: d.Points(k)}
	short.count = int64(len(short.samples))
	return short
}

// FromPrior returns a digest without samples of its own that expects what the prior knows.
// The prior weighs up to PriorSamples samples at first, and nothing once there are 40 own ones.
func FromPrior(prior *Digest) *Digest {
	d := new(Digest)
	if points := prior.Points(PriorSamples); len(points) > 0 {
		d.prior = points
	}
	return d
}

// Blend returns what is known after news came to what was known before: up to
// ProfileSamples samples of both. The news weigh one for each of their samples; what was
// known half of that, so that it fades, but PriorSamples at least, so that a small operation
// does not undo what large ones have shown. A prior within the news is no news.
func Blend(before, news *Digest) *Digest {
	own := *news
	own.prior = nil
	n, old := own.count, before.count
	if n == 0 {
		return before
	}
	old = min(old, max(PriorSamples, n/2))
	k := min(n+old, ProfileSamples)
	fresh := (k*n + (n+old)/2) / (n + old)
	d := &Digest{samples: append(own.Points(int(fresh)), before.Points(int(k-fresh))...)}
	slices.Sort(d.samples)
	d.count = int64(len(d.samples))
	return d
}
