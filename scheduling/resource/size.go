package resource

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// units are the units of memory, in the order in which FormatSize prefers them.
var units = []struct {
	name  string
	bytes int64
}{
	{"PiB", 1 << 50}, {"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1},
}

var (
	errSize      = errors.New("not a size: write a number of bytes, or a number with a unit: KiB, MiB, GiB, TiB, PiB, KB, MB, GB or TB, such as 512MiB")
	errSizeWhole = errors.New("not a whole number of bytes")
)

// ErrSizeRange is returned for a size that no int64 can hold.
var ErrSizeRange = errors.New("too large for a size")

// ParseSize returns the bytes of a size such as 1.5GiB, in upper or lower case.
func ParseSize(s string) (int64, error) {
	s = strings.TrimSpace(s)
	factor := int64(1)
	for _, u := range units {
		if len(s) > len(u.name) && strings.EqualFold(s[len(s)-len(u.name):], u.name) {
			s, factor = strings.TrimSpace(s[:len(s)-len(u.name)]), u.bytes
			break
		}
	}
	if s == "" || len(s) > 32 || strings.Trim(strings.TrimPrefix(s, "-"), "0123456789.") != "" {
		return 0, errSize
	}
	amount, ok := new(big.Rat).SetString(s)
	if !ok {
		return 0, errSize
	}
	amount.Mul(amount, new(big.Rat).SetInt64(factor))
	switch {
	case !amount.IsInt():
		return 0, errSizeWhole
	case !amount.Num().IsInt64():
		return 0, ErrSizeRange
	}
	return amount.Num().Int64(), nil
}

// ParseSizeWithin is like ParseSize, but allows only sizes from `low` to `high`. The error names
// the bound that was exceeded.
func ParseSizeWithin(s string, low, high int64) (int64, error) {
	n, err := ParseSize(s)
	switch {
	case errors.Is(err, ErrSizeRange) && strings.HasPrefix(strings.TrimSpace(s), "-"):
		n, err = math.MinInt64, nil
	case errors.Is(err, ErrSizeRange):
		return 0, tooMuch(high)
	}
	if err != nil {
		return 0, err
	}
	return n, CheckSize(n, low, high)
}

// CheckSize returns an error if a size is below `low` or above `high`. The error names that bound.
func CheckSize(n, low, high int64) error {
	switch {
	case n < low:
		return fmt.Errorf("too little: the minimum is %s", FormatSize(low))
	case n > high:
		return tooMuch(high)
	}
	return nil
}

func tooMuch(high int64) error {
	switch {
	case high == math.MaxInt64:
		return errors.New("too much: it must be less than 8192PiB")
	case (high+1)%(1<<50) == 0:
		return fmt.Errorf("too much: it must be less than %s", FormatSize(high+1))
	}
	return fmt.Errorf("too much: the limit is %s", FormatSize(high))
}

// FormatSize returns a size in the largest unit that represents it exactly.
func FormatSize(n int64) string {
	for _, u := range units {
		if n != 0 && n%u.bytes == 0 {
			return fmt.Sprintf("%d%s", n/u.bytes, u.name)
		}
	}
	return fmt.Sprintf("%dB", n)
}

// ShowSize returns a size for people to read, in the largest unit of which it has at least one,
// with enough digits to compare: "1.02 GiB". ParseSize reads it too.
func ShowSize(n int64) string {
	value, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if math.Abs(value) < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	digits := 1
	if math.Abs(value) < 10 {
		digits = 2
	}
	text := strconv.FormatFloat(value, 'f', digits, 64)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".") + " " + unit
}

// FormatRoughly returns a size for a spec, rounded up to a whole MiB.
func FormatRoughly(n int64) string { return FormatSize(RoundUp(n)) }

// RoundUp rounds up to a whole MiB.
func RoundUp(n int64) int64 {
	const mebi = 1 << 20
	if rest := n % mebi; rest > 0 && n <= math.MaxInt64-mebi {
		n += mebi - rest
	}
	return n
}
