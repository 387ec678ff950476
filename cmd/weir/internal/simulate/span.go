package simulate

import (
	"fmt"
	"strings"
	"time"

	"weir/scheduling/option"
)

const day = 24 * time.Hour

// maxTime is the longest time accepted.
const maxTime = 100 * 365 * day

// span is a time such as 90s, 12h or 7d12h.
type span struct{ time.Duration }

// ReadOption implements option.Reader.
func (s *span) ReadOption(v *option.Value) error {
	fault := fmt.Errorf("is %s: a time with a unit is needed, such as 30s, 12h or 7d", v)
	if v.Kind != option.Text {
		return fault
	}
	text := strings.TrimSpace(v.Text)
	var days time.Duration
	if before, after, ok := strings.Cut(text, "d"); ok {
		whole, err := time.ParseDuration(before + "h")
		if err != nil || whole > maxTime/24 {
			return fault
		}
		if days, text = 24*whole, after; text == "" {
			text = "0s"
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || days < 0 || d > maxTime || days+d > maxTime {
		return fault
	}
	s.Duration = days + d
	return nil
}

// window is a part of each day; it may span midnight.
type window struct{ from, to time.Duration }

// ReadOption implements option.Reader.
func (w *window) ReadOption(v *option.Value) error {
	from, to, _ := strings.Cut(v.Text, "-")
	midnight, _ := time.Parse("15:04", "00:00")
	begin, beginErr := time.Parse("15:04", strings.TrimSpace(from))
	end, endErr := time.Parse("15:04", strings.TrimSpace(to))
	if beginErr != nil || endErr != nil || begin.Equal(end) {
		return fmt.Errorf("is %s: must be a range of times of day, such as 08:00-20:00", v)
	}
	*w = window{begin.Sub(midnight), end.Sub(midnight)}
	return nil
}

func (w window) has(at time.Duration) bool {
	at %= day
	if w.from < w.to {
		return w.from <= at && at < w.to
	}
	return at >= w.from || at < w.to
}
