package actorpb

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
)

// listOf returns instances in a state each.
func listOf(version string, states ...string) *Instances {
	out := &Instances{OperationId: "op", Version: version}
	for i, state := range states {
		if state != "" {
			out.Instances = append(out.Instances, &Instance{JobId: fmt.Sprint("j", i), Task: "serve", Cookie: int32(i), State: state})
		}
	}
	return out
}

func TestChangedSince(t *testing.T) {
	five := func(last string) []string { return []string{"live", "live", "live", "live", last} }
	over := listOf("v2", five("live")...)
	over.Over = true
	for name, test := range map[string]struct {
		before, now   *Instances
		wantWhole     bool
		wantInstances int
		wantForgotten int
	}{
		"nothing before":           {now: listOf("v1", five("live")...), wantWhole: true, wantInstances: 5},
		"a replica without":        {before: &Instances{}, now: listOf("v1", five("live")...), wantWhole: true, wantInstances: 5},
		"nothing new":              {before: listOf("v1", five("live")...), now: listOf("v1", five("live")...)},
		"one drains":               {before: listOf("v1", five("live")...), now: listOf("v2", five("draining")...), wantInstances: 1},
		"one is forgotten":         {before: listOf("v1", five("gone")...), now: listOf("v2", five("")...), wantForgotten: 1},
		"one joins":                {before: listOf("v1", five("")...), now: listOf("v2", five("live")...), wantInstances: 1},
		"the operation has ended":  {before: listOf("v1", five("live")...), now: over},
		"all change":               {before: listOf("v1", "live", "live"), now: listOf("v2", "gone", "gone"), wantWhole: true, wantInstances: 2},
		"none is left":             {before: listOf("v1", "gone", "gone"), now: listOf("v2"), wantWhole: true},
		"none is, as none was":     {before: listOf("v1"), now: &Instances{OperationId: "op", Version: "v2", Over: true}},
		"more goes than is left":   {before: listOf("v1", "gone", "gone", "live"), now: listOf("v2", "", "", "live"), wantWhole: true, wantInstances: 1},
		"a version of another one": {before: listOf("v7", five("live")...), now: listOf("v2", five("draining")...), wantInstances: 1},
	} {
		t.Run(name, func(t *testing.T) {
			told := test.now.ChangedSince(test.before)
			if (told.GetSince() == "") != test.wantWhole || len(told.GetInstances()) != test.wantInstances || len(told.GetForgotten()) != test.wantForgotten {
				t.Errorf("told %v", told)
			}
			if all, ok := told.After(test.before); !ok || !proto.Equal(all, test.now) {
				t.Errorf("who hears %v knows %v, %t; want %v", told, all, ok, test.now)
			}
			if _, ok := told.After(listOf("other", "live")); ok != test.wantWhole {
				t.Errorf("who has another version takes it: %t, want %t", ok, test.wantWhole)
			}
		})
	}
}
