package statepb

import (
	"testing"

	"weir/scheduling/memory"
)

func TestMemoryTask(t *testing.T) {
	for story, test := range map[string]struct {
		spec *OperationSpec
		task *TaskSpec
		want memory.Task
	}{
		"a spec of before there were reserves": {&OperationSpec{Type: "vanilla"}, &TaskSpec{MemoryLimit: 100}, memory.Task{Limit: 100, ProxyEstimate: memory.Streams{}.Estimate(), Options: memory.Default()}},
		"all that can be said": {
			&OperationSpec{Type: "vanilla"},
			&TaskSpec{
				MemoryLimit: 100, Tmpfs: []*Tmpfs{{Size: 10}, {Size: 20}}, Outputs: []*KeptFile{{Destination: "/out/x"}, {Destination: "s3://b/y"}},
				Memory: &MemorySpec{
					DigestDefaultValue: .4, DigestLowerBound: .3, ProxyLowerBound: .7, ProxyDefaultValue: .8, ProxyUpperBound: .9,
					UserOverdraftMultiplier: 2, ProxyOverdraftMultiplier: 3,
				},
			},
			memory.Task{Limit: 100, Tmpfs: 30, ProxyEstimate: memory.Streams{Kept: 2, ToStore: true}.Estimate(), Options: memory.Options{
				UserDefault: .4, UserLower: .3, ProxyLower: .7, ProxyDefault: .8, ProxyUpper: .9, UserMultiplier: 2, ProxyMultiplier: 3,
			}},
		},
		"a mapper reads and writes": {
			&OperationSpec{Type: "map", Map: &MapSpec{InputPaths: []string{"/in/a", "s3://b/in"}, OutputPath: "/out"}}, &TaskSpec{MemoryLimit: 100},
			memory.Task{Limit: 100, ProxyEstimate: memory.Streams{Inputs: 2, FromStore: true, Writes: true}.Estimate(), Options: memory.Default()},
		},
	} {
		t.Run(story, func(t *testing.T) {
			if got := test.spec.MemoryTask(test.task); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestMemoryProfileKey(t *testing.T) {
	task := func(command string) *TaskSpec {
		return &TaskSpec{Name: "main", Argv: []string{command}, Memory: &MemorySpec{}}
	}
	named := task("sort")
	named.Memory.Profile = "sorting"
	spec := &OperationSpec{Type: "vanilla"}
	sort, again, uniq := spec.MemoryProfileKey("ann", task("sort")), spec.MemoryProfileKey("ann", task("sort")), spec.MemoryProfileKey("ann", task("uniq"))
	if sort != again || sort == uniq {
		t.Error("profiles are not those of commands")
	}
	if got := spec.MemoryProfileKey("ann", named); got != "ann:sorting" {
		t.Errorf("the profile that the user has named is %q", got)
	}
	if spec.MemoryProfileKey("bob", task("sort")) == sort || spec.FormerProfileKey(named) != "sorting" {
		t.Error("profiles are not those of users")
	}
	if got := (&OperationSpec{NoMemoryProfile: true}).MemoryProfileKey("ann", named); got != "" {
		t.Errorf("an operation without profiles has %q", got)
	}
}

func TestReserveComesBack(t *testing.T) {
	want := memory.Reserve{User: 1, Proxy: 2, UserFactor: 4, ProxyFactor: 5, ProxyEstimate: 6}
	if got := NewJobReserve(want).Reserve(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
