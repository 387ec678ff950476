package resource

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"512MiB": 512 << 20, "2GB": 2e9, "2 gb": 2e9, "1.5GiB": 3 << 29, "1048576": 1 << 20, "1048576B": 1 << 20, "0.5KiB": 512, "64TiB": 64 << 40,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("size %q is %d, %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]error{
		"": errSize, "MiB": errSize, "1XB": errSize, "1e3": errSize, "1/2GiB": errSize, "--1": errSize, "1.5B": errSizeWhole,
		"0.3KiB": errSizeWhole, "9223372036854775808": ErrSizeRange, "8388608TiB": ErrSizeRange,
	} {
		if got, err := ParseSize(text); !errors.Is(err, want) {
			t.Errorf("size %q is %d, %v, want %v", text, got, err, want)
		}
	}
}

func TestFormatRoughly(t *testing.T) {
	for n, want := range map[int64]string{0: "0B", 1: "1MiB", 1 << 20: "1MiB", 1<<20 + 1: "2MiB", 1 << 30: "1GiB", -1: "-1B"} {
		if got := FormatRoughly(n); got != want {
			t.Errorf("%d bytes are %s, want %s", n, got, want)
		}
	}
}

func TestParseSizeWithin(t *testing.T) {
	for text, want := range map[string]string{
		"1MiB": "", "64TiB": "", "1048575": "too little: the minimum is 1MiB", "-1": "too little: the minimum is 1MiB",
		"-99999999TiB": "too little: the minimum is 1MiB", "65TiB": "too much: the limit is 64TiB", "99999999TiB": "too much: the limit is 64TiB",
		"much": errSize.Error(), "": errSize.Error(), "0.3KiB": errSizeWhole.Error(),
	} {
		n, err := ParseSizeWithin(text, 1<<20, 64<<40)
		if got := fmt.Sprint(err); err != nil && got != want || err == nil && (want != "" || n <= 0) {
			t.Errorf("size %q is %d, %v, want %q", text, n, err, want)
		}
	}
	if _, err := ParseSizeWithin("8388608TiB", 0, math.MaxInt64); err == nil || err.Error() != "too much: it must be less than 8192PiB" {
		t.Errorf("the least that is too large for a size: %v", err)
	}
}

func TestShowSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1 << 10: "1 KiB", 1040 << 20: "1.02 GiB", 100 << 20: "100 MiB", 15 << 19: "7.5 MiB", 1 << 62: "4096 PiB", -3 << 20: "-3 MiB",
	} {
		if got := ShowSize(n); got != want {
			t.Errorf("%d bytes are shown as %q, want %q", n, got, want)
		}
	}
}

// TestSizesAreReadAsTheyAreWritten reads what is written, to the byte if it was exact.
func TestSizesAreReadAsTheyAreWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64().Draw(t, "n")
		if got, err := ParseSize(FormatSize(n)); err != nil || got != n {
			t.Errorf("%d is written as %s and read as %d, %v", n, FormatSize(n), got, err)
		}
		shown, err := ParseSize(ShowSize(n))
		if errors.Is(err, errSizeWhole) || errors.Is(err, ErrSizeRange) {
			// Digits are left out, and the greatest size is rounded up.
			return
		}
		if err != nil || math.Abs(float64(shown)-float64(n)) > math.Abs(float64(n))/100 {
			t.Errorf("%d is shown as %s and read as %d, %v", n, ShowSize(n), shown, err)
		}
	})
}
