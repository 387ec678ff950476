package actors

import (
	"fmt"

	"weir/actors/remote"
	"weir/cluster/identity"
)

// admit decides who may connect to a replica. An agent does not take its name from
// another that is connected: the jobs of the first would end. When an agent's process
// is gone, so is its connection, and its next life may come.
func admit(c remote.Candidate) error {
	if c.Identity.Role == identity.Agent && c.Rival != 0 {
		return fmt.Errorf("node name %q is in use by another connected agent: stop one of them, or give this one its own name and certificate",
			c.Identity.Name)
	}
	return nil
}
