package screen

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestBarInPlainLines(t *testing.T) {
	for name, test := range map[string]struct {
		steps []int64
		want  string
	}{
		"first and last are shown":        {[]int64{0, 1, 2, 3}, "work: 0 done\nwork: 3 done\n"},
		"the same is not said twice":      {[]int64{0, 0, 3, 3}, "work: 0 done\nwork: 3 done\n"},
		"what never ends has no last one": {[]int64{1, 2}, "work: 1 done\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			b := New(&out).Bar("work", 3)
			for _, done := range test.steps {
				b.Update(done, string(rune('0'+done))+" done")
			}
			b.Close()
			if out.String() != test.want {
				t.Errorf("it showed %q, want %q", out.String(), test.want)
			}
		})
	}
}

// TestNothingSaidIsLost while a bar is drawn, is full, and ends, however soon.
func TestNothingSaidIsLost(t *testing.T) {
	for name, test := range map[string]struct {
		done int64
		want string
	}{
		"a bar that gets full":   {3, "done"},
		"a bar that is not over": {1, "not over"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				var out strings.Builder
				s := &Screen{Out: &out, live: true}
				b := s.Bar("work", 3)
				var saying sync.WaitGroup
				saying.Go(func() {
					for i := range 100 {
						s.Say(fmt.Sprintf("line %d.", i))
						runtime.Gosched()
					}
				})
				b.Update(test.done, "on it")
				s.Say("line before the end.")
				b.Close()
				saying.Wait()
				shown := out.String()
				for i := range 100 {
					if line := fmt.Sprintf("line %d.\n", i); strings.Count(shown, line) != 1 {
						t.Fatalf("%q is not shown once:\n%q", line, shown)
					}
				}
				if !strings.Contains(shown, "line before the end.\n") || !strings.Contains(shown, "work: on it") || !strings.Contains(shown, test.want) {
					t.Fatalf("want the line before the end and %q:\n%q", test.want, shown)
				}
			}
		})
	}
}
