package events

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/eventpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
)

// treeChanged adds events for the differences between a tree and its previous version.
func (c *telling) treeChanged(e state.TreeChanged) {
	name := string(e.Tree)
	was := c.trees[name]
	now, ok := c.state.Tree(e.Tree)
	user := ""
	switch c.command.(type) {
	case *commandpb.EditTree, *commandpb.CreateTree, *commandpb.RemoveTree:
		user = c.user()
	}
	if !ok {
		delete(c.trees, name)
		if was != nil {
			c.add(&eventpb.Event{Kind: TreeRemoved, Tree: name, User: user})
		}
		return
	}
	c.trees[name] = now
	if was == nil {
		c.add(&eventpb.Event{Kind: TreeCreated, Tree: name, User: user, Attributes: changes(nil, now.GetOptions().AsMap())})
		was = &statepb.PoolTree{}
	} else if differ := changes(was.GetOptions().AsMap(), now.GetOptions().AsMap()); differ != nil {
		c.add(&eventpb.Event{Kind: TreeChanged, Tree: name, User: user, Attributes: differ})
	}
	for _, pool := range poolChanges(was.GetPools(), now.GetPools(), e.Former) {
		pool.Tree, pool.User = name, cmp.Or(user, pool.GetUser(), c.starter(pool.GetPool(), now))
		c.add(pool)
	}
}

// starter returns the user for whom a pool was created.
func (c *telling) starter(pool string, in *statepb.PoolTree) string {
	i := slices.IndexFunc(in.GetPools(), func(p *statepb.Pool) bool { return p.GetName() == pool })
	if i < 0 {
		return ""
	}
	return in.GetPools()[i].GetEphemeralUser()
}

// poolChanges returns events for the differences between two versions of a tree's pools.
func poolChanges(was, now []*statepb.Pool, former map[string]string) (out []*eventpb.Event) {
	before := make(map[string]*statepb.Pool, len(was))
	for _, p := range was {
		before[p.GetName()] = p
	}
	renamed := map[string]string{}
	for to, from := range former {
		renamed[from] = to
	}
	for _, p := range now {
		name := p.GetName()
		old := before[name]
		if from, ok := former[name]; ok && before[from] != nil {
			out = append(out, &eventpb.Event{Kind: PoolRenamed, Pool: name, From: from, To: name})
			old = before[from]
			delete(before, from)
		} else {
			delete(before, name)
		}
		switch {
		case old == nil:
			created := &eventpb.Event{Kind: PoolCreated, Pool: name, To: p.GetParent(), Attributes: changes(nil, p.GetOptions().AsMap())}
			if p.GetEphemeralUser() != "" {
				created.Reason = "ephemeral"
			}
			out = append(out, created)
		case old == p || proto.Equal(old, p):
		default:
			out = append(out, poolChange(old, p, renamed)...)
		}
	}
	for _, p := range was {
		if before[p.GetName()] != nil {
			removed := &eventpb.Event{Kind: PoolRemoved, Pool: p.GetName(), To: p.GetParent()}
			if p.GetEphemeralUser() != "" {
				removed.Reason, removed.User = "ephemeral", p.GetEphemeralUser()
			}
			out = append(out, removed)
		}
	}
	return out
}

// poolChange returns an event if the options or the parent of a pool differ.
func poolChange(was, now *statepb.Pool, renamed map[string]string) []*eventpb.Event {
	e := &eventpb.Event{Kind: PoolChanged, Pool: now.GetName(), Attributes: changes(was.GetOptions().AsMap(), now.GetOptions().AsMap())}
	parent := was.GetParent()
	if to, ok := renamed[parent]; ok {
		parent = to
	}
	if parent != now.GetParent() {
		e.From, e.To = was.GetParent(), now.GetParent()
	}
	if e.Attributes == nil && e.GetTo() == "" {
		return nil
	}
	return []*eventpb.Event{e}
}

// changes returns the new values of options that differ, by path. The value of a removed option is
// "null". changes returns nil if no option differs.
func changes(was, now map[string]any) map[string]string {
	out := map[string]string{}
	collect(out, "", was, now)
	if len(out) == 0 {
		return nil
	}
	return out
}

func collect(out map[string]string, prefix string, was, now map[string]any) {
	for name, value := range now {
		path := prefix + name
		old, had := was[name]
		below, isFolder := value.(map[string]any)
		if isFolder && len(below) > 0 {
			above, _ := old.(map[string]any)
			collect(out, path+"/", above, below)
			continue
		}
		if !had || text(old) != text(value) {
			out[path] = text(value)
		}
	}
	for name, old := range was {
		if _, still := now[name]; still {
			continue
		}
		if below, isFolder := old.(map[string]any); isFolder && len(below) > 0 {
			collect(out, prefix+name+"/", below, nil)
			continue
		}
		out[prefix+name] = "null"
	}
}

// text returns an option's value on one line. Equal values give equal text on all replicas.
func text(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}

// nodeChanged adds the event of a node's change.
func (c *telling) nodeChanged(e state.NodeChanged) {
	node, ok := c.state.Node(e.ID)
	if !ok {
		return
	}
	was, known := c.nodes[node.GetId()]
	c.nodes[node.GetId()] = node.GetTree()
	out := &eventpb.Event{Node: node.GetId(), Tree: node.GetTree()}
	switch m := c.command.(type) {
	case *commandpb.RegisterNode:
		out.Kind, out.Resources = NodeOnline, resourcesOf(node.GetResources())
		out.Attributes = map[string]string{"host": node.GetHost(), "version": node.GetVersion(), "incarnation": fmt.Sprint(node.GetIncarnation())}
		if len(node.GetTags()) > 0 {
			out.Attributes["tags"] = strings.Join(node.GetTags(), ",")
		}
	case *commandpb.SetNodeOffline:
		out.Kind, out.Message = NodeOffline, m.GetReason()
	case *commandpb.DrainNode:
		out.Kind, out.User, out.Message = NodeDrained, m.GetUser(), m.GetReason()
	case *commandpb.UndrainNode:
		out.Kind, out.User = NodeUndrained, m.GetUser()
	default:
		out.Kind = NodeMoved
		if known && was != node.GetTree() {
			out.From, out.To = was, node.GetTree()
		}
	}
	c.add(out)
}

// nodeRemoved adds the event that a node is forgotten, with the user who removed it.
func (c *telling) nodeRemoved(e state.NodeRemoved) {
	c.add(&eventpb.Event{Kind: NodeRemoved, Node: string(e.ID), Tree: c.nodes[string(e.ID)], User: c.user()})
	delete(c.nodes, string(e.ID))
}
