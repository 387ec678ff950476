package versions

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/eventpb"
	"weir/messages/explainpb"
	"weir/messages/journalpb"
	"weir/messages/remotepb"
	"weir/messages/statepb"
)

// files have the messages that processes keep or send to each other.
var files = []protoreflect.FileDescriptor{
	commandpb.File_commandpb_command_proto, statepb.File_statepb_state_proto, journalpb.File_journalpb_journal_proto, actorpb.File_actorpb_actor_proto,
	remotepb.File_remotepb_remote_proto, eventpb.File_eventpb_event_proto, explainpb.File_explainpb_explain_proto,
}

var known = plansOf(rows)

// Newer returns the name of something in a message that is newer than a version of the cluster, and may
// not be written at it; "" if there is nothing.
func Newer(msg proto.Message, version uint32) string {
	if _, raises := msg.(*commandpb.RaiseVersion); raises {
		return ""
	}
	since, name := known.newest(msg)
	if since <= version {
		return ""
	}
	return name
}

// Of returns the version of the cluster that a program must know to read a message: that of the newest
// thing in it, 1 at least.
func Of(msg proto.Message) uint32 {
	since, _ := known.newest(msg)
	if m, raises := msg.(*commandpb.RaiseVersion); raises {
		since = max(since, m.GetVersion())
	}
	return max(since, 1)
}

// Plant adds rows until undo is called, for tests: nothing else may use the package meanwhile.
func Plant(more ...Row) (undo func()) {
	was := known
	known = plansOf(append(more, rows...))
	return func() { known = was }
}

// plans are the messages that may hold something new. All others cost one look into the map.
type plans map[protoreflect.FullName]*plan

// plan is what may be new in a message.
type plan struct {
	// since is the version of the message itself; 0: 1.
	since  uint32
	fields []fieldPlan
}

// fieldPlan is a field that is new, or leads to something that may be.
type fieldPlan struct {
	descriptor protoreflect.FieldDescriptor
	since      uint32
	// inner is the plan of its messages; nil if they hold nothing new.
	inner *plan
}

// plansOf makes the plans of all messages that rows concern.
func plansOf(rows []Row) plans {
	since := map[protoreflect.FullName]uint32{}
	for _, row := range rows {
		if !row.Told && !plain(row.Name) {
			since[protoreflect.FullName(row.Name)] = row.Since
		}
	}
	all := plans{}
	for more := true; more; {
		more = false
		each(func(m protoreflect.MessageDescriptor) {
			p := all[m.FullName()]
			if p == nil {
				p = &plan{since: since[m.FullName()]}
			}
			p.fields = p.fields[:0]
			for i := range m.Fields().Len() {
				f := m.Fields().Get(i)
				inner := all[messageIn(f)]
				if since[f.FullName()] > 0 || inner != nil {
					p.fields = append(p.fields, fieldPlan{descriptor: f, since: since[f.FullName()], inner: inner})
				}
			}
			if all[m.FullName()] == nil && (p.since > 0 || len(p.fields) > 0) {
				all[m.FullName()], more = p, true
			}
		})
	}
	return all
}

// each calls a function for all messages.
func each(do func(protoreflect.MessageDescriptor)) {
	var below func(protoreflect.MessageDescriptors)
	below = func(messages protoreflect.MessageDescriptors) {
		for i := range messages.Len() {
			do(messages.Get(i))
			below(messages.Get(i).Messages())
		}
	}
	for _, file := range files {
		below(file.Messages())
	}
}

// messageIn returns the name of the messages in a field; "" if it has none.
func messageIn(f protoreflect.FieldDescriptor) protoreflect.FullName {
	if f.IsMap() {
		f = f.MapValue()
	}
	if f.Message() == nil {
		return ""
	}
	return f.Message().FullName()
}

// newest returns the newest thing in a message, and the version since when it is written; 0 and "" if all
// is of version 1.
func (all plans) newest(msg proto.Message) (since uint32, name string) {
	m := msg.ProtoReflect()
	p := all[m.Descriptor().FullName()]
	if p == nil {
		return 0, ""
	}
	return p.newest(m)
}

func (p *plan) newest(m protoreflect.Message) (since uint32, name string) {
	since, name = p.since, string(m.Descriptor().FullName())
	take := func(s uint32, n string) {
		if s > since {
			since, name = s, n
		}
	}
	for _, f := range p.fields {
		if !m.Has(f.descriptor) {
			continue
		}
		take(f.since, string(f.descriptor.FullName()))
		if f.inner == nil {
			continue
		}
		value := m.Get(f.descriptor)
		switch {
		case f.descriptor.IsMap():
			value.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { take(f.inner.newest(v.Message())); return true })
		case f.descriptor.IsList():
			for i := range value.List().Len() {
				take(f.inner.newest(value.List().Get(i).Message()))
			}
		default:
			take(f.inner.newest(value.Message()))
		}
	}
	if since == 0 {
		name = ""
	}
	return since, name
}
