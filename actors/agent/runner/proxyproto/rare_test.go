package proxyproto

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatFewJobsHaveIsWrittenByItsNames(t *testing.T) {
	tests := map[string]struct {
		value any
		want  string
	}{
		"a feed": {value: &Feed{Format: "lines", Output: "/o", Part: "p", Parts: []FeedPart{{Path: "/i", End: 3}}},
			want: `{"format":"lines","parts":[{"path":"/i","size":0,"mod_time":"0001-01-01T00:00:00Z","begin":0,"end":3}],"max_record_bytes":0,"output":"/o","part":"p"}`},
		"what is kept":        {value: []KeptFile{{Path: "a", Destination: "/b"}}, want: `[{"path":"a","destination":"/b"}]`},
		"a tmpfs":             {value: []Tmpfs{{Path: "a", Size: 1}}, want: `[{"path":"a","size":1}]`},
		"a user":              {value: &User{UID: 1, GID: 2}, want: `{"uid":1,"gid":2}`},
		"too much memory":     {value: &MemoryExcess{Usage: 2, Limit: 1, Biggest: []ProcessMemory{{Pid: 3, Name: "n", Bytes: 4}}}, want: `{"usage":2,"limit":1,"biggest":[{"pid":3,"name":"n","bytes":4}]}`},
		"too much on disk":    {value: &DiskExcess{Usage: 2, Limit: 1, Biggest: []FileSize{{Path: "a", Bytes: 2}}}, want: `{"usage":2,"limit":1,"biggest":[{"path":"a","bytes":2}]}`},
		"a hang":              {value: &Hang{Step: "s", IdleMillis: 5, Processes: []HungProcess{{Identity: Identity{Pid: 1, StartTicks: 2}, Name: "n"}}}, want: `{"step":"s","idle_millis":5,"processes":[{"pid":1,"start_time":2,"name":"n"}]}`},
		"what was read":       {value: &InputCount{Rows: 1, Only: &FeedRecord{End: 2}}, want: `{"rows":1,"bytes":0,"hash":0,"only":{"part":0,"begin":0,"end":2}}`},
		"what was written":    {value: &OutputCount{Part: "p", Rows: 1, Bytes: 2}, want: `{"part":"p","rows":1,"bytes":2}`},
		"a fault of an input": {value: &InputFault{Kind: InputChanged, Name: "n", Text: "<t>"}, want: `{"kind":"input_changed","name":"n","part":0,"begin":0,"end":0,"text":"\u003ct\u003e"}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			data, err := json.Marshal(test.value)
			if err != nil || string(data) != test.want {
				t.Fatalf("Marshal: %s, %v, want %s", data, err, test.want)
			}
			back := reflect.New(reflect.TypeOf(test.value))
			if err := json.Unmarshal(data, back.Interface()); err != nil {
				t.Fatalf("Unmarshal: %v", err)
			}
			if diff := cmp.Diff(test.value, back.Elem().Interface()); diff != "" {
				t.Errorf("after a round trip (-was +is):\n%s", diff)
			}
		})
	}
}
