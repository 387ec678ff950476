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
      "tree": "",
      "memory_limits": "0",
      "file_cache": null
    }
  ],
  "next": "",
  "left_out": 0,
  "refused": []
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
  memory_limits: "0"
  file_cache: null
next: ""
left_out: 0
refused: []
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

// TestErrorTextIsForPeople says sizes as people read them, and nothing twice.
func TestErrorTextIsForPeople(t *testing.T) {
	for name, test := range map[string]struct {
		of   *apipb.Error
		want string
	}{
		"bytes have a unit": {
			&apipb.Error{Message: "Memory limit exceeded", Attributes: map[string]string{"limit": "67108864", "usage": "67112960", "biggest_processes": "tail (pid 7, 67207168 bytes)"}},
			"Memory limit exceeded\n  biggest_processes: tail (pid 7, 67207168 bytes)\n  limit: 67108864 (64 MiB)\n  usage: 67112960 (64 MiB)\n",
		},
		"a limit that is no number is left alone": {&apipb.Error{Message: "late", Attributes: map[string]string{"limit": "10m"}}, "late\n  limit: 10m\n"},
		"an attribute that repeats the message":   {&apipb.Error{Message: "full", Attributes: map[string]string{"output_fault": "full", "node": "n1"}}, "full\n  node: n1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := errorText(test.of, ""); got != test.want {
				t.Errorf("it says\n%s\nwant\n%s", got, test.want)
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
