package agent

import (
	"errors"
	"fmt"

	"weir/scheduling"
)

// ErrStale is returned for messages of a leader whose term is over.
var ErrStale = errors.New("from a leader of an earlier term")

// Fence knows the highest token that this node has seen, and refuses lesser ones.
type Fence struct {
	seen    scheduling.Token
	refused uint64
}

// NewFence returns a fence that has seen the given token.
func NewFence(seen scheduling.Token) *Fence { return &Fence{seen: seen} }

// Term checks the term of a leader's message, which must not be lower than any seen before.
func (f *Fence) Term(term uint64) error {
	return f.pass(scheduling.Token{Term: term}, term < f.seen.Term)
}

// Admit checks a plan's token, which must not be lower than any seen before. Several plans may
// carry one token: they follow from the same state.
func (f *Fence) Admit(token scheduling.Token) error {
	return f.pass(token, token.Less(f.seen))
}

func (f *Fence) pass(token scheduling.Token, stale bool) error {
	if stale && !ignoresTokens {
		f.refused++
		return fmt.Errorf("token %s: %w: %s has been seen", token, ErrStale, f.seen)
	}
	if f.seen.Less(token) {
		f.seen = token
	}
	return nil
}

// Seen is the highest token so far.
func (f *Fence) Seen() scheduling.Token { return f.seen }

// Refused returns how many stale messages were rejected.
func (f *Fence) Refused() uint64 { return f.refused }
