package gossip_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"weir/cluster/gossip"
	"weir/cluster/wire"
)

// TestKeysChange (T6) has three replicas change their key while they gossip: first all know both, then one after the
// other encrypts with the next, then forgets the old one. All the time messages reach everybody, and nobody is
// thought dead. One that was left behind is not heard.
func TestKeysChange(t *testing.T) {
	old, next := bytes.Repeat([]byte{7}, 32), bytes.Repeat([]byte{8}, 32)
	var replicas []*replica
	var gone sync.Map
	heard := make([]sync.Map, 3)
	for i, id := range []string{"r1", "r2", "r3"} {
		mux := open(t, wire.Insecure{}, "127.0.0.1:0")
		r := start(t, mux, wire.Insecure{}, id, func(config *gossip.Config) {
			config.Profile = gossip.Local
			config.Handlers["word"] = gossip.Handler{Receive: func(payload []byte) { heard[i].Store(string(payload), true) }}
			if i > 0 {
				config.Peers = []string{replicas[0].mux.Addr().String()}
			}
		})
		replicas = append(replicas, r)
	}
	waitMembers(t, "r1 r2 r3", replicas...)
	for _, r := range replicas {
		defer r.Subscribe(func(members []gossip.Member) {
			if len(members) != 3 {
				gone.Store(r.mux.Addr().String(), fmt.Sprint(members))
			}
		})()
	}
	words := 0
	everybodyHears := func() {
		t.Helper()
		for _, from := range replicas {
			words++
			word := fmt.Sprint("word ", words)
			if err := from.Broadcast("word", word, []byte(word)); err != nil {
				t.Fatal(err)
			}
			for i, to := range replicas {
				if to != from {
					waitFor(t, fmt.Sprintf("%s hears %q", to.mux.Addr(), word), func() bool { _, ok := heard[i].Load(word); return ok })
				}
			}
		}
	}
	for _, keys := range [][][]byte{{old, next}, {next, old}, {next}} {
		for _, r := range replicas {
			if err := r.UseKeys(keys); err != nil {
				t.Fatal(err)
			}
			everybodyHears()
		}
	}
	gone.Range(func(at, members any) bool { t.Errorf("%v saw %v", at, members); return true })

	if err := replicas[2].UseKeys([][]byte{old}); err != nil {
		t.Fatal(err)
	}
	waitMembers(t, "r1 r2", replicas[:2]...)
	waitMembers(t, "r3", replicas[2])
	for says, keys := range map[string][][]byte{"want 32": {next, []byte("short")}, "restart it": nil} {
		if err := replicas[0].UseKeys(keys); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("UseKeys(%v): %v, want %q", keys, err, says)
		}
	}
}
