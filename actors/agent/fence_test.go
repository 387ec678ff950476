package agent

import (
	"errors"
	"strings"
	"testing"

	"weir/scheduling"
)

func TestFence(t *testing.T) {
	token := func(term, index uint64) scheduling.Token { return scheduling.Token{Term: term, Index: index} }
	tests := map[string]struct {
		token     scheduling.Token
		wantStale bool
		wantSeen  scheduling.Token
	}{
		"a higher term":                      {token(6, 1), false, token(6, 1)},
		"a higher index":                     {token(5, 41), false, token(5, 41)},
		"another plan of the same state":     {token(5, 40), false, token(5, 40)},
		"a plan that others have overtaken":  {token(5, 39), true, token(5, 40)},
		"a plan of a leader of the past":     {token(4, 99), true, token(5, 40)},
		"a plan without a token":             {token(0, 0), true, token(5, 40)},
		"a leader of a higher term is heard": {token(7, 0), false, token(7, 0)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := NewFence(token(5, 40))
			err := f.Admit(test.token)
			if errors.Is(err, ErrStale) != test.wantStale || f.Seen() != test.wantSeen {
				t.Errorf("got %v, seen %v; want stale %v, seen %v", err, f.Seen(), test.wantStale, test.wantSeen)
			}
			if test.wantStale && (f.Refused() != 1 || !strings.Contains(err.Error(), test.token.String()) || !strings.Contains(err.Error(), "5.40")) {
				t.Errorf("%d refused, %v; want 1, and both tokens named", f.Refused(), err)
			}
		})
	}
	f := NewFence(token(5, 40))
	if f.Term(5) != nil || f.Seen() != token(5, 40) || f.Term(4) == nil || f.Term(6) != nil || f.Seen() != token(6, 0) {
		t.Error("terms of leaders are not fenced")
	}
}
