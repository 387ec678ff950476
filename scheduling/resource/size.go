package resource

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// units are the units of memory, those that FormatSize prefers first.
var units = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1},
}

var (
	errSize      = errors.New("not a size: write bytes, or a number with a unit of KiB, MiB, GiB, TiB, KB, MB, GB or TB, such as 512MiB")
	errSizeWhole = errors.New("not a whole number of bytes")
)

// ErrSizeRange is returned for a size that no int64 can hold.
var ErrSizeRange = errors.New("beyond any size")

// ParseSize returns the bytes that text such as 1.5GiB says. The letters' case
// does not matter.
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

// FormatSize returns a size with the largest unit that says it exactly.
func FormatSize(n int64) string {
	for _, u := range units {
		if n != 0 && n%u.bytes == 0 {
			return fmt.Sprintf("%d%s", n/u.bytes, u.name)
		}
	}
	return fmt.Sprintf("%dB", n)
}
