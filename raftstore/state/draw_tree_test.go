package state

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// tree draws a tree: mostly one that there is.
func (g generator) tree() string {
	if g.mostly() {
		return rapid.SampledFrom(g.state.Trees()).Draw(g.T, "tree").GetName()
	}
	return g.one([]string{"default", "gpu", "big", "gone"}, "tree")
}

func (g generator) filter() any {
	return rapid.SampledFrom([]any{nil, "!gpu", "gpu", "gpu & big", "!gpu & !big", "gpu | big", "gpu &"}).Draw(g.T, "filter")
}

func (g generator) poolName() string {
	return g.one([]string{"a", "b", "c", "default", "gone", "a$ann", "a$bob", "own"}, "name")
}

func (g generator) poolOptions() map[string]any {
	options := map[string]any{}
	if g.pick(3, "limited") == 0 {
		options["max_running_operation_count"] = g.pick(3, "running")
		options["max_operation_count"] = g.pick(5, "count")
	}
	for _, o := range []struct {
		name   string
		values []any
	}{
		{"mode", []any{"fair_share", "fifo"}}, {"weight", []any{2.5, -1.0, nil}}, {"create_ephemeral_subpools", []any{true, false}},
		{"enable_lightweight_operations", []any{true}}, {"forbid_immediate_operations", []any{true, nil}}, {"colour", []any{"red"}},
		{"acl", []any{nil, map[string]any{"use": []any{"*"}}, map[string]any{"use": []any{"user:ann"}, "administer": []any{"user:ann", "group:g"}},
			map[string]any{"manage": []any{"group:g"}, "use": []any{"group:none"}}, map[string]any{"administer": []any{"user:bob"}, "manage": []any{"user:bob"}, "read": []any{"bad"}},
			map[string]any{"administer": []any{"user:bob"}, "use": []any{"group:g"}, "manage": []any{"user:ann"}}}},
		{"strong_guarantee_resources", []any{map[string]any{"cpu": 1}, map[string]any{"cpu": 3}}},
	} {
		if g.pick(8, o.name) == 0 {
			options[o.name] = rapid.SampledFrom(o.values).Draw(g.T, o.name)
		}
	}
	return options
}

func (g generator) editTree() proto.Message {
	m := &commandpb.EditTree{Tree: g.tree()}
	parent := g.one([]string{"", "", "a", "b", "c", "<Root>"}, "parent")
	kinds := []func() *commandpb.TreeEdit{
		func() *commandpb.TreeEdit { return creation(g.poolName(), parent, g.poolOptions()) },
		func() *commandpb.TreeEdit {
			return &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Set{Set: creation(g.poolName(), parent, g.poolOptions()).GetCreate()}}
		},
		func() *commandpb.TreeEdit { return poolChange(g.poolName(), g.poolOptions()) },
		func() *commandpb.TreeEdit { return movePool(g.poolName(), parent).GetEdits()[0] },
		func() *commandpb.TreeEdit { return renaming(g.poolName(), g.poolName()) },
		func() *commandpb.TreeEdit { return removal(g.poolName()) },
		func() *commandpb.TreeEdit {
			return treeEdit("", map[string]any{"nodes_filter": g.filter()}).GetEdits()[0]
		},
		func() *commandpb.TreeEdit {
			return treeEdit("", map[string]any{
				"max_ephemeral_pools_per_user": g.pick(3, "ephemeral"), "default_parent_pool": g.one([]string{"<Root>", "a", "c"}, "default parent"),
				"max_running_operation_count_per_pool": 1 + g.pick(4, "per pool"),
			}).GetEdits()[0]
		},
	}
	for range 1 + g.pick(3, "edits") {
		m.Edits = append(m.Edits, rapid.SampledFrom(kinds).Draw(g.T, "edit")())
	}
	if !g.mostly() {
		m.ExpectedRevision = uint64(1 + g.pick(4, "revision"))
	}
	return m
}

func (g generator) editGroup() proto.Message {
	m := &commandpb.EditGroup{Group: g.one([]string{"g", "g", "h", "not good"}, "group"), Delete: g.pick(4, "delete") == 0}
	for _, users := range []*[]string{&m.Add, &m.Remove} {
		if g.pick(3, "users") == 0 {
			*users = append(*users, g.one([]string{"ann", "bob", "eve"}, "user"))
		}
	}
	return m
}

func (g generator) revoke() proto.Message {
	r := &statepb.Revocation{Role: "user", Name: g.one([]string{"ann", "bob"}, "name")}
	if g.pick(3, "by serial") == 0 {
		r = &statepb.Revocation{Serial: g.one([]string{"1a", "2b"}, "serial"), Role: g.one([]string{"", "user"}, "role")}
	}
	return &commandpb.Revoke{Revocation: r, Lift: g.pick(3, "lift") == 0}
}

func (g generator) editAccounts() proto.Message {
	m := &commandpb.EditAccounts{
		Subject:       g.one([]string{"user:ann", "user:bob", "group:g", "*", "nobody"}, "subject"),
		IsolationNone: g.pick(4, "isolation") == 0, Disallow: g.pick(3, "disallow") == 0,
	}
	if g.mostly() {
		m.Accounts = append(m.Accounts, g.one([]string{"build", "1001"}, "account"))
	}
	if g.pick(3, "groups") == 0 {
		m.Groups = append(m.Groups, g.one([]string{"video", "Not good"}, "group"))
	}
	return m
}

func (g generator) editNodeGrant() proto.Message {
	grant := &statepb.NodeGrant{Pattern: g.one([]string{"*", "n*", "n1", "[", "n[12]"}, "pattern")}
	for _, tag := range []string{"gpu", "big"} {
		if g.mostly() {
			grant.Tags = append(grant.Tags, tag)
		}
	}
	if g.pick(4, "max") == 0 {
		grant.Max = map[string]int64{"user_slots": int64(g.pick(9, "slots"))}
	}
	return &commandpb.EditNodeGrant{Grant: grant, Disallow: g.pick(2, "disallow") == 0, Force: g.pick(2, "force") == 0}
}

func (g generator) editStore() proto.Message {
	return &commandpb.EditStore{Create: g.pick(2, "create") == 0, Delete: g.pick(4, "delete") == 0, Store: &statepb.Store{
		Name: g.one([]string{"s", "t", "not good"}, "store"), Endpoint: "http://h", AccessKey: "k", Sealed: []byte("x"),
		Prefixes: []string{g.one([]string{"s3://b", "s3://b/data", "/tmp"}, "prefix")}, Pools: []string{g.poolName()},
	}}
}

func (g generator) createTree() proto.Message {
	return &commandpb.CreateTree{Tree: g.one([]string{"gpu", "big", "a/b"}, "tree"), Options: optionsOf(map[string]any{"nodes_filter": g.filter()})}
}

func (g generator) removeTree() proto.Message { return &commandpb.RemoveTree{Tree: g.tree()} }

func (g generator) defaultTree() proto.Message { return &commandpb.SetDefaultTree{Tree: g.tree()} }

func (g generator) volumes() proto.Message {
	m := &commandpb.CheckpointVolumes{Term: g.term(), Tree: g.tree(), Volumes: []*statepb.PoolVolume{
		{Pool: g.poolName(), CpuHundredths: int64(g.pick(9, "volume")), LastShareRatio: float64(g.pick(5, "ratio")-1) / 4},
	}}
	m.Clocks = append(m.Clocks, &statepb.StarvationClock{PoolId: uint64(1 + g.pick(5, "pool id")), BelowSince: timestamppb.New(epochStart)})
	if clock := (&statepb.StarvationClock{OperationId: g.operation().GetId()}); clock.GetOperationId() != "" {
		if g.pick(2, "below") == 0 {
			clock.BelowMinShareSince = timestamppb.New(epochStart)
		}
		m.Clocks = append(m.Clocks, clock)
		m.Age = &statepb.PreemptionAge{Digest: 1, Takings: []*statepb.Taking{{OperationId: clock.GetOperationId()}}[:g.pick(2, "takings")]}
	}
	return m
}

func (g generator) update() proto.Message {
	m := &commandpb.UpdateOperation{OperationId: g.operation().GetId(), User: "ann"}
	for range 1 + g.pick(2, "changes") {
		change := &commandpb.OperationChange{}
		if g.pick(3, "in one tree") == 0 {
			change.Tree = g.tree()
		}
		if g.pick(4, "moves") > 0 {
			pool := g.poolName()
			change.Pool = &pool
		}
		if g.pick(2, "options") == 0 {
			change.Options = changesOf(map[string]any{g.one([]string{"weight", "resource_limits/cpu", "max-share-ratio", "colour"}, "option"): g.pick(3, "value")})
		}
		m.Changes = append(m.Changes, change)
	}
	return m
}

func (g generator) admit() proto.Message {
	return &commandpb.AdmitOperation{OperationId: g.operation().GetId(), Term: g.term(), Trees: []string{g.tree()}}
}
