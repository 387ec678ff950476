package top

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write what is on the screens now into testdata, to be read as a diff")

// TestScreens (W3) compares each view of a contended cluster with testdata, at 60, 100 and 200 columns.
func TestScreens(t *testing.T) {
	for name, keys := range map[string]string{
		"pools":       "",
		"pools-by":    "s s s s s",
		"operations":  "2",
		"ended":       "2 a",
		"pool":        "down down down down enter",
		"operation":   "2 enter",
		"explain":     "2 x",
		"output":      "2 enter enter",
		"nodes":       "3",
		"node":        "3 enter",
		"events":      "4",
		"filter":      "2 / r e s",
		"help":        "?",
		"abort":       "2 A",
		"drain":       "3 D",
		"interrupt":   "2 enter I",
		"unreachable": "2 silence",
	} {
		t.Run(name, func(t *testing.T) {
			var now strings.Builder
			for _, w := range []int{60, 100, 200} {
				d := newDesk(t, Config{Write: name != "pools" && name != "help"}, w, 24)
				for _, key := range strings.Fields(keys) {
					if key == "silence" {
						d.cluster = func(Question) (Answer, error) { return Answer{}, errAway }
						d.after(12 * time.Second)
						continue
					}
					d.press(key)
				}
				fmt.Fprintf(&now, "---- %d columns\n%s", w, d.screen())
			}
			path := filepath.Join("testdata", name+".txt")
			if *rewrite {
				if err := os.WriteFile(path, []byte(now.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), now.String()); diff != "" {
				t.Errorf("-want +now (-rewrite writes it; read the difference):\n%s", diff)
			}
		})
	}
}

// TestColours (W3) shows that colours only repeat what the text says, and that what is selected can be
// told without them.
func TestColours(t *testing.T) {
	d := newDesk(t, Config{}, 100, 24)
	view := d.model.View()
	if want := red.on("starving  "); !strings.Contains(view, want) {
		t.Errorf("no %q in:\n%q", want, view)
	}
	d.has("▸ adhoc", "starving", "below fair")
}
