package gossip

import (
	"time"

	"github.com/hashicorp/memberlist"
)

// Wait has the replica wait so long for peers, and for a rival's answer.
func (c *Config) Wait(patience time.Duration) {
	c.meetPatience, c.rivalPatience = patience, patience
	c.tune = func(settings *memberlist.Config) { settings.TCPTimeout = patience }
}
