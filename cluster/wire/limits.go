package wire

import (
	"cmp"
	"fmt"
	"runtime"
)

// Limits bound what those cost who have not shown a certificate of this cluster, and how many connections
// one user has. A limit of 0 means its default.
type Limits struct {
	// Address, Subnet and Strangers bound the connections of strangers that are in their handshake:
	// of one address, of one subnet (/24 for IPv4, /64 for IPv6), and of all. Defaults 256, 512 and
	// 1024: a member's handshake takes milliseconds, so more of them are rarely open at once.
	Address, Subnet, Strangers int
	// MemberAddress and Members bound the same for addresses of members: of one address, and of
	// all. Default 4096: many agents may share an address, and all of them reconnect when a replica
	// starts; so may a client with thousands of calls, which opens a connection for each of the first.
	MemberAddress, Members int
	// Handshakes is how many handshakes of strangers compute at once. Default: a quarter of the
	// processors, at least one, so that most of the machine is left for those that are connected.
	// Members have memberTurns times as many besides.
	Handshakes int
	// User is how many connections a client or an operator may have. Default 512: a connection carries
	// 1000 calls, but simple clients open one for each call.
	User int
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Address: cmp.Or(l.Address, 256), Subnet: cmp.Or(l.Subnet, 512), Strangers: cmp.Or(l.Strangers, 1024),
		MemberAddress: cmp.Or(l.MemberAddress, 4096), Members: cmp.Or(l.Members, 4096),
		Handshakes: cmp.Or(l.Handshakes, max(1, runtime.GOMAXPROCS(0)/4)), User: cmp.Or(l.User, 512),
	}
}

func (l Limits) validate() error {
	if min(l.Address, l.Subnet, l.Strangers, l.MemberAddress, l.Members, l.Handshakes, l.User) < 0 {
		return fmt.Errorf("limits %+v: must not be negative", l)
	}
	return nil
}
