package proxyproto

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParse(t *testing.T) {
	tests := map[string]struct {
		line      string
		want      Message
		wantError string
	}{
		"renew":                        {line: `{"renew":{"lease_millis":15000}}`, want: Message{Renew: &Renew{LeaseMillis: 15000}}},
		"interrupt":                    {line: `{"interrupt":{"signal":"SIGINT","root_only":true,"reason":"late","grace_millis":5}}`, want: Message{Interrupt: &Interrupt{Signal: "SIGINT", RootOnly: true, Reason: "late", GraceMillis: 5}}},
		"a lease that is shared":       {line: `{"renew":{"lease_millis":1,"shared":true}}`, want: Message{Renew: &Renew{LeaseMillis: 1, Shared: true}}},
		"measure has no fields":        {line: `{"measure":{}}`, want: Message{Measure: &Measure{}}},
		"release has no fields":        {line: `{"release":{}}`, want: Message{Release: &Release{}}},
		"no JSON":                      {line: `renew`, wantError: `"renew"`},
		"a message nobody knows":       {line: `{"dance":{}}`, wantError: `unknown field "dance"`},
		"a field nobody knows":         {line: `{"stop":{"reason":"x","gently":true}}`, wantError: `unknown field "gently"`},
		"a field of another type":      {line: `{"renew":{"lease_millis":"long"}}`, wantError: "lease_millis"},
		"two messages in one line":     {line: `{"release":{},"renew":{"lease_millis":1}}`, wantError: "has 2 keys"},
		"no message":                   {line: `{}`, wantError: "has 0 keys"},
		"a message that is null":       {line: `{"renew":null}`, wantError: "is null"},
		"an array":                     {line: `[]`, wantError: "cannot unmarshal array"},
		"a known name in another case": {line: `{"Renew":{"lease_millis":1}}`, want: Message{Renew: &Renew{LeaseMillis: 1}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(test.line))
			if test.wantError != "" {
				if !errors.Is(err, ErrBadMessage) || !strings.Contains(err.Error(), test.wantError) {
					t.Fatalf("Parse: error %v, want ErrBadMessage with %q", err, test.wantError)
				}
				return
			}
			if err != nil {
				t.Fatalf("Parse: %v", err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReaderGoesOnAfterALineThatIsTooLong(t *testing.T) {
	input := `{"stop":{"reason":"` + strings.Repeat("x", 3*MaxLine) + "\"}}\n" + `{"release":{}}` + "\n"
	reader := NewReader(strings.NewReader(input))
	if _, err := reader.Read(); !errors.Is(err, ErrBadMessage) || !strings.Contains(err.Error(), "longer than") {
		t.Fatalf("first line: error %v, want one that says it is too long", err)
	}
	message, err := reader.Read()
	if err != nil || message.Release == nil {
		t.Fatalf("second line: %+v, %v, want release", message, err)
	}
	if _, err := reader.Read(); !errors.Is(err, io.EOF) {
		t.Fatalf("after the last line: %v, want EOF", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"renew":{"lease_millis":15000}}`))
	f.Add([]byte(`{"hello":{"version":1,"job_id":"j","pid":4,"start_time":7}}`))
	f.Add([]byte(`{"exited":{"job_id":"j","outcome":"exited","statistics":{"cumulative_max_memory":1e300}}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		message, err := Parse(line)
		if err != nil {
			return
		}
		again, err := message.Line()
		if err != nil {
			return
		}
		back, err := Parse(bytes.TrimSpace(again))
		if err != nil {
			t.Fatalf("Parse(%q): %v", again, err)
		}
		if diff := cmp.Diff(message, back); diff != "" {
			t.Errorf("after a round trip (-was +is):\n%s", diff)
		}
	})
}

func validSpec() Spec {
	return Spec{Version: Version, JobID: "j", Argv: []string{"true"}, Workspace: "/w", OutputFolder: "/o",
		LeaseMillis: 1, SamplePeriodMillis: 1}
}

func volumes(paths ...string) func(*Spec) {
	return func(s *Spec) {
		s.AgentMounts, s.Tmpfs = "mnt:[1]", nil
		for _, path := range paths {
			s.Tmpfs = append(s.Tmpfs, Tmpfs{Path: path, Size: 1})
		}
	}
}

func parts(list ...FeedPart) func(*Spec) {
	return func(s *Spec) {
		s.Feed = &Feed{Format: "lines", MaxRecordBytes: 1, Output: "/o", Parts: list}
	}
}

// FuzzParseSpec: what is read is valid, and is read again as it is written.
func FuzzParseSpec(f *testing.F) {
	spec := validSpec()
	volumes("a", "b/c")(&spec)
	parts(FeedPart{Path: "/i", Size: 5, Begin: 2, End: 5})(&spec)
	spec.Isolation, spec.User = IsolationStrict, &User{UID: 7, GID: 8}
	data, err := json.Marshal(spec)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"version":4,"job_id":"j","shell":"true","workspace":"/w","output_folder":"/o","lease_millis":1,"sample_period_millis":1,"tmpfs":[],"environment":[]}`))
	f.Add([]byte(`{"version":4,"job_id":"j","shell":"true","workspace":"/w","output_folder":"/o","lease_millis":1,"sample_period_millis":1,"tmpfs":[{"path":"../x","size":1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, err := ParseSpec(data)
		if err != nil {
			return
		}
		for _, volume := range spec.Tmpfs {
			if path := filepath.Join("/w", volume.Path); !strings.HasPrefix(path, "/w/") {
				t.Errorf("tmpfs %q leads to %s", volume.Path, path)
			}
		}
		again, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseSpec(again)
		if err != nil {
			t.Fatalf("ParseSpec(%s): %v", again, err)
		}
		if diff := cmp.Diff(spec, back, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("after a round trip (-was +is):\n%s", diff)
		}
	})
}

func TestParseSpec(t *testing.T) {
	tests := map[string]struct {
		change    func(*Spec)
		wantError string
	}{
		"the smallest one":                 {change: func(*Spec) {}},
		"another version":                  {change: func(s *Spec) { s.Version = 9 }, wantError: "version: 9"},
		"no command":                       {change: func(s *Spec) { s.Argv = nil }, wantError: "argv and shell are both empty"},
		"a program without a name":         {change: func(s *Spec) { s.Argv = []string{"", "x"} }, wantError: "name is empty"},
		"argv and shell":                   {change: func(s *Spec) { s.Shell = "true" }, wantError: "shell: set together with argv"},
		"a zero byte in an argument":       {change: func(s *Spec) { s.Argv = []string{"a\x00b"} }, wantError: "NUL byte"},
		"a variable without a value":       {change: func(s *Spec) { s.Environment = []string{"PATH"} }, wantError: "NAME=value"},
		"a variable without a name":        {change: func(s *Spec) { s.Environment = []string{"=x"} }, wantError: "NAME=value"},
		"a negative memory limit":          {change: func(s *Spec) { s.MemoryLimit = -1 }, wantError: "negative"},
		"a negative end timeout":           {change: func(s *Spec) { s.EndTimeoutMillis = -1 }, wantError: "end_timeout_millis: -1"},
		"a negative cpu limit":             {change: func(s *Spec) { s.CPULimit = -0.5 }, wantError: "cpu_limit: -0.5"},
		"a weight beyond the kernel's":     {change: func(s *Spec) { s.CPUWeight = 10001 }, wantError: "cpu_weight: 10001"},
		"no lease":                         {change: func(s *Spec) { s.LeaseMillis = 0 }, wantError: "lease_millis"},
		"an unknown isolation":             {change: func(s *Spec) { s.Isolation = "paranoid" }, wantError: "none, default, strict"},
		"strict, as root":                  {change: func(s *Spec) { s.Isolation, s.User = IsolationStrict, &User{} }, wantError: "other than root"},
		"strict, as nobody in particular":  {change: func(s *Spec) { s.Isolation = IsolationStrict }, wantError: "other than root"},
		"strict, among the agent's mounts": {change: func(s *Spec) { s.Isolation, s.User = IsolationStrict, &User{UID: 1} }, wantError: "agent_mounts: is empty"},
		"strict":                           {change: func(s *Spec) { s.Isolation, s.User, s.AgentMounts = IsolationStrict, &User{UID: 1}, "mnt:[1]" }},
		"tmpfs among the agent's mounts":   {change: func(s *Spec) { s.Tmpfs = []Tmpfs{{Path: "a", Size: 1}} }, wantError: "agent_mounts: is empty"},
		"tmpfs":                            {change: volumes("a/b", "a/c", "ab")},
		"tmpfs without a size":             {change: func(s *Spec) { volumes("a")(s); s.Tmpfs[0].Size = 0 }, wantError: "size: 0, must be"},
		"tmpfs beyond the memory limit":    {change: func(s *Spec) { volumes("a", "b")(s); s.MemoryLimit = 1 }, wantError: "2 bytes in all"},
		"tmpfs outside the workspace":      {change: volumes("../a"), wantError: "in the workspace"},
		"tmpfs at an absolute path":        {change: volumes("/a"), wantError: "in the workspace"},
		"tmpfs as the workspace":           {change: volumes("."), wantError: "in the workspace"},
		"tmpfs at a folder of weir's":      {change: volumes(".weir/x"), wantError: "is reserved for Weir"},
		"tmpfs within another":             {change: volumes("a", "a/b"), wantError: `overlaps the path of "a"`},
		"tmpfs twice":                      {change: volumes("a", "a/"), wantError: `overlaps the path of "a"`},
		"another enforcement":              {change: func(s *Spec) { s.CPUEnforcement = "kindness" }, wantError: "quota or weight"},
		"a negative disk limit":            {change: func(s *Spec) { s.DiskLimit = -1 }, wantError: "one is negative"},
		"an output outside":                {change: func(s *Spec) { s.Outputs = []KeptFile{{Path: "../x", Destination: "/d"}} }, wantError: `"../x"`},
		"an output to nowhere":             {change: func(s *Spec) { s.Outputs = []KeptFile{{Path: "x"}} }, wantError: "outputs"},
		"a feed":                           {change: parts(FeedPart{Path: "/i", Size: 5, Begin: 2, End: 5}, FeedPart{URL: "http://i"})},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			spec := validSpec()
			test.change(&spec)
			data, err := json.Marshal(spec)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ParseSpec(data)
			if test.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantError) {
					t.Fatalf("ParseSpec: error %v, want %q", err, test.wantError)
				}
				return
			}
			if err != nil {
				t.Fatalf("ParseSpec: %v", err)
			}
			if diff := cmp.Diff(&spec, got); diff != "" {
				t.Errorf("ParseSpec (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := ParseSpec([]byte(`{"version":1,"colour":"red"}`)); err == nil || !strings.Contains(err.Error(), `"colour"`) {
		t.Errorf("unknown field: error %v, want its name", err)
	}
}
