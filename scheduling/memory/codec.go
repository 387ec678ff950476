package memory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// The first byte of an encoded digest. Values are on disk.
const (
	formatExact  = 1
	formatSketch = 2
)

// errCut is the cause if data ends too early.
var errCut = errors.New("the data is truncated")

// Encode returns the digest as bytes, from which Decode restores it to the last bit.
func (d *Digest) Encode() []byte {
	if d.sketch == nil {
		out := make([]byte, 0, 8+8*(len(d.prior)+len(d.samples)))
		out = append(out, formatExact)
		out = appendFloats(out, d.prior)
		return appendFloats(out, d.samples)
	}
	out := []byte{formatSketch}
	out = appendFloats(out, []float64{d.least, d.greatest})
	var means []float64
	var counts []byte
	d.sketch.ForEachCentroid(func(mean float64, count uint64) bool {
		means = append(means, mean)
		counts = binary.AppendUvarint(counts, count)
		return true
	})
	return append(appendFloats(out, means), counts...)
}

// Decode undoes Encode. Empty data is an empty digest.
func Decode(data []byte) (*Digest, error) {
	d, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("decode memory digest of %d bytes: %w", len(data), err)
	}
	return d, nil
}

func decode(data []byte) (*Digest, error) {
	switch {
	case len(data) == 0:
		return new(Digest), nil
	case data[0] == formatExact:
		return decodeExact(data[1:])
	case data[0] == formatSketch:
		return decodeSketch(data[1:])
	default:
		return nil, fmt.Errorf("format %d is unknown: this version reads %d and %d", data[0], formatExact, formatSketch)
	}
}

func decodeExact(data []byte) (*Digest, error) {
	d := new(Digest)
	var err error
	if d.prior, data, err = cutFloats(data, PriorSamples); err != nil {
		return nil, fmt.Errorf("prior: %w", err)
	}
	if d.samples, data, err = cutFloats(data, exactSamples); err != nil {
		return nil, fmt.Errorf("samples: %w", err)
	}
	d.count = int64(len(d.samples))
	if d.count >= outgrown && d.prior != nil {
		return nil, fmt.Errorf("prior: there is one beside %d samples, but a digest with %d or more has none", d.count, outgrown)
	}
	return d, nothingLeft(data)
}

func decodeSketch(data []byte) (*Digest, error) {
	ends, data, err := cutFloats(data, 2)
	if err != nil || len(ends) != 2 {
		return nil, fmt.Errorf("least and greatest: %w", errors.Join(err, errCut))
	}
	means, data, err := cutFloats(data, maxCentroids)
	if err != nil {
		return nil, fmt.Errorf("centroids: %w", err)
	}
	d := &Digest{least: ends[0], greatest: ends[1]}
	if len(means) == 0 || means[0] < d.least || means[len(means)-1] > d.greatest {
		return nil, fmt.Errorf("centroids: there are %d; at least one is needed, and all must be from %v to %v", len(means), d.least, d.greatest)
	}
	counts := make([]uint64, len(means))
	for i := range counts {
		n := 0
		if counts[i], n = binary.Uvarint(data); n <= 0 || n > 1 && data[n-1] == 0 {
			return nil, fmt.Errorf("count of centroid %d: %w", i, errCut)
		}
		data = data[n:]
		if counts[i] == 0 || counts[i] > math.MaxInt32 {
			return nil, fmt.Errorf("count of centroid %d: %d is not a possible number of samples", i, counts[i])
		}
		d.count += int64(counts[i])
	}
	if d.count <= exactSamples {
		return nil, fmt.Errorf("counts: %d samples are too few for a sketch", d.count)
	}
	d.sketch = newSketch(means, counts)
	return d, nothingLeft(data)
}

func nothingLeft(data []byte) error {
	if len(data) > 0 {
		return fmt.Errorf("%d bytes are left over", len(data))
	}
	return nil
}

func appendFloats(out []byte, list []float64) []byte {
	out = binary.AppendUvarint(out, uint64(len(list)))
	for _, v := range list {
		out = binary.BigEndian.AppendUint64(out, math.Float64bits(v))
	}
	return out
}

// cutFloats takes ascending numbers off the front of data. The list is nil if there are no numbers.
func cutFloats(data []byte, most int) (list []float64, rest []byte, err error) {
	n, size := binary.Uvarint(data)
	if size <= 0 || size > 1 && data[size-1] == 0 {
		return nil, nil, errCut
	}
	data = data[size:]
	if n > uint64(most) {
		return nil, nil, fmt.Errorf("%d numbers, the limit is %d", n, most)
	}
	if uint64(len(data)) < 8*n {
		return nil, nil, errCut
	}
	for range n {
		v := math.Float64frombits(binary.BigEndian.Uint64(data))
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, nil, ErrNotFinite
		}
		list, data = append(list, v), data[8:]
	}
	if !slices.IsSorted(list) {
		return nil, nil, errors.New("the numbers are not in order")
	}
	return list, data, nil
}
