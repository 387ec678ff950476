package memory

import (
	"errors"
	"fmt"
	"math"
	"slices"

	tdigest "github.com/caio/go-tdigest/v5"
)

const (
	// Quantile is the part of a task's jobs for which the reserve is enough (J.1.4).
	Quantile = 0.95

	// exactSamples is the number of samples up to which a digest keeps all of them. A t-digest
	// interpolates, which is inaccurate where few samples leave gaps.
	exactSamples = 500

	// compression is that of the t-digest. It allows at most 20 times as many centroids, and keeps
	// the p95 within 1 %.
	compression  = 50
	maxCentroids = 20 * compression

	// PriorSamples is the greatest weight of a prior, in samples.
	PriorSamples = 20

	// outgrown is how many samples of its own a digest needs to drop its prior. Until it has so many,
	// each of its samples lowers the prior's weight.
	outgrown = 40
)

// ErrNotFinite is returned for samples that are not numbers, or infinite.
var ErrNotFinite = errors.New("a sample has to be a finite number")

// Digest summarizes samples so that quantiles can be computed. It is exact for few samples, and a
// t-digest (Dunning and Ertl) for many. The zero value is empty.
type Digest struct {
	// samples are all samples, ascending, as long as the field sketch is nil.
	samples []float64
	// prior are samples of other operations, ascending. Their weight falls with each sample of
	// this operation.
	prior  []float64
	sketch *tdigest.TDigest
	count  int64
	// least and greatest are the extremes of all samples, if the field sketch is set.
	least, greatest float64
}

// Count returns how many samples were added, without those of a prior.
func (d *Digest) Count() int64 { return d.count }

// Empty reports whether nothing is known, not even from a prior.
func (d *Digest) Empty() bool { return d.count == 0 && len(d.prior) == 0 }

// Add adds a sample. If it is infinite or not a number, Add returns ErrNotFinite and leaves the
// digest unchanged.
func (d *Digest) Add(v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("add %v to a memory digest: %w", v, ErrNotFinite)
	}
	d.count++
	if d.sketch == nil && d.count <= exactSamples {
		i, _ := slices.BinarySearch(d.samples, v)
		d.samples = slices.Insert(d.samples, i, v)
		if d.count >= outgrown {
			d.prior = nil
		}
		return nil
	}
	if d.sketch == nil {
		d.least, d.greatest = d.samples[0], d.samples[len(d.samples)-1]
		d.sketch = newSketch(d.samples, nil)
		d.samples = nil
	}
	d.least, d.greatest = min(d.least, v), max(d.greatest, v)
	if err := d.sketch.Add(v); err != nil {
		// Invariant: sketch refuses only NaN and infinities.
		panic(fmt.Sprintf("add %v to a t-digest: %v", v, err))
	}
	return nil
}

// Quantile returns the sample that the fraction q of all samples, in [0, 1], does not exceed. The
// result known is false for an empty digest.
func (d *Digest) Quantile(q float64) (value float64, known bool) {
	if d.Empty() {
		return 0, false
	}
	if d.sketch != nil {
		return min(max(d.sketch.Quantile(q), d.least), d.greatest), true
	}
	return d.rank(q), true
}

// rank walks up the samples and the prior together, until the samples passed have the fraction q of
// the total weight.
func (d *Digest) rank(q float64) float64 {
	weight := d.priorWeight()
	// Subtract a little, so that rounding of q x n does not lead to the next sample.
	target := q*(float64(len(d.samples))+weight*float64(len(d.prior))) - 1e-9
	var seen, value float64
	for i, j := 0, 0; i < len(d.samples) || j < len(d.prior); {
		if j == len(d.prior) || i < len(d.samples) && d.samples[i] <= d.prior[j] {
			value = d.samples[i]
			seen++
			i++
		} else {
			value = d.prior[j]
			seen += weight
			j++
		}
		if seen >= target {
			break
		}
	}
	return value
}

// priorWeight is the weight of one sample of the prior. A sample of the digest's own weighs 1.
func (d *Digest) priorWeight() float64 {
	return max(0, 1-float64(d.count)/outgrown)
}

// newSketch returns a t-digest of exactly these centroids, with no merging. Nil counts mean one
// sample each. means are ascending, and at most as many as a t-digest holds.
func newSketch(means []float64, counts []uint64) *tdigest.TDigest {
	chance := &source{loading: true}
	sketch, err := tdigest.New(tdigest.Compression(compression), tdigest.RandomNumberGenerator(chance))
	for i := 0; err == nil && i < len(means); i++ {
		count := uint64(1)
		if counts != nil {
			count = counts[i]
		}
		err = sketch.AddWeighted(means[i], count)
	}
	if err != nil {
		// Invariant: means are finite and counts are not 0.
		panic(fmt.Sprintf("make a t-digest of %d centroids: %v", len(means), err))
	}
	chance.loading = false
	return sketch
}

// source is the random source of a t-digest. It is stateless, so that equal digests handle equal
// samples equally.
type source struct {
	// loading means that centroids are being restored, so no sample is merged with another.
	loading bool
}

// Float32 implements tdigest.RNG. A t-digest takes the n-th of the centroids to which a sample may
// go if the number is below 1/n: with 0.5 that is the first.
func (s *source) Float32() float32 {
	if s.loading {
		return 1
	}
	return 0.5
}

// Intn implements tdigest.RNG. It hashes n (a step of splitmix64), so that a shuffle, which passes
// ever smaller n, leaves no order.
func (s *source) Intn(n int) int {
	x := uint64(n) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % uint64(n))
}

// Clone implements tdigest.RNG.
func (s *source) Clone() tdigest.RNG { return &source{} }

// ProfileSamples is the maximum number of samples that represent a profile.
const ProfileSamples = 100

// Points returns up to k samples that represent the digest: those at the quantiles 1/k, 2/k … 1. A
// digest of fewer samples returns those it has. Their 95th percentile equals the digest's own if
// 20 divides k.
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

// Of returns a digest of these samples. It returns the errors of Add.
func Of(samples ...float64) (*Digest, error) {
	d := new(Digest)
	for _, v := range samples {
		if err := d.Add(v); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Scaled returns a digest of up to ProfileSamples samples that represent d, each multiplied by
// scale, but not above the parameter `most`.
func (d *Digest) Scaled(scale, most float64) *Digest {
	scaled := d.Summary(ProfileSamples)
	for i, v := range scaled.samples {
		scaled.samples[i] = min(v*scale, most)
	}
	return scaled
}

// Summary returns a digest of up to k samples that represent d.
func (d *Digest) Summary(k int) *Digest {
	short := &Digest{samples: d.Points(k)}
	short.count = int64(len(short.samples))
	return short
}

// FromPrior returns a digest without samples of its own, whose quantiles come from the prior. The
// prior weighs as much as up to PriorSamples samples at first, and nothing once the digest has 40 of
// its own.
func FromPrior(prior *Digest) *Digest {
	d := new(Digest)
	if points := prior.Points(PriorSamples); len(points) > 0 {
		d.prior = points
	}
	return d
}

// Blend merges the digest `news` into the digest `before`, which was known already, and returns up to
// ProfileSamples samples of both. Each sample of `news` weighs 1. The digest `before` weighs at most
// half as much as `news`, so that it fades, but may always weigh PriorSamples, so that a small
// operation does not outweigh large ones. A prior within `news` is ignored.
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
