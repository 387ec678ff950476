package remote

import (
	"fmt"
	"strings"

	"weir/cluster/identity"
)

// PeerName returns the name of id among peers: role/name.
func PeerName(id identity.Identity) string {
	return id.Role.String() + "/" + id.Name
}

// ParsePeer splits peer, role/name, into its role and name.
func ParsePeer(peer string) (identity.Role, string, error) {
	prefix, name, ok := strings.Cut(peer, "/")
	if !ok || name == "" {
		return 0, "", fmt.Errorf("parse peer %q: must be role/name, such as replica/r1", peer)
	}
	role, err := identity.ParseRole(prefix)
	if err != nil {
		return 0, "", fmt.Errorf("parse peer %q: %w", peer, err)
	}
	return role, name, nil
}
