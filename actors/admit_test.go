package actors

import (
	"strings"
	"testing"

	"weir/actors/remote"
	"weir/cluster/identity"
)

func TestAdmit(t *testing.T) {
	agent := identity.Identity{Cluster: "c", Role: identity.Agent, Name: "n1"}
	replica := identity.Identity{Cluster: "c", Role: identity.Replica, Name: "r1"}
	for name, test := range map[string]struct {
		candidate remote.Candidate
		want      string
	}{
		"an agent":                          {remote.Candidate{Identity: agent, Incarnation: 1}, ""},
		"an agent while another has a name": {remote.Candidate{Identity: agent, Incarnation: 2, Rival: 1}, `"n1" is in use`},
		"the next life of a replica":        {remote.Candidate{Identity: replica, Incarnation: 2, Rival: 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := admit(test.candidate)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
