package raftstore

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
)

func TestProposedCommandsAreDecodedOnce(t *testing.T) {
	c, err := newCall(time.Now(), removals(t, "a", "b"), 1000)
	if err != nil {
		t.Fatal(err)
	}
	var p proposed
	same := func(story string, entry []byte, want bool) {
		t.Helper()
		got, err := p.take(entry)
		if err != nil || len(got) != 2 || !proto.Equal(got[0], c.messages[0]) || !proto.Equal(got[1], c.messages[1]) {
			t.Fatalf("%s: got %v, %v", story, got, err)
		}
		if (got[0] == c.messages[0]) != want {
			t.Errorf("%s: taken as it was proposed: %t, want %t", story, !want, want)
		}
	}
	same("before it is proposed", c.entry, false)
	p.add(c.entry, c.messages)
	same("the same bytes elsewhere", slices.Clone(c.entry), false)
	same("what was proposed", c.entry, true)
	same("once more", c.entry, false)
	p.add(c.entry, c.messages)
	p.forget(c.entry)
	same("what was forgotten", c.entry, false)
	if len(p.entries) != 0 {
		t.Errorf("%d entries are left", len(p.entries))
	}
	if got, err := p.take(nil); err != nil || len(got) != 0 {
		t.Errorf("an empty entry: %v, %v", got, err)
	}
}
