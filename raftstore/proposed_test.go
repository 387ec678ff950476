package raftstore

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/raftstore/command"
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
		if err != nil || len(got) != 2 || !proto.Equal(got[0].Message, c.decoded[0].Message) || !proto.Equal(got[1].Message, c.decoded[1].Message) {
			t.Fatalf("%s: got %v, %v", story, got, err)
		}
		if (got[0] == c.decoded[0]) != want {
			t.Errorf("%s: taken as it was proposed: %t, want %t", story, !want, want)
		}
	}
	same("before it is proposed", c.entry, false)
	p.add(c.entry, c.decoded)
	same("the same bytes elsewhere", slices.Clone(c.entry), false)
	same("what was proposed", c.entry, true)
	same("once more", c.entry, false)
	p.add(c.entry, c.decoded)
	p.forget(c.entry)
	same("what was forgotten", c.entry, false)
	if len(p.entries) != 0 {
		t.Errorf("%d entries are left", len(p.entries))
	}
	if got, err := p.take(nil); err != nil || len(got) != 0 {
		t.Errorf("an empty entry: %v, %v", got, err)
	}
}

// TestStampedCommandsKeepTheirSubject: whoever asked for a command is checked when it is applied, so
// the leader's stamp must not lose the subject.
func TestStampedCommandsKeepTheirSubject(t *testing.T) {
	commands := removals(t, "a", "b")
	commands[1].Subject = &commandpb.Subject{User: "ann", Groups: []string{"g"}}
	c, err := newCall(time.Unix(7, 0), commands, 1000)
	if err != nil {
		t.Fatal(err)
	}
	written, err := command.DecodeEntry(c.entry)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range [][]command.Decoded{c.decoded, written} {
		if got[0].By != nil || !proto.Equal(got[1].By, commands[1].GetSubject()) {
			t.Errorf("the subjects are %v and %v", got[0].By, got[1].By)
		}
	}
}
