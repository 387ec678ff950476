package gossip

import (
	"fmt"
	"time"

	"github.com/hashicorp/memberlist"
)

// Profile chooses how fast failures are detected, and at what cost.
type Profile uint8

// The profiles.
const (
	// Local is the default: a crash is found in one to two seconds, for a few
	// packets a second. For clusters within one network.
	Local Profile = iota
	// Fast finds a crash within a second. A replica that is short of
	// processor time may be considered dead for a moment. For tests.
	Fast
)

var profileNames = [...]string{Local: "local", Fast: "fast"}

// String returns the profile's name.
func (p Profile) String() string {
	if int(p) < len(profileNames) {
		return profileNames[p]
	}
	return fmt.Sprintf("profile(%d)", uint8(p))
}

// retransmissions is the number of random members to which each member passes a message on, in
// clusters of up to nine. With 2, memberlist's value for the loopback network, a message now and
// then misses one of five members. With 8, at most one message in a hundred thousand does.
const retransmissions = 8

// apply sets the timings of config, which starts out as memberlist's own for
// local networks. A failed probe makes a member suspect after ProbeInterval;
// it is dead SuspicionMult·ProbeInterval later unless it objects.
func (p Profile) apply(config *memberlist.Config) {
	config.RetransmitMult = retransmissions
	switch p {
	case Local:
		config.ProbeInterval = 300 * time.Millisecond
		config.ProbeTimeout = 150 * time.Millisecond
		config.SuspicionMult = 4
		config.SuspicionMaxTimeoutMult = 2
		config.GossipInterval = 50 * time.Millisecond
		config.PushPullInterval = 5 * time.Second
		config.TCPTimeout = 3 * time.Second
		config.AwarenessMaxMultiplier = 4
	case Fast:
		config.ProbeInterval = 200 * time.Millisecond
		config.ProbeTimeout = 100 * time.Millisecond
		config.SuspicionMult = 2
		config.SuspicionMaxTimeoutMult = 2
		config.GossipInterval = 20 * time.Millisecond
		config.PushPullInterval = time.Second
		config.TCPTimeout = 2 * time.Second
		config.AwarenessMaxMultiplier = 2
	}
}

// joinInterval is how long to wait, on average, between attempts to reach
// peers that are not members.
func (p Profile) joinInterval() time.Duration {
	if p == Fast {
		return 100 * time.Millisecond
	}
	return 500 * time.Millisecond
}
