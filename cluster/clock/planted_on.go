//go:build plantedbugs

package clock

import (
	"os"
	"strings"
	"time"
)

// wrong is how far the wall clock is ahead of that of the machine: what the file says that the
// environment names, such as 720h. The file may change at any time.
func wrong() time.Duration {
	said, err := os.ReadFile(os.Getenv("WEIR_PLANTED_CLOCK"))
	if err != nil {
		return 0
	}
	ahead, err := time.ParseDuration(strings.TrimSpace(string(said)))
	if err != nil {
		panic(err)
	}
	return ahead
}
