package statistics

import (
	"math"
	"math/bits"
)

// mantissaBits is the precision of buckets: from 64 on, the width of a bucket is at most 1/32 of its
// least value. Below 64, each value has its own bucket.
const mantissaBits = 5

// Bucket returns the number of the histogram bucket of a value. Bucket numbers grow with
// values, and the numbers of negative values mirror those of positive ones.
func Bucket(v int64) int32 {
	if v < 0 {
		return -magnitude(uint64(-(v + 1)) + 1)
	}
	return magnitude(uint64(v))
}

func magnitude(v uint64) int32 {
	exponent := max(bits.Len64(v)-mantissaBits-1, 0)
	return int32(exponent<<mantissaBits) + int32(v>>exponent)
}

// Bounds returns the least and the greatest value of a bucket. Numbers beyond the last bucket
// count as the last one.
func Bounds(bucket int32) (least, greatest int64) {
	if bucket < 0 {
		least, greatest = Bounds(-max(bucket, -math.MaxInt32))
		return -greatest, -least
	}
	last := Bucket(math.MaxInt64)
	bucket = min(bucket, last)
	exponent := max(int(bucket>>mantissaBits)-1, 0)
	mantissa := int64(bucket) - int64(exponent<<mantissaBits)
	least = mantissa << exponent
	return least, least + (1<<exponent - 1)
}
