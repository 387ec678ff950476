package bench

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/actors/agent"
	"weir/cmd/weir/internal/devcluster"
)

// stages are the sums of those that jobs have passed, on one node or all.
type stages map[agent.Stage]agent.StageSum

// since returns what was passed after before.
func (s stages) since(before stages) stages {
	passed := stages{}
	for stage, sum := range s {
		passed[stage] = agent.StageSum{Jobs: sum.Jobs - before[stage].Jobs, Took: sum.Took - before[stage].Took}
	}
	return passed
}

// String tells how long a job was in each stage on average, but for those that none has passed.
func (s stages) String() string {
	var text []string
	for _, stage := range agent.Stages() {
		if sum := s[stage]; sum.Jobs > 0 {
			text = append(text, fmt.Sprintf("%s %.1f ms", stage, millis(sum.Took)/float64(sum.Jobs)))
		}
	}
	return strings.Join(text, ", ")
}

// stages returns the sums of all nodes.
func (c *cluster) stages(b *testing.B) stages {
	b.Helper()
	record, err := devcluster.Load(c.Dir)
	if err != nil {
		b.Fatal(err)
	}
	all := stages{}
	for _, m := range record.Members {
		if m.Kind != devcluster.Agent {
			continue
		}
		for stage, sum := range c.figures(b, m).stages {
			all[stage] = agent.StageSum{Jobs: all[stage].Jobs + sum.Jobs, Took: all[stage].Took + sum.Took}
		}
	}
	return all
}

// figures are what an agent tells of itself.
type figures struct {
	// processor is its own time, without that of its children.
	processor time.Duration
	stages    stages
}

// figures asks an agent.
func (c *cluster) figures(b *testing.B, m devcluster.Member) figures {
	b.Helper()
	answer, err := http.Get("http://" + metricsAddress(b, m) + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	values, err := readMetrics(answer.Body)
	if err != nil {
		b.Fatalf("metrics of %s: %v", m.Name, err)
	}
	seconds := func(name string) time.Duration { return time.Duration(values[name] * float64(time.Second)) }
	f := figures{processor: seconds("process_cpu_seconds_total"), stages: stages{}}
	for _, stage := range agent.Stages() {
		labels := fmt.Sprintf("{stage=%q}", stage)
		f.stages[stage] = agent.StageSum{Jobs: uint64(values["weir_agent_job_stages_total"+labels]), Took: seconds("weir_agent_job_stage_seconds_total" + labels)}
	}
	return f
}

// readMetrics returns metrics by name and labels.
func readMetrics(page io.Reader) (map[string]float64, error) {
	values := map[string]float64{}
	lines := bufio.NewScanner(page)
	for lines.Scan() {
		if i := strings.LastIndexByte(lines.Text(), ' '); i >= 0 && lines.Text()[0] != '#' {
			value, err := strconv.ParseFloat(lines.Text()[i+1:], 64)
			if err != nil {
				return nil, err
			}
			values[lines.Text()[:i]] = value
		}
	}
	return values, lines.Err()
}

// metricsAddress is where an agent shows its metrics, as it has logged.
func metricsAddress(b *testing.B, m devcluster.Member) string {
	b.Helper()
	log, err := os.ReadFile(m.Log)
	if err != nil {
		b.Fatal(err)
	}
	_, line, found := strings.Cut(string(log[m.LogStart:]), `msg="serving metrics"`)
	_, address, _ := strings.Cut(line, " address=")
	fields := strings.Fields(address)
	if !found || len(fields) == 0 {
		b.Fatalf("agent %s does not tell where its metrics are:\n%s", m.Name, log)
	}
	return fields[0]
}
