package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/internal/rolling"
	"weir/messages/apipb"
)

// TestLeadershipIsHandedOver (V1) hands over leadership several times: each time one term passes, without an
// election that nobody asked for; writes and commands of people go on without an error, and neither agents nor
// replicas log a warning.
func TestLeadershipIsHandedOver(t *testing.T) {
	// Not beside other tests: replicas that wait for a processor elect another leader.
	const times = 4
	agents := []string{"n1", "n2"}
	c := newCluster(t, here, agents...)
	for _, agent := range agents {
		c.startAgent(agent)
	}
	c.ready(t, len(agents))
	operation := c.start(t, one(small(2, "run", c.folder(t), c.files()+"/never")))
	c.runs(t, operation, 2)
	meter, err := rolling.NewMeter(t.Context(), c.operator(t), "meter")
	if err != nil {
		t.Fatal(err)
	}
	before := map[string]int{}
	for _, name := range slices.Concat(replicaNames, agents) {
		before[name] = len(c.process(name).printed())
	}
	term := c.term(t)
	var pauses []time.Duration
	for range times {
		began, from := time.Now(), c.leader(t)
		if printed, code := c.verb(t, "cluster", "transfer"); code != 0 || strings.Contains(printed, from) {
			t.Fatalf("transfer from %s: exit code %d\n%s", from, code, printed)
		}
		pause, err := meter.Pause(t.Context(), began)
		if err != nil {
			t.Fatal(err)
		}
		pauses = append(pauses, pause)
		// A person sees nothing of it but what was asked for.
		if printed, code := c.verb(t, "op", "get", operation); code != 0 || !strings.Contains(printed, operation) || strings.Contains(printed, "retrying") {
			t.Errorf("weir op get: exit code %d\n%s", code, printed)
		}
		for _, agent := range agents {
			until(t, agent+" follows", func() string { return c.heardSince(t, agent, began) })
		}
	}
	if now := c.term(t); now != term+times {
		t.Errorf("term %d after %d terms from %d on", now, times, term)
	}
	if err := meter.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for name, length := range before {
		for line := range strings.Lines(c.process(name).printed()[length:]) {
			if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
	slices.Sort(pauses)
	t.Logf("writes paused for %v", pauses)
	c.abort(t, operation)
}

// heardSince returns "" once the leader has heard of a node after a moment.
func (c *cluster) heardSince(t *testing.T, agent string, since time.Time) string {
	t.Helper()
	var answer apipb.GetNodeResponse
	c.ask(t, "NodeService/Get", object{"node": c.node(agent)}, &answer)
	if at := answer.GetNode().GetLastHeartbeat().AsTime(); !at.After(since) {
		return fmt.Sprintf("it was heard at %v, not after %v", at, since)
	}
	return ""
}
