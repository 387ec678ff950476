package spec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/scheduling/option"
)

func TestSet(t *testing.T) {
	const text = "time-limit: 1h\ntasks:\n  t:\n    job-count: 1\n    command: [run, a]\n"
	for name, test := range map[string]struct {
		set  []string
		want map[string]any
	}{
		"a number":               {[]string{"tasks.t.job_count=5"}, map[string]any{"tasks.t.job-count": int64(5)}},
		"the name as it is read": {[]string{"time_limit=2h"}, map[string]any{"time-limit": "2h"}},
		"a new option":           {[]string{"tasks.t.cpu-limit=0.5"}, map[string]any{"tasks.t.cpu_limit": 0.5}},
		"a list":                 {[]string{"tasks.t.command=[sleep, '1']"}, map[string]any{"tasks.t.command": []any{"sleep", "1"}}},
		"an item of a list":      {[]string{"tasks.t.command.1=b"}, map[string]any{"tasks.t.command": []any{"run", "b"}}},
		"objects on the way":     {[]string{"tasks.t.environment.A_B=x"}, map[string]any{"tasks.t.environment.A_B": "x"}},
		"a new task":             {[]string{"tasks.a-b.job_count=1"}, map[string]any{"tasks.a-b.job_count": int64(1)}},
		"the last counts":        {[]string{"title=a", "title=b"}, map[string]any{"title": "b"}},
		"an alias":               {[]string{"alias=*nightly"}, map[string]any{"alias": "*nightly"}},
		"an equals sign":         {[]string{"title=a=b"}, map[string]any{"title": "a=b"}},
		"nothing":                {[]string{"title="}, map[string]any{"title": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := Read([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range test.set {
				if err := doc.Set(s); err != nil {
					t.Fatal(err)
				}
			}
			for path, want := range test.want {
				at := doc.Root
				for _, name := range strings.Split(path, ".") {
					if at = child(at, name); at == nil {
						t.Fatalf("%s: no %s", path, name)
					}
				}
				if diff := cmp.Diff(want, at.Exact()); diff != "" {
					t.Errorf("%s: %s", path, diff)
				}
			}
		})
	}
}

func TestSetErrors(t *testing.T) {
	for name, test := range map[string]struct{ set, want string }{
		"no value":      {"title", "missing ="},
		"an empty name": {"tasks..x=1", "a name on the path is empty"},
		"no index":      {"tasks.t.command.9=x", `tasks.t.command is a list of 1 items: "9" is not an index of it`},
		"below text":    {"title.x=1", "and has no fields"},
		"bad yaml":      {"title=[", "set title"},
		"too deep":      {strings.Repeat("a.", 100) + "a=1", "nest at most"},
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := Read([]byte("title: x\ntasks: {t: {command: [run]}}"))
			if err != nil {
				t.Fatal(err)
			}
			if err := doc.Set(test.set); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// child returns a field of an object, nil if there is none.
func child(v *option.Value, name string) *option.Value {
	for _, f := range v.Fields {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// parseWith parses a spec in which values are set.
func parseWith(text string, assignments ...string) (*parsed, error) {
	doc, err := Read([]byte(text))
	if err != nil {
		return nil, err
	}
	for _, assignment := range assignments {
		if err := doc.Set(assignment); err != nil {
			return nil, err
		}
	}
	return checked(doc, nil)
}

func TestSetOnText(t *testing.T) {
	const text = "# mine\nmutation_id: m\ntasks:\n  t:\n    command: [run]\n"
	got, err := parseWith(text, "tasks.t.job-count=5", "pool=ads", "tasks.t.environment.X='1'")
	if err != nil {
		t.Fatal(err)
	}
	task := got.Spec.GetTasks()[0]
	if got.MutationID != "m" || got.Spec.GetPool() != "ads" || task.GetJobCount() != 5 || task.GetEnvironment()["X"] != "1" {
		t.Errorf("mutation id %q, spec %v", got.MutationID, got.Spec)
	}
}

func TestSetOnTextErrors(t *testing.T) {
	for name, test := range map[string]struct{ text, set, want string }{
		"text that is not read": {"a: [", "a=1", "operation spec: line 1"},
		"a key twice":           {"title: a\ntitle: b\ntasks: {t: {job_count: 1, command: [x]}}\n", "title=c", "operation spec: line 2, column 1: title: duplicate name, first in line 1"},
		"a key twice in value":  {"title: a", "annotations={a: 1, a: 2}", "a: duplicate name, first in line 1"},
		"below text":            {"title: a", "title.x=1", "and has no fields"},
		"not UTF-8":             {"title: a", "title=\xff", "byte 0xff is not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parseWith(test.text, test.set); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// TestSetOfATaskThatIsNotThere: a name that was meant to be another is told by that one, and not
// by what a task of that name lacks.
func TestSetOfATaskThatIsNotThere(t *testing.T) {
	const text = "tasks: {hello: {job_count: 1, command: [run]}, sort: {job_count: 1, command: [sort]}}"
	for name, test := range map[string]struct {
		set  []string
		want string
	}{
		"a typo":               {[]string{"tasks.helo.cpu_limit=2"}, `operation spec: tasks.helo: there is no task "helo"; did you mean "hello"? (a new one needs job_count and command)`},
		"a typo, twice":        {[]string{"tasks.helo.cpu_limit=2", "tasks.helo.gpu_limit=1"}, `operation spec: tasks.helo: there is no task "helo"; did you mean "hello"? (a new one needs job_count and command)`},
		"as an object":         {[]string{"tasks.helo={cpu_limit: 2}"}, `operation spec: tasks.helo: there is no task "helo"; did you mean "hello"? (a new one needs job_count and command)`},
		"far from all":         {[]string{"tasks.other.job-count=2"}, `operation spec: tasks.other: there is no task "other"; there are hello, sort (a new one needs job_count and command)`},
		"a new task":           {[]string{"tasks.helo.job-count=2", "tasks.helo.command=[run]"}, ""},
		"one that is there":    {[]string{"tasks.hello.cpu_limit=2"}, ""},
		"in place of another":  {[]string{"tasks.hello={cpu_limit: 2}"}, "operation spec has 2 errors:\n  tasks.hello.command: it is missing"},
		"a fault of a new one": {[]string{"tasks.new.job_count=0", "tasks.new.command=[run]"}, "operation spec: tasks.new.job_count: 0 is not a number from 1 to 100000"},
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := Read([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range test.set {
				if err := doc.Set(s); err != nil {
					t.Fatal(err)
				}
			}
			_, _, err = doc.Check()
			if said := fmt.Sprint(err); (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(said, test.want) {
				t.Errorf("got  %s\nwant %s", said, test.want)
			}
		})
	}
}
