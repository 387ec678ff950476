package devcluster

import (
	"encoding/csv"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Kind is the kind of a member.
type Kind string

// The kinds.
const (
	Replica Kind = "replica"
	Agent   Kind = "agent"
)

// Member is one process of a cluster.
type Member struct {
	// Name is r1, r2, … for replicas and, by default, n1, n2, … for agents.
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	// Address is a replica's host:port, empty for agents, which listen nowhere.
	Address string `json:"address,omitempty"`
	// Program is the path of weir, if the member has one of its own. Arguments are its arguments.
	Program   string   `json:"program,omitempty"`
	Arguments []string `json:"arguments"`
	// Data is the member's data folder; Log is the file with its output.
	Data string `json:"data"`
	Log  string `json:"log"`

	// Asked counts the requested starts. Started is the value of Asked that was last
	// carried out.
	Asked   int `json:"asked"`
	Started int `json:"started"`
	// Process is the member's latest process.
	Process Process `json:"process"`
	// LogStart is where the output of the latest process begins in Log.
	LogStart int64 `json:"log_start"`
	// Failure is the error of the latest start; empty if it succeeded.
	Failure string `json:"failure,omitempty"`
}

// plan returns the members of a cluster. ports are the replicas' ports; ranges are the
// first ports of the agents' ranges for jobs.
func plan(c *Config, ports, ranges []int) []Member {
	paths, names := layout{c.Dir}, c.Names()
	peers := make([]string, c.Replicas)
	addresses := make([]string, c.Replicas)
	for i := range peers {
		addresses[i] = net.JoinHostPort(c.host(names[i]), strconv.Itoa(ports[i]))
		peers[i] = names[i] + "=" + addresses[i]
	}
	var members []Member
	for i := range c.Replicas {
		name := names[i]
		arguments := []string{
			"server", "--id", name, "--data-root", listed(c.DataRoots), "--listen", addresses[i], "--advertise", addresses[i],
			"--peers", strings.Join(peers, ","), "--timing", c.Timing,
			// The replicas share a disk with everything else on this machine.
			"--disk-stall", "10s",
		}
		arguments = append(arguments, c.ReplicaArguments...)
		members = append(members, Member{Name: name, Kind: Replica, Address: addresses[i], Arguments: arguments})
	}
	for i := range c.Agents {
		name := names[c.Replicas+i]
		arguments := []string{
			"agent", "--name", name, "--replicas", strings.Join(peers, ","), jobProxyFlag, c.JobProxy,
			"--cpu", strconv.Itoa(c.Share.CPU), "--memory", fmt.Sprintf("%dMiB", c.Share.Memory>>20),
			"--user-slots", strconv.Itoa(c.Share.Slots), "--on-stop", "end",
			"--host", c.host(name), "--ports", fmt.Sprintf("%d-%d", ranges[i], ranges[i]+jobPorts-1),
		}
		members = append(members, Member{Name: name, Kind: Agent, Arguments: arguments})
	}
	for i := range members {
		m := &members[i]
		m.Asked = 1
		m.Data, m.Log = paths.data(m.Name), paths.log(m.Name)
		m.Arguments = append(m.Arguments, "--data", m.Data, "--log-level", c.LogLevel)
		if c.Insecure {
			m.Arguments = append(m.Arguments, "--insecure-plaintext")
		} else {
			m.Arguments = append(m.Arguments, "--credentials", paths.identity(m.Name))
		}
		if m.Kind == Agent {
			m.Arguments = append(m.Arguments, c.AgentArguments...)
		}
	}
	return members
}

// listed writes texts as a flag that takes several reads them: commas are between them, and a text that
// has one of its own is quoted.
func listed(texts []string) string {
	var out strings.Builder
	w := csv.NewWriter(&out)
	_ = w.Write(texts) // a Builder takes everything
	w.Flush()
	return strings.TrimSuffix(out.String(), "\n")
}
