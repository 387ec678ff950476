package gossip

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/scheduling"
)

func TestMemberRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 40, 60)
		want := Member{
			ID:          scheduling.ReplicaID(rapid.StringN(1, 40, 60).Draw(t, "id")),
			Address:     text.Draw(t, "address"),
			APIAddress:  text.Draw(t, "api"),
			Version:     text.Draw(t, "version"),
			Leader:      rapid.Bool().Draw(t, "leader"),
			Term:        rapid.Uint64().Draw(t, "term"),
			Incarnation: rapid.Uint64().Draw(t, "incarnation"),
			PeerList:    text.Draw(t, "peers"),
			Initialized: rapid.Bool().Draw(t, "initialized"),
			Ready:       rapid.Bool().Draw(t, "ready"),

			Can:            rapid.Uint64().Draw(t, "can"),
			ClusterVersion: rapid.Uint64().Draw(t, "cluster version"),
			StateIndex:     rapid.Uint64().Draw(t, "state index"),
			StateHash:      string(rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "state hash")),
		}
		encoded, err := encodeMember(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeMember(encoded); err != nil || got != want {
			t.Fatalf("decodeMember = %+v, %v; want %+v", got, err, want)
		}
	})
}

func TestMemberOfALaterVersionIsReadable(t *testing.T) {
	encoded, err := encodeMember(Member{ID: "r1", Term: 7})
	if err != nil {
		t.Fatal(err)
	}
	encoded = append(encoded, 200, 3, 'n', 'e', 'w')
	if got, err := decodeMember(encoded); err != nil || got != (Member{ID: "r1", Term: 7}) {
		t.Errorf("decodeMember = %+v, %v", got, err)
	}
}

func TestMembersThatCannotBe(t *testing.T) {
	if _, err := encodeMember(Member{Address: "x:1"}); err == nil {
		t.Error("a member without an id was encoded")
	}
	big := Member{ID: "r1"}
	for size := 400; ; size++ {
		big.Version = strings.Repeat("v", size)
		encoded, err := encodeMember(big)
		if err == nil && len(encoded) > 512 {
			t.Fatalf("encoded into %d bytes; memberlist panics over 512", len(encoded))
		}
		if err != nil {
			if !errors.Is(err, ErrTooLarge) || size < 450 {
				t.Fatalf("version of %d bytes: %v", size, err)
			}
			break
		}
	}
}

func FuzzDecodeMember(f *testing.F) {
	encoded, err := encodeMember(Member{ID: "r1", Address: "a:1", Leader: true, Term: 3, Incarnation: 1 << 60})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encoded)
	f.Add(encoded[:len(encoded)-1])
	f.Fuzz(func(t *testing.T, data []byte) {
		member, err := decodeMember(data)
		if err != nil {
			return
		}
		again, err := encodeMember(member)
		if err != nil {
			if errors.Is(err, ErrTooLarge) {
				return
			}
			t.Fatalf("%+v was decoded but cannot be encoded: %v", member, err)
		}
		if got, err := decodeMember(again); err != nil || got != member {
			t.Fatalf("%+v became %+v, %v", member, got, err)
		}
	})
}

func FuzzDecodeMessage(f *testing.F) {
	f.Add((&message{topic: "t", key: "k", origin: "r1", version: 3, payload: []byte("p")}).encode())
	f.Add([]byte{messageFormat, 200})
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := decodeMessage(data)
		if err != nil {
			return
		}
		again, err := decodeMessage(in.encode())
		if err != nil || again.name() != in.name() || again.version != in.version || string(again.payload) != string(in.payload) {
			t.Fatalf("%+v became %+v, %v", in, again, err)
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	m := testMessenger("r1")
	m.handle("t", Handler{LocalState: func() []byte { return []byte("state") }})
	m.receive((&message{topic: "t", origin: "r2", version: 9}).encode())
	f.Add(m.localState())
	f.Add([]byte{stateFormat, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _, _ = decodeState(data, "r2") // Must end without a panic, in time.
	})
}

func TestStateCarriesWhatWasSeen(t *testing.T) {
	m := testMessenger("r1")
	m.handle("signals", Handler{LocalState: func() []byte { return []byte("live") }})
	m.handle("nothing", Handler{LocalState: func() []byte { return nil }})
	m.handle("too much", Handler{LocalState: func() []byte { return make([]byte, MaxStateSize+1) }})
	m.handle("deaf", Handler{})
	for version, key := range []string{"a", "b", "c"} {
		m.receive((&message{topic: "signals", key: key, origin: "r2", version: uint64(10 + version)}).encode())
	}
	ours, states, err := decodeState(m.localState(), "r2")
	want := []delivery{{topic: "signals", content: []byte("live"), merge: true}}
	if err != nil || ours != 12 || !reflect.DeepEqual(states, want) {
		t.Errorf("decodeState = %d, %v, %v; want 12, %v", ours, states, err, want)
	}
}
