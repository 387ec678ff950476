package state

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// TestWhatIsToldStays drives a state that nobody freezes, and holds on to all events and
// to the records that readers share: later commands change none of them.
func TestWhatIsToldStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state := New()
		was := map[proto.Message]string{}
		var told [][]Event
		var texts []string
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			_, events := state.Apply(uint64(i+1), drawCommand(t, state, i))
			told, texts = append(told, events), append(texts, fmt.Sprintf("%+v", events))
			for _, shared := range sharedBy(state) {
				if _, known := was[shared]; !known {
					was[shared] = fmt.Sprint(shared)
				}
			}
		}
		for i, events := range told {
			if now := fmt.Sprintf("%+v", events); now != texts[i] {
				t.Fatalf("command %d told:\n%s\nand by now that is:\n%s", i+1, texts[i], now)
			}
		}
		for shared, text := range was {
			if now := fmt.Sprint(shared); now != text {
				t.Fatalf("record:\n%s\nby now:\n%s", text, now)
			}
		}
	})
}

// sharedBy returns the records of a state that it replaces and never changes.
func sharedBy(s *State) (all []proto.Message) {
	for _, n := range s.nodes {
		all = append(all, n.record)
	}
	for a := range s.allocations.all() {
		all = append(all, a)
	}
	for _, t := range s.trees {
		all = append(all, t.record)
	}
	for _, c := range s.claims.all() {
		all = append(all, c)
	}
	return all
}
