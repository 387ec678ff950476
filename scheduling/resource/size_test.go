package resource

import (
	"errors"
	"testing"
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
