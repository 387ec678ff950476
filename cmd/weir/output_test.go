package main

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"weir/messages/apipb"
)

func TestEncode(t *testing.T) {
	message := &apipb.ListNodesResponse{Nodes: []*apipb.Node{{Id: "n1", Jobs: 3, Tags: []string{"yes"}}}}
	tests := map[format]string{
		formatJSON: `{
  "nodes": [
    {
      "id": "n1",
      "state": "",
      "resources": null,
      "usage": null,
      "tags": [
        "yes"
      ],
      "jobs": "3",
      "version": "",
      "host": "",
      "caveat": "",
      "registered_time": null,
      "last_heartbeat": null,
      "memory_used": "0",
      "drain": null,
      "tree": ""
    }
  ]
}
`,
		formatYAML: `nodes:
- id: n1
  state: ""
  resources: null
  usage: null
  tags:
  - "yes"
  jobs: "3"
  version: ""
  host: ""
  caveat: ""
  registered_time: null
  last_heartbeat: null
  memory_used: "0"
  drain: null
  tree: ""
`,
	}
	for f, want := range tests {
		t.Run(string(f), func(t *testing.T) {
			got, err := encode(message, f)
			if err != nil || string(got) != want {
				t.Errorf("got %s and %v, want %s", got, err, want)
			}
		})
	}
}

// TestErrorTextIsWhole draws errors of any text: no line of it acts on a terminal,
// and every error has its line.
func TestErrorTextIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := &apipb.Error{Message: rapid.String().Draw(t, "message"), Attributes: rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "attributes")}
		outer := &apipb.Error{Message: "outer", Inner: []*apipb.Error{e, proto.CloneOf(e)}}
		for _, r := range errorText(outer, "") {
			if r != '\n' && printable(string(r)) != string(r) {
				t.Fatalf("%q is in %q", r, errorText(outer, ""))
			}
		}
	})
}
