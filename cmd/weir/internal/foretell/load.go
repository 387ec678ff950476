package foretell

import (
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/apipb"
)

// pool is a pool of the load, and its part of what is submitted.
type pool struct {
	name    string
	options map[string]any
	part    float64
}

// pools are four that meet most rules: plain weights, a strong guarantee, and one after the other.
var pools = []pool{
	{"plain", map[string]any{"weight": 1}, .3},
	{"heavy", map[string]any{"weight": 3}, .3},
	{"guaranteed", map[string]any{"strong_guarantee_resources": map[string]any{"cpu": 2}}, .2},
	{"ordered", map[string]any{"mode": "fifo"}, .2},
}

func (p pool) wanted() (*apipb.Pool, error) {
	options, err := structpb.NewStruct(p.options)
	return &apipb.Pool{Name: p.name, Options: options}, err
}

// submission is an operation of the load: it is started at a time since the beginning.
type submission struct {
	at     time.Duration
	number int
	pool   string
	jobs   int
	// takes is how long each of its jobs sleeps.
	takes []time.Duration
}

const (
	// pressure is how much more work is submitted than slots can do.
	pressure = 1.15
	// Operations have up to mostJobs jobs, whose times are within a factor of spread of the operation's own.
	mostJobs, spread = 16, 1.5
	// shortest and longest bound the operation's own.
	shortest, longest = 5 * time.Second, 90 * time.Second
)

// load returns what is submitted in some time to a cluster that runs so many jobs at once. The first operations
// come together, so that they have to wait.
func load(seed uint64, slots int, lasts time.Duration) []submission {
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // A load that can be repeated.
	var all []submission
	var work time.Duration
	for {
		at := max(0, time.Duration(float64(work)/float64(slots)/pressure)-longest)
		if at >= lasts {
			return all
		}
		s := submission{at: at, number: len(all), jobs: 1 + random.IntN(mostJobs)}
		for x := random.Float64(); s.pool == ""; {
			for _, p := range pools {
				if x -= p.part; x < 0 {
					s.pool = p.name
					break
				}
			}
		}
		own := float64(shortest) + (float64(longest-shortest))*random.Float64()*random.Float64()
		for range s.jobs {
			took := time.Duration(own * (1/spread + (spread-1/spread)*random.Float64())).Round(time.Millisecond)
			s.takes = append(s.takes, took)
			work += took
		}
		all = append(all, s)
	}
}

// spec returns the operation. Each job finds out by its cookie how long it sleeps.
func (s submission) spec() (*structpb.Struct, error) {
	script := "case $WEIR_JOB_COOKIE in "
	for i, took := range s.takes {
		script += fmt.Sprintf("%d) exec sleep %.3f;; ", i, took.Seconds())
	}
	return structpb.NewStruct(map[string]any{
		"title": fmt.Sprintf("estimates %d", s.number), "pool": s.pool,
		"tasks": map[string]any{"sleep": map[string]any{
			"job_count": s.jobs, "shell": true, "command": script + "esac; exit 1", "cpu_limit": 1, "memory_limit": "16MiB",
		}},
	})
}
