package api

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/apipb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/access"
	"weir/scheduling/pooltree"
)

const (
	// maxChange bounds what a line of the audit log says about a change, in bytes.
	maxChange = 900
	// mostTold bounds the edits of a tree that a line tells.
	mostTold = 20
)

// changeOf says what a request changes, with the values before it; empty if the method and the object
// of the line say it already. Long texts are cut; they end in a checksum of the request, so that
// different changes have different texts. Anyone may ask for large changes: little is done for it, and
// nothing but a look at the tree while the state waits.
func (s *server) changeOf(asked any) string {
	m, ok := asked.(proto.Message)
	if !ok {
		return ""
	}
	var t treeIn
	var former scheduling.TreeName
	s.cfg.Store.View(func(st *state.State) {
		former = st.DefaultTree()
		if m, names := asked.(interface{ GetTree() string }); names {
			t, _ = findTree(st, "", m.GetTree())
		}
	})
	parts, whole := changesBy(t, former, asked)
	text := strings.Join(parts, "; ")
	if whole && len(text) <= maxChange {
		return text
	}
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return ""
	}
	sum := fnv.New64a()
	_, _ = sum.Write(bytes)
	return fmt.Sprintf("%s… (a request of %d bytes, checksum %016x)", strings.ToValidUTF8(text[:min(len(text), maxChange)], ""), len(bytes), sum.Sum64())
}

// changesBy returns what a request changes, given the tree that it names, and whether that is all.
func changesBy(t treeIn, former scheduling.TreeName, asked any) (parts []string, whole bool) {
	if m, edits := asked.(*apipb.EditTreeRequest); edits {
		size := 0
		for i, edit := range m.GetEdits() {
			if i == mostTold || size > maxChange {
				return parts, false
			}
			for _, part := range editText(t, edit) {
				parts, size = append(parts, part), size+len(part)
			}
		}
		return parts, true
	}
	return otherChanges(t, former, asked), true
}

// otherChanges returns what a request that does not edit a tree changes.
func otherChanges(t treeIn, former scheduling.TreeName, asked any) (parts []string) {
	switch m := asked.(type) {
	case *apipb.CreateTreeRequest:
		return append([]string{"created tree " + m.GetTree()}, settings(treeIn{}, "", m.GetOptions(), nil)...)
	case *apipb.SetTreeRequest:
		return settings(t, scheduling.RootPool, m.GetOptions(), t.record.GetOptions())
	case *apipb.RemoveTreeRequest:
		return []string{"removed tree " + m.GetTree()}
	case *apipb.SetDefaultTreeRequest:
		return []string{fmt.Sprintf("default tree %s -> %s", former, m.GetTree())}
	case *apipb.EditGroupRequest:
		return []string{groupText(m)}
	case *apipb.EditAccountsRequest:
		return []string{accountsText(m)}
	case *apipb.EditNodeGrantRequest:
		return []string{nodeGrantText(m)}
	case *apipb.EditStoreRequest:
		return []string{storeText(m)}
	case *apipb.RevokeRequest:
		what := cmp.Or(put("serial ", m.GetSerial()), m.GetRole()+" "+m.GetName())
		if m.GetLift() {
			return []string{"lifted the revocation of " + what}
		}
		return []string{"revoked " + what + put(": ", m.GetReason())}
	case *apipb.JobFileRequest:
		if m.GetKept() {
			return []string{fmt.Sprintf("read %q of what was kept", m.GetPath())}
		}
		return []string{fmt.Sprintf("read %q of the workspace", m.GetPath())}
	case *apipb.ExecJobRequest:
		return []string{fmt.Sprintf("ran %q", m.GetCommand())}
	case *apipb.UpdateOperationRequest:
		for _, change := range m.GetChanges() {
			if change.Pool != nil {
				parts = append(parts, "moved to pool "+change.GetPool()+put(" of tree ", change.GetTree()))
			}
			parts = append(parts, settings(treeIn{}, "", change.GetOptions(), nil)...)
		}
	case *apipb.AbortOperationRequest:
		return []string{"aborted" + put(": ", m.GetReason())}
	case *apipb.AbortJobRequest:
		return []string{"aborted" + put(": ", m.GetReason())}
	case *apipb.DrainNodeRequest:
		return []string{"drained" + put(": ", m.GetReason())}
	case *apipb.FinishUpgradeRequest:
		return []string{upgradeText(m)}
	case *apipb.AddReplicaRequest:
		return []string{"added at " + m.GetAddress()}
	}
	return parts
}

// upgradeText says what a request to finish an upgrade does.
func upgradeText(m *apipb.FinishUpgradeRequest) string {
	text := "raised"
	if m.GetDryRun() {
		text = "asked about raising"
	}
	text += fmt.Sprintf(" the version of the cluster to %d", m.GetVersion())
	if m.GetWithoutOfflineAgents() {
		text += ", without agents that are offline"
	}
	return text
}

// groupText says how a group changes: "group ads-team + ann - bob".
func groupText(m *apipb.EditGroupRequest) string {
	text := "group " + m.GetGroup()
	if m.GetDelete() {
		return text + " removed"
	}
	if len(m.GetAdd()) > 0 {
		text += " + " + strings.Join(m.GetAdd(), ", ")
	}
	if len(m.GetRemove()) > 0 {
		text += " - " + strings.Join(m.GetRemove(), ", ")
	}
	return text
}

// accountsText says how a subject's accounts change: "accounts of user:ann + ann, group ads".
func accountsText(m *apipb.EditAccountsRequest) string {
	given := slices.Clone(m.GetAccounts())
	for _, name := range m.GetGroups() {
		given = append(given, "group "+name)
	}
	if m.GetIsolationNone() {
		given = append(given, "isolation none")
	}
	text := "accounts of " + m.GetSubject()
	switch {
	case !m.GetDisallow():
		return text + " + " + strings.Join(given, ", ")
	case len(given) > 0:
		return text + " - " + strings.Join(given, ", ")
	default:
		return text + " removed"
	}
}

// nodeGrantText says what nodes may claim from now on: "nodes gpu-*: tags gpu, cpu 128 at most".
func nodeGrantText(m *apipb.EditNodeGrantRequest) string {
	g := m.GetGrant()
	if m.GetDisallow() {
		return "grant of nodes " + g.GetPattern() + " removed"
	}
	text := "nodes " + g.GetPattern() + ": tags " + cmp.Or(strings.Join(g.GetTags(), ", "), "none")
	for _, name := range slices.Sorted(maps.Keys(g.GetMax())) {
		text += fmt.Sprintf(", %s %v at most", name, g.GetMax()[name])
	}
	if m.GetForce() {
		text += ", by force"
	}
	return text
}

// storeText says how an object store changes, without its secret.
func storeText(m *apipb.EditStoreRequest) string {
	o := m.GetStore()
	if m.GetDelete() {
		return "store " + o.GetName() + " removed"
	}
	text := "store " + o.GetName() + put(" at ", o.GetEndpoint()) + put(", access key ", o.GetAccessKey())
	if m.GetSecretKey() != "" {
		text += ", a secret key"
	}
	return text + put(", prefixes ", strings.Join(o.GetPrefixes(), " ")) + put(", tree ", o.GetTree()) + put(", pools ", strings.Join(o.GetPools(), " "))
}

// editText says what an edit of a tree changes.
func editText(t treeIn, edit *apipb.TreeEdit) []string {
	options := func(pool string) *structpb.Struct {
		for _, p := range t.record.GetPools() {
			if p.GetName() == pool {
				return p.GetOptions()
			}
		}
		return nil
	}
	switch e := edit.GetEdit().(type) {
	case *apipb.TreeEdit_TreeOptions:
		return settings(t, scheduling.RootPool, e.TreeOptions, t.record.GetOptions())
	case *apipb.TreeEdit_Create:
		made := fmt.Sprintf("created pool %s below %s", e.Create.GetName(), cmp.Or(e.Create.GetParent(), string(scheduling.RootPool)))
		return append([]string{made}, settings(t, scheduling.PoolName(e.Create.GetName()), e.Create.GetOptions(), nil)...)
	case *apipb.TreeEdit_Change:
		var parts []string
		name := scheduling.PoolName(e.Change.GetName())
		if e.Change.Parent != nil {
			before, _ := t.pools.Pool(name)
			parts = append(parts, fmt.Sprintf("moved pool %s from %s to %s", name, cmp.Or(before.Parent, scheduling.RootPool), cmp.Or(e.Change.GetParent(), string(scheduling.RootPool))))
		}
		return append(parts, settings(t, name, e.Change.GetOptions(), options(e.Change.GetName()))...)
	case *apipb.TreeEdit_Rename:
		return []string{fmt.Sprintf("renamed pool %s to %s", e.Rename.GetFrom(), e.Rename.GetTo())}
	case *apipb.TreeEdit_Remove:
		return []string{"removed pool " + e.Remove}
	}
	return nil
}

// settings says how options change, by name: "weight 1 -> 5 on pool ads". Rights are told by subject:
// "user:bob=read,manage on pool ads".
func settings(t treeIn, pool scheduling.PoolName, given, before *structpb.Struct) (parts []string) {
	on := put(" on pool ", string(pool))
	was, now := map[string]any{}, map[string]any{}
	flatten("", before.AsMap(), was)
	flatten("", given.AsMap(), now)
	rights := make(map[access.Right]any)
	for _, path := range slices.Sorted(maps.Keys(now)) {
		if right, is := strings.CutPrefix(path, "acl/"); is {
			rights[access.Right(right)] = now[path]
			continue
		}
		if path == "acl" {
			for _, right := range access.Rights() {
				rights[right] = nil
			}
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %s -> %s%s", path, valueText(was[path]), valueText(now[path]), on))
	}
	return append(parts, rightsText(t.pools, pool, rights, on)...)
}

// rightsText says to whom rights are given, and from whom they are taken.
func rightsText(pools pooltree.Tree, pool scheduling.PoolName, rights map[access.Right]any, on string) (parts []string) {
	given, taken := map[string][]string{}, map[string][]string{}
	for _, right := range access.Rights() {
		value, changed := rights[right]
		if !changed {
			continue
		}
		after := subjectTexts(value)
		if value == nil && pool == scheduling.RootPool {
			after = subjectTexts(access.Initial().Subjects(right))
		}
		before := subjectTexts(pools.Rights(pool).Subjects(right))
		eachLacking(after, before, func(subject string) { given[subject] = append(given[subject], string(right)) })
		eachLacking(before, after, func(subject string) { taken[subject] = append(taken[subject], string(right)) })
	}
	for _, subject := range slices.Sorted(maps.Keys(given)) {
		parts = append(parts, subject+"="+strings.Join(given[subject], ",")+on)
	}
	for _, subject := range slices.Sorted(maps.Keys(taken)) {
		parts = append(parts, "no more "+subject+"="+strings.Join(taken[subject], ",")+on)
	}
	return parts
}

// eachLacking calls a function for each text of a list that others does not have.
func eachLacking(list, others []string, each func(string)) {
	known := make(map[string]bool, len(others))
	for _, text := range others {
		known[text] = true
	}
	for _, text := range list {
		if !known[text] {
			each(text)
		}
	}
}

// subjectTexts returns subjects out of a list of options, or of rights.
func subjectTexts(value any) []string {
	switch list := value.(type) {
	case []any:
		return mapped(list, func(v any) string {
			if text, ok := v.(string); ok {
				return text
			}
			// Parsers of YAML take user:ann for an object within braces.
			return strings.Trim(strings.ReplaceAll(fmt.Sprint(v), "map", ""), "[]")
		})
	case []access.Subject:
		return mapped(list, func(s access.Subject) string { return string(s) })
	}
	return nil
}

// flatten puts the values of an object by path, with slashes between names.
func flatten(path string, value any, into map[string]any) {
	object, is := value.(map[string]any)
	if !is || path != "" && len(object) == 0 {
		into[path] = value
		return
	}
	for name, inner := range object {
		flatten(strings.TrimPrefix(path+"/"+name, "/"), inner, into)
	}
}

// valueText returns a value of an option as text.
func valueText(value any) string {
	if value == nil {
		return "default"
	}
	return fmt.Sprint(value)
}
