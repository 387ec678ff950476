package memory

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// distributions are shapes of how jobs of a task use memory, as shares of a limit.
var distributions = map[string]func(*rand.Rand) float64{
	"uniform":   func(r *rand.Rand) float64 { return 0.05 + 0.9*r.Float64() },
	"lognormal": func(r *rand.Rand) float64 { return 0.2 * math.Exp(0.5*r.NormFloat64()) },
	"constant":  func(*rand.Rand) float64 { return 0.2 },
	"bimodal": func(r *rand.Rand) float64 {
		if r.Float64() < 0.2 {
			return 0.8 + 0.02*r.NormFloat64()
		}
		return 0.2 + 0.02*r.NormFloat64()
	},
	"a few are large": func(r *rand.Rand) float64 {
		if r.Float64() < 0.02 {
			return 0.9
		}
		return 0.2 + 0.02*r.NormFloat64()
	},
}

// exactly returns the sample at the nearest rank.
func exactly(samples []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[max(int(math.Ceil(q*float64(len(sorted))-1e-9)), 1)-1]
}

func TestQuantileIsWithinOnePercent(t *testing.T) {
	for name, draw := range distributions {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1, 20, 100, 499, 500, 501, 600, 1000, 5000, 20000, 100000} {
				worst, seeds := 0.0, 5
				if n > 5000 {
					seeds = 1
				}
				for seed := range seeds {
					random := rand.New(rand.NewSource(int64(seed)))
					d, samples := new(Digest), make([]float64, n)
					for i := range samples {
						samples[i] = draw(random)
						add(t, d, samples[i])
					}
					got, _ := d.Quantile(Quantile)
					off := math.Abs(got/exactly(samples, Quantile) - 1)
					worst = max(worst, off)
				}
				limit := 0.01
				if n <= exactSamples {
					limit = 0
				}
				if worst > limit {
					t.Errorf("p95 of %d samples is off by %.3f %%, want at most %v %%", n, 100*worst, 100*limit)
				}
				t.Logf("%6d samples: off by at most %.4f %%", n, 100*worst)
			}
		})
	}
}

func add(t interface {
	Helper()
	Fatal(...any)
}, d *Digest, v float64) {
	t.Helper()
	if err := d.Add(v); err != nil {
		t.Fatal(err)
	}
}

// TestGoesOnAfterAnyCut writes a digest down and reads it back between any two samples:
// what comes out in the end is the same to the last bit.
func TestGoesOnAfterAnyCut(t *testing.T) {
	for name, draw := range distributions {
		t.Run(name, func(t *testing.T) {
			const n = 700
			random := rand.New(rand.NewSource(7))
			prior, err := Of(draw(random), draw(random), draw(random))
			if err != nil {
				t.Fatal(err)
			}
			through, cut := FromPrior(prior), FromPrior(prior)
			for i := range n {
				// Reading back at each place, in one life, is a cut at every place.
				if cut, err = Decode(cut.Encode()); err != nil {
					t.Fatalf("after %d samples: %v", i, err)
				}
				v := draw(random)
				add(t, through, v)
				add(t, cut, v)
				if i%50 == 0 || i < 60 || i > 480 && i < 520 {
					if !bytes.Equal(through.Encode(), cut.Encode()) || through.Count() != cut.Count() {
						t.Fatalf("after %d samples the digest that was read back is another", i+1)
					}
				}
				a, _ := through.Quantile(Quantile)
				b, _ := cut.Quantile(Quantile)
				if math.Float64bits(a) != math.Float64bits(b) {
					t.Fatalf("after %d samples p95 is %v, and %v of the one that was read back", i+1, a, b)
				}
			}
		})
	}
}

func TestGoesOnAfterACut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Int64().Draw(t, "seed")
		few := rapid.SampledFrom([]int{2, 7, 1000000}).Draw(t, "distinct values")
		n := rapid.SampledFrom([]int{0, 1, 39, 41, 499, 500, 501, 1300}).Draw(t, "samples")
		cut := rapid.IntRange(0, n).Draw(t, "cut")
		random := rand.New(rand.NewSource(seed))
		through, restored := new(Digest), new(Digest)
		for i := range n {
			if i == cut {
				var err error
				if restored, err = Decode(restored.Encode()); err != nil {
					t.Fatal(err)
				}
			}
			v := float64(random.Intn(few)) / float64(few)
			add(t, through, v)
			add(t, restored, v)
		}
		if !bytes.Equal(through.Encode(), restored.Encode()) {
			t.Fatal("the digest that was read back is another in the end")
		}
		before := math.Inf(-1)
		for i := range 21 {
			v, known := through.Quantile(float64(i) / 20)
			if known && v < before-1e-12 {
				t.Fatalf("quantiles do not grow: %v comes after %v", v, before)
			}
			before = v
		}
	})
}

func TestAddRefuses(t *testing.T) {
	for name, v := range map[string]float64{"not a number": math.NaN(), "infinite": math.Inf(1), "minus infinite": math.Inf(-1)} {
		d := new(Digest)
		if err := d.Add(v); !errors.Is(err, ErrNotFinite) || !d.Empty() {
			t.Errorf("%s: got error %v, and %d samples", name, err, d.Count())
		}
		if _, err := Of(1, v); !errors.Is(err, ErrNotFinite) {
			t.Errorf("%s: of two samples: got error %v", name, err)
		}
	}
}

func TestEmptyDigest(t *testing.T) {
	d, err := Decode(nil)
	if err != nil {
		t.Fatal(err)
	}
	if v, known := d.Quantile(Quantile); known {
		t.Errorf("an empty digest knows %v", v)
	}
	if again, err := Decode(d.Encode()); err != nil || !again.Empty() {
		t.Errorf("written and read back: %v, %v", again, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	sketch := new(Digest)
	for i := range 600 {
		add(t, sketch, float64(i))
	}
	one, err := Of(1)
	if err != nil {
		t.Fatal(err)
	}
	long := append([]byte{formatExact, 0}, appendFloats(nil, make([]float64, exactSamples+1))...)
	for story, data := range map[string][]byte{
		"a format of the future":     {9},
		"nothing after the format":   {formatExact},
		"a sample that is cut off":   one.Encode()[:8],
		"something after the end":    append(one.Encode(), 0),
		"samples out of order":       appendFloats([]byte{formatExact, 0}, []float64{2, 1}),
		"what is not a number":       appendFloats([]byte{formatExact, 0}, []float64{math.NaN()}),
		"more than is kept":          long,
		"counts that are cut off":    sketch.Encode()[:len(sketch.Encode())-1],
		"a centroid of no sample":    append(sketch.Encode()[:len(sketch.Encode())-1], 0),
		"a sketch of too few":        append(appendFloats(appendFloats([]byte{formatSketch}, []float64{1, 2}), []float64{1, 2}), 1, 1),
		"a sketch without centroids": appendFloats(appendFloats([]byte{formatSketch}, []float64{1, 2}), nil),
		"a sketch without bounds":    appendFloats([]byte{formatSketch}, nil),
		"a prior beside many":        appendFloats(appendFloats([]byte{formatExact}, []float64{1}), make([]float64, outgrown)),
		"a length written otherwise": {formatExact, 0x80, 0, 0},
	} {
		if d, err := Decode(data); err == nil {
			t.Errorf("%s: was read as a digest of %d samples", story, d.Count())
		}
	}
}

func FuzzDecode(f *testing.F) {
	sketch := new(Digest)
	for i := range 1500 {
		add(f, sketch, math.Sqrt(float64(i)))
	}
	few, err := Of(.3, .1, .2)
	if err != nil {
		f.Fatal(err)
	}
	for _, d := range []*Digest{sketch, few, FromPrior(sketch), new(Digest)} {
		f.Add(d.Encode())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Decode(data)
		if err != nil {
			return
		}
		if again := d.Encode(); len(data) > 0 && !bytes.Equal(again, data) {
			t.Fatalf("%s comes back as %s", hex.EncodeToString(data), hex.EncodeToString(again))
		}
		for _, q := range []float64{0, .5, Quantile, 1} {
			if v, known := d.Quantile(q); known && (math.IsNaN(v) || math.IsInf(v, 0)) {
				t.Fatalf("quantile %v is %v", q, v)
			}
		}
		add(t, d, .5)
	})
}

func BenchmarkAdd(b *testing.B) {
	for _, n := range []int{100, 500, 10000} {
		b.Run(fmt.Sprintf("after %d samples", n), func(b *testing.B) {
			random := rand.New(rand.NewSource(1))
			start := new(Digest)
			for range n {
				add(b, start, distributions["lognormal"](random))
			}
			encoded := start.Encode()
			values := make([]float64, 1000)
			for i := range values {
				values[i] = distributions["lognormal"](random)
			}
			d := start
			b.ResetTimer()
			for i := 0; b.Loop(); i++ {
				if i%1000 == 0 && n < exactSamples {
					d, _ = Decode(encoded)
				}
				if err := d.Add(values[i%1000]); err != nil {
					b.Fatal(err)
				}
				if v, _ := d.Quantile(Quantile); v == 0 {
					b.Fatal("no quantile")
				}
			}
			b.ReportMetric(float64(len(encoded)), "bytes-encoded")
		})
	}
}
