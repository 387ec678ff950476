package main

import (
	"maps"
	"strings"
	"testing"
	"time"

	"weir/messages/apipb"
)

func TestFreeFlag(t *testing.T) {
	for name, test := range map[string]struct {
		given     map[string]string
		want      map[string]float64
		wantError string
	}{
		"cores and a size": {given: map[string]string{"cpu": "1.5", "memory": "8GiB"}, want: map[string]float64{"cpu": 1.5, "memory": 8 << 30}},
		"no number":        {given: map[string]string{"gpu": "two"}, wantError: "--free gpu=two: not a number"},
		"no size":          {given: map[string]string{"memory": "much"}, wantError: "--free memory"},
		"no resource":      {given: map[string]string{"disk": "1"}, wantError: "--free: "},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := freeFlag(test.given)
			if test.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantError) {
					t.Errorf("got %v, want %s", err, test.wantError)
				}
				return
			}
			if err != nil || !maps.Equal(got, test.want) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

// TestNodesView wants a page of a list to say what follows, and an empty list what it is empty of.
func TestNodesView(t *testing.T) {
	some := nodesView(&apipb.ListNodesResponse{Nodes: []*apipb.Node{{Id: "n1"}}, Next: "n1", LeftOut: 7}, &apipb.ListNodesRequest{Limit: 1})
	if text := some.fit(time.Time{}, 0); !strings.Contains(text, "more: 7 nodes; --after n1 continues") {
		t.Error(text)
	}
	for want, req := range map[string]*apipb.ListNodesRequest{"no node yet": {Limit: 5}, "no such node": {Prefix: "x"}} {
		if got := nodesView(&apipb.ListNodesResponse{}, req); !strings.Contains(got.empty, want) {
			t.Errorf("got %q, want %q", got.empty, want)
		}
	}
}
