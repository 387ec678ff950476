package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// look gets a page of a process at an address, with the certificate of a folder.
func (c *cluster) look(t testing.TB, folder, url string) (status int, page string, err error) {
	t.Helper()
	client := http.DefaultClient
	if folder != "" {
		if client, err = c.httpClient(folder); err != nil {
			t.Fatal(err)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

// figures returns the metrics of a process, by name and labels.
func (c *cluster) figures(t testing.TB, folder, base string) (map[string]float64, error) {
	t.Helper()
	status, page, err := c.look(t, folder, base+"/metrics")
	if err != nil {
		return nil, fmt.Errorf("metrics of %s: %w", base, err)
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("metrics of %s: %d %s", base, status, page)
	}
	all := map[string]float64{}
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || line[0] == '#' {
			continue
		}
		if all[line[:i]], err = strconv.ParseFloat(line[i+1:], 64); err != nil {
			return nil, fmt.Errorf("metrics of %s: line %q: %w", base, line, err)
		}
	}
	return all, nil
}

func (c *cluster) replicaURL(name string) string { return "https://" + c.addresses[name] }

// TestFigures looks at the metrics and the health of a cluster before and after jobs.
func TestFigures(t *testing.T) {
	c := newCluster(t, here, "n1")
	ports := freePorts(t, here, 2)
	// n1 shows its metrics in plaintext, n2 with a certificate that is fit for it.
	if printed, code := weir(t, "tls", "issue", "--dir", c.certs(), "--role", "agent", "--name", c.node("n2"), "--hosts", here); code != 0 {
		t.Fatalf("tls issue: exit code %d\n%s", code, printed)
	}
	plain, guarded := net.JoinHostPort(here, strconv.Itoa(ports[0])), net.JoinHostPort(here, strconv.Itoa(ports[1]))
	c.startAgent("n1", "--metrics-listen", plain, "--metrics-insecure")
	c.startAgent("n2", "--metrics-listen", guarded)
	c.ready(t, 2)
	pages := map[string]struct{ folder, base string }{
		"n1": {"", "http://" + plain}, "n2": {"user-ann", "https://" + guarded},
	}
	for _, name := range replicaNames {
		pages[name] = struct{ folder, base string }{"user-ann", c.replicaURL(name)}
	}
	for name, page := range pages {
		until(t, name+" is ready", func() string {
			status, text, err := c.look(t, page.folder, page.base+"/readyz")
			if err == nil && status == http.StatusOK && strings.HasPrefix(text, `{"ready":true,`) {
				return ""
			}
			return fmt.Sprintf("%d %v %s", status, err, text)
		})
		until(t, name+" is alive", func() string {
			status, text, err := c.look(t, page.folder, page.base+"/healthz")
			if err != nil || status != http.StatusOK {
				return fmt.Sprintf("%d %v %s", status, err, text)
			}
			return ""
		})
	}

	operations := c.countsStarts(t, "user-ann")
	jobs := operations * jobsOfAnOperation
	for _, name := range replicaNames {
		c.shows(t, pages[name].folder, pages[name].base, map[string]float64{
			`weir_jobs_finished_total{reason="",state="completed"}`: jobs, `weir_operations_finished_total{state="completed"}`: operations,
			`weir_invariant_breaches_total`: 0, `weir_nodes{state="online"}`: 2, `weir_gossip_members`: 3, `weir_jobs_running`: 0, `weir_jobs_pending`: 0,
			`weir_operations_archived`: operations, `weir_remote_peers{role="replica"}`: 2,
		})
	}
	until(t, "the leader shows its figures", func() string {
		return c.differ(t, "operator-admin", c.replicaURL(c.leader(t)), map[string]float64{
			`weir_raft_leader`: 1, `weir_leader_active`: 1, `weir_raft_last_contact_seconds`: 0,
			`weir_pool_usage_share_ratio{pool="<Root>",tree="default"}`: 0, `weir_scheduler_starts_in_flight`: 0,
		})
	})
	until(t, "agents have counted every job", func() string {
		sum := 0.0
		for _, agent := range []string{"n1", "n2"} {
			figures, err := c.figures(t, pages[agent].folder, pages[agent].base)
			if err != nil {
				return err.Error()
			}
			if figures["weir_agent_registered"] != 1 || figures["weir_agent_lease_left_seconds"] <= 0 || figures["weir_agent_heartbeats_acknowledged_total"] == 0 {
				return fmt.Sprintf("%s: registered %v, lease %v", agent, figures["weir_agent_registered"], figures["weir_agent_lease_left_seconds"])
			}
			sum += figures[`weir_agent_jobs_ended_total{reason="",state="completed"}`]
		}
		if sum == jobs {
			return ""
		}
		return fmt.Sprintf("they have counted %v of %v", sum, jobs)
	})
	c.unseen(t, guarded)
}

// jobsOfAnOperation is how many jobs each operation of TestFigures has.
const jobsOfAnOperation = 5.0

// countsStarts runs an operation under one leader, which counts each start once, and returns
// how many it took: a leader that falls does not learn what became of its last starts.
func (c *cluster) countsStarts(t testing.TB, folder string) (operations float64) {
	t.Helper()
	starts := func() (sum float64) {
		until(t, "every replica shows its starts", func() string {
			sum = 0
			for _, name := range replicaNames {
				figures, err := c.figures(t, folder, c.replicaURL(name))
				if err != nil {
					return err.Error()
				}
				sum += figures["weir_scheduler_starts_total"]
			}
			return ""
		})
		return sum
	}
	for counted := false; !counted; operations++ {
		term, before := c.term(t), starts()
		c.ends(t, c.start(t, object{"tasks": object{"t": small(jobsOfAnOperation, "run", c.folder(t), "10ms")}}), "completed")
		until(t, "the leader has counted every start", func() string {
			sum := starts() - before
			counted = sum == jobsOfAnOperation
			if counted || c.term(t) != term {
				return ""
			}
			return fmt.Sprintf("%v of %v were counted", sum, jobsOfAnOperation)
		})
	}
	return operations
}

// shows waits until the metrics of a process have the values that are wanted.
func (c *cluster) shows(t testing.TB, folder, base string, want map[string]float64) {
	t.Helper()
	until(t, base+" shows its figures", func() string { return c.differ(t, folder, base, want) })
}

// differ says which metrics of a process have not the values that are wanted.
func (c *cluster) differ(t testing.TB, folder, base string, want map[string]float64) (differences string) {
	t.Helper()
	figures, err := c.figures(t, folder, base)
	if err != nil {
		return err.Error()
	}
	for name, value := range want {
		if got, ok := figures[name]; !ok || got != value {
			differences += fmt.Sprintf("%s is %v (there: %v), want %v; ", name, got, ok, value)
		}
	}
	return differences
}

// unseen checks that metrics are not for everybody.
func (c *cluster) unseen(t testing.TB, guarded string) {
	t.Helper()
	agent := "agent-" + c.node("n1")
	until(t, "an agent that looks at a replica is told that it may not", func() string {
		status, page, err := c.look(t, agent, c.replicaURL("r1")+"/metrics")
		if err != nil || status != http.StatusForbidden {
			return fmt.Sprintf("%d %v %.100s, want 403", status, err, page)
		}
		return ""
	})
	if status, _, err := c.look(t, agent, "https://"+guarded+"/metrics"); err == nil {
		t.Errorf("an agent looks at another one: %d, want no connection", status)
	}
	for name, test := range map[string]struct {
		flags []string
		want  string
	}{
		"plaintext to others":   {[]string{"--metrics-listen", "0.0.0.0:0", "--metrics-insecure"}, "use 127.0.0.1"},
		"no server certificate": {[]string{"--metrics-listen", "127.0.0.1:0"}, "reissue it with --hosts"},
		"nothing to protect":    {[]string{"--metrics-insecure"}, "has no effect without --metrics-listen"},
	} {
		flags := append(c.agentFlags("n1", "--data", c.data("other")), test.flags...)
		if printed, code := weir(t, flags...); code != 2 || !strings.Contains(printed, test.want) {
			t.Errorf("%s: exit code %d, want 2 and %q\n%s", name, code, test.want, printed)
		}
	}
}
