package document

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"weir/scheduling/option"
)

// The limits of YAML text. The parser recurses at each level, and copies the entries of a level
// whenever it adds one; the limits keep it fast and its stack small.
const (
	// maxTokens bounds words, quoted texts and punctuation.
	maxTokens = 1 << 18
	// maxEntries bounds colons, dashes, question marks, anchors and tags. A larger
	// spec, as programs may write it, has to be JSON.
	maxEntries = 10_000
)

// readYAML reads one YAML document.
func readYAML(data []byte) (*Document, error) {
	tokens := lexer.Tokenize(string(data))
	if err := checkTokens(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, yamlError(err)
	}
	r := &yamlReader{anchors: make(map[string]*option.Value)}
	var root *option.Value
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			return nil, faultAt(nil, placeOf(doc.Body), "a second document: only one is allowed")
		}
		if root, err = r.read(doc.Body, nil, 0); err != nil {
			return nil, err
		}
	}
	if root == nil {
		return nil, faultAt(nil, option.Position{}, "it is empty, but must be an object (names with values)")
	}
	return &Document{Root: root, faults: r.faults}, nil
}

// checkTokens returns an error for text that is larger or nests deeper than the
// limits, before the parser sees it.
func checkTokens(tokens token.Tokens) error {
	if len(tokens) > maxTokens {
		return faultAt(nil, placeOfToken(tokens[maxTokens]), "there are more than %d words and signs: write less, or write JSON", maxTokens)
	}
	open, entries := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			open++
		case token.SequenceEndType, token.MappingEndType:
			open--
		case token.MappingValueType, token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			entries++
		default:
		}
		switch {
		case open > maxDepth:
			return faultAt(nil, placeOfToken(t), "values nest more than %d deep", maxDepth)
		case entries > maxEntries:
			return faultAt(nil, placeOfToken(t), "there are more than %d entries: write less, or write JSON", maxEntries)
		}
	}
	return nil
}

// yamlError returns the parser's error on one line, with its place.
func yamlError(err error) error {
	var detailed yaml.Error
	if !errors.As(err, &detailed) {
		return faultAt(nil, option.Position{}, "%v", err)
	}
	// A tab is invisible, so name it.
	shown := strings.ReplaceAll(detailed.GetMessage(), "character '\t'", "a tab character")
	message := strings.Join(strings.Fields(shown), " ")
	return faultAt(nil, placeOfToken(detailed.GetToken()), "%s", option.Clip(message))
}

// yamlReader turns the syntax tree of a document into values.
type yamlReader struct {
	anchors map[string]*option.Value
	reader
}

func (r *yamlReader) read(node ast.Node, path *trail, depth int) (*option.Value, error) {
	at := placeOf(node)
	if err := r.enter(path, at, depth); err != nil {
		return nil, err
	}
	switch n := node.(type) {
	case *ast.NullNode:
		return &option.Value{Kind: option.Null, At: at}, nil
	case *ast.BoolNode:
		return &option.Value{Kind: option.Boolean, At: at, Truth: n.Value}, nil
	case *ast.IntegerNode:
		switch i := n.Value.(type) {
		case int64:
			return option.Integer(i, at), nil
		case uint64:
			if i <= 1<<63-1 {
				return option.Integer(int64(i), at), nil
			}
			return option.Float(float64(i), at), nil
		}
	case *ast.FloatNode:
		return option.Float(n.Value, at), nil
	case *ast.InfinityNode, *ast.NanNode:
		return nil, faultAt(path, at, "%s is not a finite number", option.Clip(node.GetToken().Value))
	case *ast.StringNode:
		if n.Token.Type == token.StringType && isNumber(n.Value) {
			return readNumber(n.Value, path, at)
		}
		return &option.Value{Kind: option.Text, At: at, Text: n.Value}, nil
	case *ast.LiteralNode:
		return &option.Value{Kind: option.Text, At: at, Text: n.Value.Value}, nil
	case *ast.SequenceNode:
		return r.readList(n, path, at, depth)
	case *ast.MappingNode:
		return r.readObject(n.Values, path, at, depth)
	case *ast.MappingValueNode:
		return r.readObject([]*ast.MappingValueNode{n}, path, at, depth)
	case *ast.AnchorNode:
		v, err := r.read(n.Value, path, depth)
		if err == nil {
			r.anchors[n.Name.GetToken().Value] = v
		}
		return v, err
	case *ast.AliasNode:
		return r.follow(n, path, at, depth)
	case *ast.TagNode:
		return nil, faultAt(path, at, "tag %s: tags are not supported: leave it out", option.Clip(n.Start.Value))
	}
	return nil, faultAt(path, at, "%s is not supported", strings.ToLower(node.Type().String()))
}

func (r *yamlReader) readList(n *ast.SequenceNode, path *trail, at option.Position, depth int) (*option.Value, error) {
	v := &option.Value{Kind: option.List, At: at}
	for _, item := range n.Values {
		read, err := r.read(item, path.item(len(v.Items)), depth+1)
		if err != nil {
			return nil, err
		}
		v.Items = append(v.Items, read)
	}
	return v, nil
}

func (r *yamlReader) readObject(entries []*ast.MappingValueNode, path *trail, at option.Position, depth int) (*option.Value, error) {
	v := &option.Value{Kind: option.Object, At: at}
	seen := make(map[string]option.Position, len(entries))
	for _, entry := range entries {
		place := placeOf(entry.Key)
		if entry.Key.IsMergeKey() {
			return nil, faultAt(path, place, "merge keys (<<) are not supported: write the fields out")
		}
		name, ok := keyOf(entry.Key)
		if !ok {
			return nil, faultAt(path, place, "a name is needed before the colon")
		}
		below := path.field(name)
		read, err := r.read(entry.Value, below, depth+1)
		if err != nil {
			return nil, err
		}
		r.field(v, below, option.Entry{Name: name, At: place, Value: read}, seen)
	}
	return v, nil
}

// follow returns a copy of the value that an alias stands for.
func (r *yamlReader) follow(n *ast.AliasNode, path *trail, at option.Position, depth int) (*option.Value, error) {
	name := n.Value.GetToken().Value
	v, ok := r.anchors[name]
	if !ok {
		return nil, faultAt(path, at, "alias *%s: there is no anchor of this name before it", option.Clip(name))
	}
	return r.clone(v, path, at, depth)
}

// clone returns a copy that shares nothing with v, and counts its values, so that aliases of
// aliases cannot fill the memory.
func (r *yamlReader) clone(v *option.Value, path *trail, at option.Position, depth int) (*option.Value, error) {
	if err := r.enter(path, at, depth); err != nil {
		return nil, err
	}
	c, err := *v, error(nil)
	c.Items, c.Fields = slices.Clone(v.Items), slices.Clone(v.Fields)
	for i := range c.Items {
		if c.Items[i], err = r.clone(c.Items[i], path, at, depth+1); err != nil {
			return nil, err
		}
	}
	for i := range c.Fields {
		if c.Fields[i].Value, err = r.clone(c.Fields[i].Value, path, at, depth+1); err != nil {
			return nil, err
		}
	}
	return &c, nil
}

// keyOf returns the name that a key spells. Names like 1 or true need no quotes.
func keyOf(key ast.MapKeyNode) (name string, ok bool) {
	switch k := ast.Node(key).(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return k.GetToken().Value, true
	}
	return "", false
}

// isNumber reports whether s is a number. The parser returns large numbers, and
// those written like 1e9, as text.
func isNumber(s string) bool {
	if strings.Trim(s, "0123456789.eE+-") != "" {
		return false
	}
	_, err := strconv.ParseFloat(s, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// placeOf returns where a node begins.
func placeOf(node ast.Node) option.Position {
	switch n := node.(type) {
	case *ast.MappingNode:
		// The token of a mapping in block style is its first colon.
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return placeOf(n.Values[0].Key)
		}
		return placeOfToken(n.Start)
	case *ast.MappingValueNode:
		return placeOf(n.Key)
	}
	return placeOfToken(node.GetToken())
}

func placeOfToken(t *token.Token) option.Position {
	if t == nil || t.Position == nil {
		return option.Position{}
	}
	return option.Position{Line: t.Position.Line, Column: t.Position.Column}
}
