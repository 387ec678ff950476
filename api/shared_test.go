package api

import (
	"fmt"
	"strings"
	"testing"

	"weir/api/gateway"
	"weir/messages/actorpb"
)

// TestSharedAnswers (W2): answers that a gateway shares among people are the same for all of them, whatever their
// rights.
func TestSharedAnswers(t *testing.T) {
	s := newSite(t)
	s.run(2, "j1", "j2")
	history := func(*actorpb.PoolHistoryRequest) *actorpb.PoolHistory { return &actorpb.PoolHistory{} }
	s.history.Store(&history)
	for _, procedure := range gateway.Shared() {
		method := strings.TrimPrefix(procedure, "/weir.api.v1.")
		body := map[string]string{"PoolService/Get": `{"name": "default"}`, "TreeService/Get": `{"tree": "default"}`, "PoolService/History": `{"pool": "default", "from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z"}`}[method]
		if body == "" {
			body = "{}"
		}
		var first string
		for i, who := range []string{"operator/oda", "user/ann", "user/mallory"} {
			got := fmt.Sprint(s.get(method, body, roleHeader, who))
			if i == 0 {
				first = got
			}
			if got != first || got == "map[]" {
				t.Errorf("%s: %s is answered\n%s\nand the first\n%s", procedure, who, got, first)
			}
		}
	}
}
