package spec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		"an equals sign":         {[]string{"title=a=b"}, map[string]any{"title": "a=b"}},
		"nothing":                {[]string{"title="}, map[string]any{"title": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := Read([]byte(text), YAML)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range test.set {
				if err := doc.Set(s); err != nil {
					t.Fatal(err)
				}
			}
			for path, want := range test.want {
				at := doc.root
				for _, name := range strings.Split(path, ".") {
					if at = at.field(name); at == nil {
						t.Fatalf("%s: no %s", path, name)
					}
				}
				if diff := cmp.Diff(want, at.plain()); diff != "" {
					t.Errorf("%s: %s", path, diff)
				}
			}
		})
	}
}

func TestSetErrors(t *testing.T) {
	for name, test := range map[string]struct{ set, want string }{
		"no value":      {"title", "there is no ="},
		"an empty name": {"tasks..x=1", "a name on the path is empty"},
		"no index":      {"tasks.t.command.9=x", `tasks.t.command is a list of 1: "9" is no index of it`},
		"below text":    {"title.x=1", "title is text and has nothing in it"},
		"bad yaml":      {"title=[", "set title"},
		"too deep":      {strings.Repeat("a.", 100) + "a=1", "nest at most"},
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := Read([]byte("title: x\ntasks: {t: {command: [run]}}"), YAML)
			if err != nil {
				t.Fatal(err)
			}
			if err := doc.Set(test.set); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestSetTextIsTakenAsItIs(t *testing.T) {
	doc, err := Read([]byte(root()), YAML)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.SetText("title", "a: [b"); err != nil {
		t.Fatal(err)
	}
	op, _, err := doc.Check()
	if err != nil || op.GetTitle() != "a: [b" {
		t.Errorf("title %q, %v", op.GetTitle(), err)
	}
}
