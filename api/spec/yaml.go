package spec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// readYAML reads one YAML document.
func readYAML(data []byte) (*value, error) {
	if err := checkNesting(data); err != nil {
		return nil, err
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, yamlError(err)
	}
	r := &yamlReader{anchors: make(map[string]*value)}
	var root *value
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			return nil, fmt.Errorf("%s: a second document: one spec has one document", where(placeOf(doc.Body)))
		}
		if root, err = r.read(doc.Body, 0); err != nil {
			return nil, err
		}
	}
	if root == nil {
		return nil, errors.New("it is empty: an object with tasks is needed")
	}
	return root, nil
}

// checkNesting refuses text that nests deeper than any spec, before the parser,
// which calls itself for each level, sees it. It may count a few brackets too
// many in text, but none that close.
func checkNesting(data []byte) error {
	depth, line := 0, 1
	for _, c := range data {
		switch c {
		case '[', '{':
			if depth++; depth > 16*maxDepth {
				return fmt.Errorf("line %d: %d brackets are open: a spec nests at most %d deep", line, depth, maxDepth)
			}
		case ']', '}':
			depth = max(depth-1, 0)
		case '\n':
			line++
		}
	}
	return nil
}

// yamlError returns the parser's error on one line, with its place in front.
func yamlError(err error) error {
	var detailed yaml.Error
	if !errors.As(err, &detailed) {
		return err
	}
	message := strings.Join(strings.Fields(detailed.GetMessage()), " ")
	if t := detailed.GetToken(); t != nil && t.Position != nil {
		return fmt.Errorf("%s: %s", where(position{t.Position.Line, t.Position.Column}), message)
	}
	return errors.New(message)
}

// yamlReader turns the syntax tree of a document into values.
type yamlReader struct {
	anchors map[string]*value
	count   int
}

func (r *yamlReader) read(node ast.Node, depth int) (*value, error) {
	at := placeOf(node)
	if depth > maxDepth {
		return nil, fmt.Errorf("%s: values nest more than %d deep", where(at), maxDepth)
	}
	if err := r.grow(1, at); err != nil {
		return nil, err
	}
	switch n := node.(type) {
	case *ast.NullNode:
		return &value{kind: null, at: at}, nil
	case *ast.BoolNode:
		return &value{kind: boolean, at: at, truth: n.Value}, nil
	case *ast.IntegerNode:
		switch i := n.Value.(type) {
		case int64:
			return integer(i, at), nil
		case uint64:
			if i <= 1<<63-1 {
				return integer(int64(i), at), nil
			}
			return number64(float64(i), at), nil
		}
	case *ast.FloatNode:
		return number64(n.Value, at), nil
	case *ast.InfinityNode, *ast.NanNode:
		return nil, fmt.Errorf("%s: %s is not a number that can be used", where(at), node.GetToken().Value)
	case *ast.StringNode:
		if n.Token.Type == token.StringType && isNumber(n.Value) {
			return readNumber(n.Value, at)
		}
		return &value{kind: text, at: at, text: n.Value}, nil
	case *ast.LiteralNode:
		return &value{kind: text, at: at, text: n.Value.Value}, nil
	case *ast.SequenceNode:
		return r.readList(n, at, depth)
	case *ast.MappingNode:
		return r.readObject(n.Values, at, depth)
	case *ast.MappingValueNode:
		return r.readObject([]*ast.MappingValueNode{n}, at, depth)
	case *ast.AnchorNode:
		v, err := r.read(n.Value, depth)
		if err == nil {
			r.anchors[n.Name.GetToken().Value] = v
		}
		return v, err
	case *ast.AliasNode:
		return r.follow(n, at, depth)
	case *ast.TagNode:
		return nil, fmt.Errorf("%s: tag %s: tags are not used here: leave it out", where(at), n.Start.Value)
	}
	return nil, fmt.Errorf("%s: %s is not used here", where(at), strings.ToLower(node.Type().String()))
}

func (r *yamlReader) readList(n *ast.SequenceNode, at position, depth int) (*value, error) {
	v := &value{kind: list, at: at}
	for _, item := range n.Values {
		read, err := r.read(item, depth+1)
		if err != nil {
			return nil, err
		}
		v.items = append(v.items, read)
	}
	return v, nil
}

func (r *yamlReader) readObject(entries []*ast.MappingValueNode, at position, depth int) (*value, error) {
	v := &value{kind: object, at: at}
	seen := make(map[string]position, len(entries))
	for _, entry := range entries {
		place := placeOf(entry.Key)
		if entry.Key.IsMergeKey() {
			return nil, fmt.Errorf("%s: merge keys (<<) are not used here: write the fields out", where(place))
		}
		name, err := keyOf(entry.Key)
		if err != nil {
			return nil, err
		}
		if first, twice := seen[name]; twice {
			return nil, duplicate(name, place, first)
		}
		seen[name] = place
		read, err := r.read(entry.Value, depth+1)
		if err != nil {
			return nil, err
		}
		v.fields = append(v.fields, field{name: name, at: place, value: read})
	}
	return v, nil
}

// follow returns a copy of what an alias stands for.
func (r *yamlReader) follow(n *ast.AliasNode, at position, depth int) (*value, error) {
	name := n.Value.GetToken().Value
	v, ok := r.anchors[name]
	if !ok {
		return nil, fmt.Errorf("%s: alias *%s: there is no anchor &%s before it", where(at), name, name)
	}
	size, height := v.extent()
	if err := r.grow(size, at); err != nil {
		return nil, err
	}
	if depth+height > maxDepth {
		return nil, fmt.Errorf("%s: values nest more than %d deep", where(at), maxDepth)
	}
	return v.clone(), nil
}

// grow counts values, so that aliases of aliases cannot fill the memory.
func (r *yamlReader) grow(by int, at position) error {
	if r.count += by; r.count > maxValues {
		return fmt.Errorf("%s: more than %d values", where(at), maxValues)
	}
	return nil
}

// keyOf returns the name that a key spells. Names like 1 or true need no quotes.
func keyOf(key ast.MapKeyNode) (string, error) {
	switch k := ast.Node(key).(type) {
	case *ast.StringNode:
		return k.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return k.GetToken().Value, nil
	}
	return "", fmt.Errorf("%s: a name is needed before the colon", where(placeOf(key)))
}

// isNumber tells a number that the parser takes for text, because it is large or
// written like 1e9.
func isNumber(s string) bool {
	if strings.Trim(s, "0123456789.eE+-") != "" {
		return false
	}
	_, err := strconv.ParseFloat(s, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// placeOf returns where a node begins.
func placeOf(node ast.Node) position {
	var t *token.Token
	switch n := node.(type) {
	case *ast.MappingNode:
		// The token of a mapping in block style is its first colon.
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return placeOf(n.Values[0].Key)
		}
		t = n.Start
	case *ast.MappingValueNode:
		return placeOf(n.Key)
	default:
		t = node.GetToken()
	}
	if t == nil || t.Position == nil {
		return position{}
	}
	return position{t.Position.Line, t.Position.Column}
}

// extent returns how many values v has, and how deep they nest.
func (v *value) extent() (size, height int) {
	size = 1
	visit := func(child *value) {
		s, h := child.extent()
		size += s
		height = max(height, h+1)
	}
	for _, item := range v.items {
		visit(item)
	}
	for _, f := range v.fields {
		visit(f.value)
	}
	return size, height
}

// clone returns a copy that shares nothing with v.
func (v *value) clone() *value {
	c := *v
	c.items, c.fields = nil, nil
	for _, item := range v.items {
		c.items = append(c.items, item.clone())
	}
	for _, f := range v.fields {
		f.value = f.value.clone()
		c.fields = append(c.fields, f)
	}
	return &c
}

func where(at position) string { return fmt.Sprintf("line %d, column %d", at.line, at.column) }

func duplicate(name string, at, first position) error {
	return fmt.Errorf("%s: %q is there twice, first in line %d: keep one", where(at), name, first.line)
}
