package identity

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Role is the role of a process in its cluster. It decides what others permit it.
type Role uint8

// The roles. The zero Role is none of them and is never accepted.
const (
	// Replica is a server: raft voter, gossip member, public API.
	Replica Role = iota + 1
	// Agent runs jobs on one node, and acts for that node only.
	Agent
	// User submits operations and reads their state, and does what else pools give rights to.
	User
	// Operator is a user who may do everything.
	Operator
	// Gateway makes calls for users who have signed in there, and whom it names.
	Gateway
)

var roleNames = map[Role]string{
	Replica:  "replica",
	Agent:    "agent",
	User:     "user",
	Operator: "operator",
	Gateway:  "gateway",
}

// Roles returns every role, in the order of declaration.
func Roles() []Role { return []Role{Replica, Agent, User, Operator, Gateway} }

// String returns the role's name as used in certificates.
func (r Role) String() string {
	if name, ok := roleNames[r]; ok {
		return name
	}
	return fmt.Sprintf("role(%d)", uint8(r))
}

// ParseRole returns the role called name.
func ParseRole(name string) (Role, error) {
	for _, role := range Roles() {
		if roleNames[role] == name {
			return role, nil
		}
	}
	if name == formerUser {
		return User, nil
	}
	return 0, fmt.Errorf("parse role %q: must be one of %s", name, roleList())
}

// formerUser is the name of the role User in certificates of earlier versions.
const formerUser = "client"

func roleList() string {
	var names []string
	for _, role := range Roles() {
		names = append(names, role.String())
	}
	return strings.Join(names, ", ")
}

// Identity names one process of one cluster.
type Identity struct {
	// Cluster is the id of the cluster that the process belongs to.
	Cluster string
	// Role is the role of the process in the cluster.
	Role Role
	// Name distinguishes processes of one role: a replica id, a node's name, a
	// user's name.
	Name string
}

// scheme is the URI scheme of identities in certificates.
const scheme = "weir"

// wellFormed matches cluster ids and names: they are safe in URIs, file names
// and logs, and have at most 63 bytes, which bounds gossip packet overhead.
var wellFormed = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// Validate returns an error that names the first malformed part of id.
func (id Identity) Validate() error {
	switch {
	case !wellFormed.MatchString(id.Cluster):
		return malformed("cluster id", id.Cluster)
	case roleNames[id.Role] == "":
		return fmt.Errorf("identity: %v: must be one of %s", id.Role, roleList())
	case !wellFormed.MatchString(id.Name):
		return malformed(id.Role.String()+" name", id.Name)
	}
	return nil
}

func malformed(what, value string) error {
	return fmt.Errorf("identity: %s %q: must be 1 to 63 letters, digits, '.', '_' or '-', with a letter or digit first and last", what, value)
}

// String returns the identity's URI, weir://<cluster>/<role>/<name>.
func (id Identity) String() string {
	return scheme + "://" + id.Cluster + "/" + id.Role.String() + "/" + id.Name
}

func (id Identity) uri() *url.URL {
	return &url.URL{Scheme: scheme, Host: id.Cluster, Path: "/" + id.Role.String() + "/" + id.Name}
}

// Parse parses the URI of an identity, as String returns it.
func Parse(text string) (Identity, error) {
	rest, ok := strings.CutPrefix(text, scheme+"://")
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 {
		return Identity{}, fmt.Errorf("parse identity %q: must be weir://<cluster>/<role>/<name>", text)
	}
	role, err := ParseRole(parts[1])
	if err != nil {
		return Identity{}, fmt.Errorf("parse identity %q: %w", text, err)
	}
	id := Identity{Cluster: parts[0], Role: role, Name: parts[2]}
	if err := id.Validate(); err != nil {
		return Identity{}, fmt.Errorf("parse identity %q: %w", text, err)
	}
	return id, nil
}

// ofCertificate returns the identity in cert, which must have exactly one.
func ofCertificate(cert *x509.Certificate) (Identity, error) {
	var found []Identity
	for _, uri := range cert.URIs {
		if uri.Scheme != scheme {
			continue
		}
		id, err := Parse(uri.String())
		if err != nil {
			return Identity{}, err
		}
		found = append(found, id)
	}
	switch len(found) {
	case 0:
		return Identity{}, fmt.Errorf("certificate of %q: carries no weir:// identity", cert.Subject)
	case 1:
		return found[0], nil
	}
	return Identity{}, fmt.Errorf("certificate of %q: carries %d weir:// identities, want one", cert.Subject, len(found))
}
