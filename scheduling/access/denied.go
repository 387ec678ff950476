package access

import (
	"fmt"
	"strings"

	"weir/scheduling"
)

// Denied says that somebody lacks the right to something.
type Denied struct {
	User scheduling.User
	// What is what the user may not do, such as `use pool "ads"`.
	What string
	// Right is the right that is missing; "" if only operators may do it.
	Right Right
	// Pool is the pool on which the right would have to be given, and Tree its tree.
	Tree scheduling.TreeName
	Pool scheduling.PoolName
	// Grant is the option of weir account allow that gives what is missing; "" if it is no account.
	Grant string
	// Holders are the subjects that have the right.
	Holders []Subject
}

// maxHolders bounds the subjects that an error names.
const maxHolders = 8

// Error says who may not do what, which right is missing, who has it, and how it is given.
func (d *Denied) Error() string {
	text := fmt.Sprintf("user %q may not %s: ", d.User, d.What)
	if d.Grant != "" {
		return text + fmt.Sprintf("this needs a grant: an operator gives it with: weir account allow %s %s", UserSubject(d.User), d.Grant)
	}
	if d.Right == "" {
		return text + "only operators may (certificates with role operator): ask one, or whoever keeps the authority's key for a certificate (weir tls issue --role operator)"
	}
	text += fmt.Sprintf("this needs the right %s on pool %q", d.Right, d.Pool)
	holders := make([]string, len(d.Holders))
	for i, holder := range d.Holders {
		holders[i] = string(holder)
	}
	switch {
	case len(holders) == 0:
		text += ", which only operators have"
	case len(holders) > maxHolders:
		text += fmt.Sprintf(", which %s and %d more have", strings.Join(holders[:maxHolders], ", "), len(holders)-maxHolders)
	default:
		text += ", held by " + strings.Join(holders, ", ")
	}
	return text + fmt.Sprintf(": it is given by weir pool acl '%s' --tree %s --allow %s=%s", d.Pool, d.Tree, UserSubject(d.User), d.Right)
}
