package agent

import "testing"

func TestGroupName(t *testing.T) {
	mine := groupName("n1", "/var/lib/weir-agent/jobs")
	if again := groupName("n1", "/var/lib/weir-agent/jobs"); again != mine {
		t.Errorf("the next life of the agent has the groups %s, want %s", again, mine)
	}
	for story, other := range map[string]string{
		"another cluster's node of the same name": groupName("n1", "/srv/other/jobs"),
		"another node": groupName("n2", "/var/lib/weir-agent/jobs"),
	} {
		if other == mine {
			t.Errorf("%s has the same groups %s", story, mine)
		}
	}
}
