package actors

import (
	"fmt"

	"weir/actors/remote"
	"weir/cluster/identity"
)

// admit decides which processes may connect to a replica. An agent may not use the name of another
// connected agent, because the jobs of that agent would end. When an agent's process has exited,
// its connection is closed, and its next process may connect.
func admit(c remote.Candidate) error {
	if c.Identity.Role == identity.Agent && c.Rival != 0 {
		return fmt.Errorf("node name %q is in use by another connected agent: stop one of them, or give this one its own name and certificate",
			c.Identity.Name)
	}
	return nil
}
