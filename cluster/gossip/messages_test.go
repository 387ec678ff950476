package gossip

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling"
)

func testMessenger(self scheduling.ReplicaID) *messenger {
	return newMessenger(self, nil, func() int { return 3 }, func(id scheduling.ReplicaID) bool { return id != "removed" }, 4, slog.New(slog.DiscardHandler))
}

func TestReceive(t *testing.T) {
	heard := func(key string, version uint64) *message {
		return &message{topic: "t", key: key, origin: "r2", version: version, payload: []byte("p")}
	}
	for name, test := range map[string]struct {
		in                        []*message
		wantDelivered, wantQueued int
	}{
		"a new one is delivered and passed on": {in: []*message{heard("a", 1)}, wantDelivered: 1, wantQueued: 1},
		"a repeated one is neither":            {in: []*message{heard("a", 1), heard("a", 1)}, wantDelivered: 1, wantQueued: 1},
		"a newer one takes the queue's place":  {in: []*message{heard("a", 1), heard("a", 2)}, wantDelivered: 2, wantQueued: 1},
		"an older one comes too late":          {in: []*message{heard("a", 2), heard("a", 1)}, wantDelivered: 1, wantQueued: 1},
		"keys do not touch each other":         {in: []*message{heard("a", 2), heard("b", 1)}, wantDelivered: 2, wantQueued: 2},
		"that of a removed replica is neither": {in: []*message{{topic: "t", origin: "removed", version: 1}}},
		"our own comes back":                   {in: []*message{{topic: "t", origin: "r1", version: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := testMessenger("r1")
			for _, in := range test.in {
				m.receive(in.encode())
			}
			if len(m.inbox) != test.wantDelivered || m.queue.NumQueued() != test.wantQueued {
				t.Errorf("%d delivered and %d queued, want %d and %d", len(m.inbox), m.queue.NumQueued(), test.wantDelivered, test.wantQueued)
			}
		})
	}
}

func TestReceiveCopiesItsBytes(t *testing.T) {
	m := testMessenger("r1")
	data := (&message{topic: "t", origin: "r2", version: 1, payload: []byte("payload")}).encode()
	want := string(data)
	m.receive(data)
	clear(data)
	if got := <-m.inbox; string(got.content) != "payload" || got.topic != "t" {
		t.Errorf("delivered %q after the packet's buffer was used again", got.content)
	}
	if got := m.queue.GetBroadcasts(0, 1400); len(got) != 1 || string(got[0]) != want {
		t.Errorf("passes on %q after the packet's buffer was used again", got)
	}
}

func TestVersionsGoOnAfterARestartInThePast(t *testing.T) {
	future := uint64(time.Now().Add(time.Hour).UnixNano())
	other := testMessenger("r2")
	other.receive((&message{topic: "t", key: "k", origin: "r1", version: future}).encode())

	restarted := testMessenger("r1")
	restarted.mergeState(other.localState())
	if _, err := restarted.broadcast("t", "k", nil); err != nil {
		t.Fatal(err)
	}
	other.receive(restarted.queue.GetBroadcasts(0, 1400)[0])
	if len(other.inbox) != 2 {
		t.Error("the message of a sender whose clock was set back is taken for an old one")
	}
}

func TestNothingGrowsWithoutBound(t *testing.T) {
	m := testMessenger("r1")
	for i := range maxSeen + maxInbox + maxQueued {
		// Nobody delivers: receive must neither block nor keep it all.
		m.receive((&message{topic: "t", key: fmt.Sprint(i), origin: "r2", version: uint64(i)}).encode())
	}
	if n := m.queue.NumQueued(); n > maxQueued {
		t.Errorf("%d messages queued", n)
	}
	if n := len(m.seen.versions); n != maxSeen || len(m.seen.order) != maxSeen {
		t.Errorf("%d versions remembered, %d in order", n, len(m.seen.order))
	}
	if len(m.inbox) != maxInbox || m.dropped == 0 {
		t.Errorf("%d deliveries wait, %d were dropped", len(m.inbox), m.dropped)
	}
}

func TestSeenVersionsOnlyGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var seen seenVersions
		latest := make(map[string]uint64)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"t\x00r1\x00a", "t\x00r1\x00b", "t\x00r2\x00a"}).Draw(t, "name")
			version := rapid.Uint64Range(1, 10).Draw(t, "version")
			if got, want := seen.advance(name, version), version > latest[name]; got != want {
				t.Fatalf("advance(%q, %d) = %v after %d", name, version, got, latest[name])
			}
			latest[name] = max(latest[name], version)
		}
		want := max(latest["t\x00r1\x00a"], latest["t\x00r1\x00b"])
		if got := seen.latestByOrigin()["r1"]; got != want {
			t.Fatalf("latest of r1 is %d, want %d", got, want)
		}
	})
}

func TestBroadcastRefuses(t *testing.T) {
	m := testMessenger("r1")
	if _, err := m.broadcast("topic", "key", make([]byte, MaxMessageSize)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a message that fits no packet: %v", err)
	}
	if _, err := m.broadcast("", "key", nil); err == nil {
		t.Error("a message of no topic was taken")
	}
	if n := m.queue.NumQueued(); n != 0 {
		t.Errorf("%d refused messages are queued", n)
	}
}
