package figures

import (
	"regexp"
	"strings"
)

// Colors of terminals (ECMA-48).
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// hues are the colors of states, by the first of these words in them: red is what has gone wrong, yellow is what
// waits or leaves, green is what goes on. What has ended well has none.
var hues = []struct {
	color string
	words []string
}{
	{red, []string{"failed", "failing", "offline", "lost", "unreachable", "starving", "not ready", "gone"}},
	{yellow, []string{"aborted", "aborting", "pending", "waiting", "starting", "suspended", "draining", "drained", "leaving", "stopping", "replaced", "below"}},
	{green, []string{"running", "online", "live", "materializing", "completing"}},
}

// Painted returns a state in its color. Plain takes the color away.
func Painted(state string) string {
	for _, hue := range hues {
		for _, word := range hue.words {
			if strings.Contains(state, word) {
				return hue.color + state + plain
			}
		}
	}
	return state
}

var colors = regexp.MustCompile("\x1b\\[[0-9;]*m")

// Plain returns a text without colors.
func Plain(text string) string { return colors.ReplaceAllString(text, "") }
