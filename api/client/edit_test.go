package client

import (
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/apipb"
)

// TestEdited tells a tree in which a try has done its work from one in which it has
// not, or somebody else has done another.
func TestEdited(t *testing.T) {
	options := func(of map[string]any) *structpb.Struct {
		s, err := structpb.NewStruct(of)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	now := &apipb.ListPoolsResponse{
		TreeOptions: options(map[string]any{"max_operation_count": 9.0}),
		Pools: []*apipb.Pool{
			{Name: "ads", Parent: "<Root>", Options: options(map[string]any{"weight": 3.0, "resource_limits": map[string]any{"memory": 4096.0}})},
			{Name: "below", Parent: "ads", Options: &structpb.Struct{}},
		},
	}
	create := func(name, parent string, of map[string]any) *apipb.TreeEdit {
		return &apipb.TreeEdit{Edit: &apipb.TreeEdit_Create{Create: &apipb.Pool{Name: name, Parent: parent, Options: options(of)}}}
	}
	change := func(name string, of map[string]any) *apipb.TreeEdit {
		return &apipb.TreeEdit{Edit: &apipb.TreeEdit_Change{Change: &apipb.PoolChange{Name: name, Options: options(of)}}}
	}
	tree := func(of map[string]any) *apipb.TreeEdit {
		return &apipb.TreeEdit{Edit: &apipb.TreeEdit_TreeOptions{TreeOptions: options(of)}}
	}
	rename := func(from, to string) *apipb.TreeEdit {
		return &apipb.TreeEdit{Edit: &apipb.TreeEdit_Rename{Rename: &apipb.RenamePool{From: from, To: to}}}
	}
	remove := func(name string) *apipb.TreeEdit { return &apipb.TreeEdit{Edit: &apipb.TreeEdit_Remove{Remove: name}} }
	for name, test := range map[string]struct {
		edits []*apipb.TreeEdit
		want  bool
	}{
		"made, in other words":     {[]*apipb.TreeEdit{create("ads", "", map[string]any{"weight": 3.0, "resource-limits": map[string]any{"memory": "4KiB"}})}, true},
		"made by somebody else":    {[]*apipb.TreeEdit{create("ads", "", map[string]any{"weight": 3.0})}, false},
		"made elsewhere":           {[]*apipb.TreeEdit{create("below", "", nil)}, false},
		"not made":                 {[]*apipb.TreeEdit{create("x", "", nil)}, false},
		"changed":                  {[]*apipb.TreeEdit{change("ads", map[string]any{"weight": 3.0, "resource_limits/memory": "4KiB"})}, true},
		"a default given back":     {[]*apipb.TreeEdit{change("ads", map[string]any{"max_share_ratio": nil})}, true},
		"a default not given back": {[]*apipb.TreeEdit{change("ads", map[string]any{"weight": nil})}, false},
		"not changed":              {[]*apipb.TreeEdit{change("ads", map[string]any{"weight": 2.0})}, false},
		"the tree is changed":      {[]*apipb.TreeEdit{tree(map[string]any{"max_operation_count": 9.0})}, true},
		"the tree is not changed":  {[]*apipb.TreeEdit{tree(map[string]any{"max_operation_count": 8.0})}, false},
		"renamed":                  {[]*apipb.TreeEdit{rename("adverts", "ads")}, true},
		"changed and then renamed": {[]*apipb.TreeEdit{change("adverts", map[string]any{"weight": 3.0}), rename("adverts", "ads")}, true},
		"not renamed":              {[]*apipb.TreeEdit{rename("ads", "adverts")}, false},
		"removed":                  {[]*apipb.TreeEdit{remove("gone")}, true},
		"not removed":              {[]*apipb.TreeEdit{remove("below")}, false},
		"one of two is not done":   {[]*apipb.TreeEdit{remove("gone"), remove("below")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := edited(now, test.edits); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}
