package figures

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"weir/messages/apipb"
	"weir/scheduling"
)

// IDs writes the ids of operations and jobs for people: short, and those of operations with what they are
// called, as far as that is known.
type IDs struct {
	// Full has ids written as a whole.
	Full bool
	// Names are what operations are called, by id.
	Names map[string]*apipb.OperationName
}

// idPattern matches the ids that replicas make: UUIDs of version 7.
var idPattern = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b`)

// IDsIn returns the ids anywhere in a message, in order.
func IDsIn(m proto.Message) []string {
	data, err := protojson.Marshal(m)
	if err != nil {
		return nil
	}
	return TextIDs(string(data))
}

// TextIDs returns the ids in a text, in order.
func TextIDs(text string) []string {
	found := idPattern.FindAllString(text, -1)
	slices.Sort(found)
	return slices.Compact(found)
}

// ID returns an id as it is shown.
func (i IDs) ID(id string) string {
	if i.Full {
		return id
	}
	return scheduling.ShortID(id)
}

// Title returns the alias and the title of an operation, at most 40 characters; None if it has none or they
// are not known.
func (i IDs) Title(id string) string { return Title(i.Names[id].GetAlias(), i.Names[id].GetTitle()) }

// Title returns the alias and the title of an operation, at most 40 characters; None if it has neither.
func Title(alias, title string) string {
	return cmp.Or(Clip(Printable(alias+When(alias != "" && title != "", " ")+title), 40), None)
}

// User returns the user of an operation; empty if it is not known.
func (i IDs) User(id string) string { return i.Names[id].GetUser() }

// Pool returns the pool of an operation; empty if it is not known.
func (i IDs) Pool(id string) string { return i.Names[id].GetPool() }

// Operation returns the id of an operation and what it is called; empty for an empty id.
func (i IDs) Operation(id string) string { return i.ID(id) + i.called(id, true) }

// Whole is like Operation, with the whole id.
func (i IDs) Whole(id string) string { return id + i.called(id, true) }

func (i IDs) called(id string, pool bool) string {
	name := i.Names[id]
	if name == nil {
		return ""
	}
	title := ""
	if t := i.Title(id); t != None {
		title = fmt.Sprintf(" %q", t)
	}
	return title + When(name.GetUser() != "", " of "+name.GetUser()) + When(pool && name.GetPool() != "", " in pool "+name.GetPool())
}

// Owned is like Whole, without the pool.
func (i IDs) Owned(id string) string { return id + i.called(id, false) }

// In returns a text in which ids are written as they are shown, those of operations with what they are called where
// they come first. A pool that the text names anyway is not said again.
func (i IDs) In(text string) string {
	var b strings.Builder
	said := map[string]bool{}
	rest := 0
	for _, at := range idPattern.FindAllStringIndex(text, -1) {
		id, after := text[at[0]:at[1]], text[at[1]:]
		b.WriteString(text[rest:at[0]] + i.ID(id))
		if rest = at[1]; said[id] {
			continue
		}
		said[id] = true
		named := regexp.MustCompile(`^ (of|in) pool |\bpool "?` + regexp.QuoteMeta(i.Pool(id)) + `\b`)
		b.WriteString(i.called(id, !named.MatchString(after) && !named.MatchString(text)))
	}
	return b.String() + text[rest:]
}
