package agent

import (
	"fmt"
	"strings"
	"testing"

	"weir/messages/actorpb"
)

func TestRoster(t *testing.T) {
	told := func(texts ...string) []*actorpb.Replica {
		var all []*actorpb.Replica
		for _, text := range texts {
			id, address, _ := strings.Cut(text, "=")
			all = append(all, &actorpb.Replica{Id: id, Address: address})
		}
		return all
	}
	tests := map[string]struct {
		remembered  []Replica
		told        []*actorpb.Replica
		want        string
		wantChanged bool
	}{
		"nothing is told":                          {want: "[r1=r1:1 r2=r2:1]"},
		"what is configured counts":                {remembered: []Replica{{"r1", "old:1"}, {"r5", "h:5"}}, want: "[r1=r1:1 r2=r2:1 r5=h:5]"},
		"a new replica":                            {told: told("r3=h:3"), want: "[r1=r1:1 r2=r2:1 r3=h:3]", wantChanged: true},
		"a replica that has moved":                 {told: told("r1=h:9"), want: "[r1=h:9 r2=r2:1]", wantChanged: true},
		"a replica that is not there any more":     {remembered: []Replica{{"r5", "h:5"}}, told: told("r1="), want: "[r1=r1:1 r2=r2:1]", wantChanged: true},
		"an address that is not told is kept":      {told: told("r1=", "r2="), want: "[r1=r1:1 r2=r2:1]"},
		"a replica whose address nobody knows":     {told: told("r7="), want: "[r1=r1:1 r2=r2:1]"},
		"a replica that is told twice counts once": {told: told("r3=h:3", "r3=h:4"), want: "[r1=r1:1 r2=r2:1 r3=h:3]", wantChanged: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := NewRoster(replicas("r1", "r2"), test.remembered)
			if changed := r.Learn(test.told); changed != test.wantChanged {
				t.Errorf("changed: %v, want %v", changed, test.wantChanged)
			}
			if got := fmt.Sprint(r.All()); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestParseReplica(t *testing.T) {
	for text, wantError := range map[string]string{
		"r1=10.0.0.1:7440": "", "r1=[::1]:7440": "", "r1=host:7440": "",
		"10.0.0.1:7440": "must be id=host:port", "=h:1": "must be id=host:port", "r1=host": "must be host:port", "r1=host:": "must be host:port", "": "must be id",
	} {
		got, err := ParseReplica(text)
		switch {
		case wantError == "" && (err != nil || got.String() != text):
			t.Errorf("%q: got %v, %v", text, got, err)
		case wantError != "" && (err == nil || !strings.Contains(err.Error(), wantError)):
			t.Errorf("%q: got error %v, want one that says %q", text, err, wantError)
		}
	}
}
