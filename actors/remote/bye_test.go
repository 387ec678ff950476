package remote_test

import "testing"

// TestByeIsTold: who ends a stream has said so, as far as the other side hears it; one that
// breaks, or that this side ends, has not.
func TestByeIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(r1, n7 *node)
		want bool
	}{
		"the peer closes":      {func(_, n7 *node) { n7.Close() }, true},
		"this side has it end": {func(r1, n7 *node) { r1.Disconnect(n7.Self()) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			where := new(directory)
			r1, n7 := start(t, where, replica("r1"), nil), start(t, where, agent("n7"), nil)
			n7.connect(t, r1)
			tc.end(r1, n7)
			if change := r1.await(t, n7.Self(), false); change.Bye != tc.want {
				t.Errorf("told %+v, want bye %t", change, tc.want)
			}
		})
	}
}
