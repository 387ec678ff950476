package wire

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// TestMembersHandshakesHaveTime (T5): the handshake of a stranger may take HandshakeTimeout, that from the address of a
// member memberPatience times as long.
func TestMembersHandshakesHaveTime(t *testing.T) {
	for name, test := range map[string]struct {
		member bool
		want   time.Duration
	}{
		"a stranger": {false, 5 * time.Second}, "a member": {true, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate(Config{}.withDefaults())
				defer g.close()
				if test.member {
					// A pipe has no address of its own.
					g.expect(netip.Addr{})
				}
				near, far := net.Pipe()
				defer func() { _, _ = near.Close(), far.Close() }()
				began, v := time.Now(), g.enter(context.Background(), near)
				<-v.ctx.Done()
				if took := time.Since(began); took != test.want {
					t.Errorf("it may take %v, want %v", took, test.want)
				}
				if why, _ := g.leave(v, nil); why != RefusedSlow {
					t.Errorf("it is refused because it is %s", why)
				}
			})
		})
	}
}
