package operation

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/messages/statepb"
)

// noon is when it is decided.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestHandOver(t *testing.T) {
	soon, late := noon.Add(time.Minute), noon.Add(-time.Second)
	held := func(job string, cookie int32, until time.Time, ready bool) Instance {
		return Instance{Job: job, Task: "t", Cookie: cookie, Ready: ready, Held: until, Drained: true}
	}
	runs := func(job string, cookie int32, ready bool) Instance {
		return Instance{Job: job, Task: "t", Cookie: cookie, Ready: ready}
	}
	preempted := func(i Instance) Instance {
		i.Drained = false
		return i
	}
	replaced := func(i Instance) Instance {
		i.Replaced = true
		return i
	}
	told := func(i Instance) Instance {
		i.Held, i.Told = time.Time{}, true
		return i
	}
	for name, test := range map[string]struct {
		surge, available int32
		instances        []Instance
		want             string
		wantAgain        bool
	}{
		"nobody has to leave":                               {1, 0, []Instance{runs("a", 0, true)}, "", false},
		"one that has to leave is replaced":                 {1, 0, []Instance{held("a", 0, soon, true), runs("b", 1, true)}, "replace a", true},
		"one at a time":                                     {1, 0, []Instance{held("a", 0, soon, true), held("b", 1, soon, true)}, "replace a", true},
		"two where that is allowed":                         {2, 0, []Instance{held("a", 0, soon, true), held("b", 1, soon, true)}, "replace a b", true},
		"it serves on while its successor begins":           {1, 0, []Instance{replaced(held("a", 0, soon, true)), runs("z", 0, false)}, "", true},
		"it is told when that is ready":                     {1, 0, []Instance{replaced(held("a", 0, soon, true)), runs("z", 0, true)}, "release a", false},
		"the next waits until it has gone":                  {1, 0, []Instance{told(replaced(held("a", 0, soon, false))), runs("z", 0, true), held("b", 1, soon, true)}, "", true},
		"one that is not ready has no need of others":       {1, 1, []Instance{replaced(held("a", 0, soon, false)), runs("z", 0, true)}, "release a", false},
		"too few others are ready":                          {0, 2, []Instance{held("a", 0, soon, true), runs("b", 1, true), runs("c", 2, false)}, "", true},
		"enough others are":                                 {0, 2, []Instance{held("a", 0, soon, true), runs("b", 1, true), runs("c", 2, true)}, "release a", false},
		"but not for two to leave at once":                  {0, 2, []Instance{held("a", 0, soon, true), held("b", 1, soon, true), runs("c", 2, true)}, "release a", true},
		"those that were told are none of them":             {0, 1, []Instance{held("a", 0, soon, true), told(runs("b", 1, true))}, "", true},
		"when its time is half over it is told in any case": {1, 3, []Instance{held("a", 0, late, true)}, "release a", false},
		"successor and others have to be ready":             {1, 2, []Instance{replaced(held("a", 0, soon, true)), runs("z", 0, true)}, "", true},
		"one that is preempted has no successor":            {1, 1, []Instance{preempted(held("a", 0, soon, true)), runs("b", 1, true)}, "release a", false},
		"and waits for others to be ready":                  {1, 1, []Instance{preempted(held("a", 0, soon, true)), runs("b", 1, false)}, "", true},
		"a drained one has its successor beside it":         {1, 1, []Instance{preempted(held("a", 0, soon, true)), held("b", 1, soon, true)}, "replace b, release a", true},
		"a successor that was lost is not ready":            {1, 0, []Instance{replaced(held("a", 0, soon, true))}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			op := &statepb.Operation{Id: "op", Spec: &statepb.OperationSpec{Tasks: []*statepb.TaskSpec{{Name: "t", MaxSurge: test.surge, MinAvailable: test.available}}}}
			command, again := HandOver(noon, op, 7, test.instances)
			var got []string
			if len(command.GetReplaceJobIds()) > 0 {
				got = append(got, "replace "+strings.Join(command.GetReplaceJobIds(), " "))
			}
			if len(command.GetReleaseJobIds()) > 0 {
				got = append(got, "release "+strings.Join(command.GetReleaseJobIds(), " "))
			}
			if strings.Join(got, ", ") != test.want || again.IsZero() == test.wantAgain {
				t.Errorf("got %q, again %v, want %q, again %t", got, again, test.want, test.wantAgain)
			}
		})
	}
}

// TestHandOverKeepsPromises: of random services, whoever is told to go before its time leaves as
// many others ready as was asked for, has a successor that is ready where there is to be one, and
// no more are replaced at a time than may be.
func TestHandOverKeepsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		task := &statepb.TaskSpec{Name: "t", MaxSurge: rapid.Int32Range(0, 3).Draw(t, "surge"), MinAvailable: rapid.Int32Range(0, 5).Draw(t, "available")}
		op := &statepb.Operation{Id: "op", Spec: &statepb.OperationSpec{Tasks: []*statepb.TaskSpec{task}}}
		byJob, ready, beside := map[string]Instance{}, int32(0), int32(0)
		successor := map[int32]bool{}
		var instances []Instance
		for n := range rapid.IntRange(0, 8).Draw(t, "instances") {
			i := Instance{Job: string(rune('a' + n)), Task: "t", Cookie: int32(n), Ready: rapid.Bool().Draw(t, "ready")}
			switch rapid.IntRange(0, 3).Draw(t, "state") {
			case 0:
				i.Told = true
			case 1:
				i.Held = noon.Add(time.Duration(rapid.IntRange(-1, 2).Draw(t, "until")) * time.Minute)
				i.Drained = rapid.Bool().Draw(t, "drained")
			case 2:
				if beside < task.GetMaxSurge() {
					i.Held, i.Replaced, i.Drained = noon.Add(time.Minute), true, true
					beside++
					if rapid.Bool().Draw(t, "has a successor") {
						z := Instance{Job: "z" + i.Job, Task: "t", Cookie: i.Cookie, Ready: rapid.Bool().Draw(t, "successor ready")}
						successor[i.Cookie] = z.Ready
						instances = append(instances, z)
						if z.Ready {
							ready++
						}
					}
				}
			}
			if i.Ready && !i.Told {
				ready++
			}
			byJob[i.Job] = i
			instances = append(instances, i)
		}
		command, _ := HandOver(noon, op, 1, instances)
		if more := int32(len(command.GetReplaceJobIds())); beside+more > max(task.GetMaxSurge(), beside) {
			t.Fatalf("%d are replaced beside %d, %d may be", more, beside, task.GetMaxSurge())
		}
		for _, job := range command.GetReplaceJobIds() {
			if !byJob[job].Drained {
				t.Fatalf("%s is replaced, and leaves for another operation", job)
			}
		}
		for _, job := range command.GetReleaseJobIds() {
			i := byJob[job]
			if i.Ready {
				ready--
			}
			early := noon.Before(i.Held)
			if early && ready < task.GetMinAvailable() {
				t.Fatalf("%s is told to go, and %d others are ready", job, ready)
			}
			if early && i.Drained && task.GetMaxSurge() > 0 && !successor[i.Cookie] {
				t.Fatalf("%s is told to go, and its successor is not ready", job)
			}
		}
	})
}
