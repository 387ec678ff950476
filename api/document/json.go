package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sort"
	"strconv"

	"weir/scheduling/option"
)

// readJSON reads one JSON value.
func readJSON(data []byte) (*Document, error) {
	r := &jsonReader{decoder: json.NewDecoder(bytes.NewReader(data)), data: data}
	for i, c := range data {
		if c == '\n' {
			r.lines = append(r.lines, i+1)
		}
	}
	r.decoder.UseNumber()
	root, err := r.read(nil, 0)
	if err != nil {
		return nil, err
	}
	if at := r.next(); r.decoder.More() {
		return nil, faultAt(nil, at, "unexpected text after the object")
	}
	return &Document{Root: root, faults: r.faults}, nil
}

// jsonReader reads values token by token, so that it knows their places and sees
// duplicate keys.
type jsonReader struct {
	decoder *json.Decoder
	data    []byte
	// lines are the offsets at which the lines after the first begin.
	lines []int
	reader
}

func (r *jsonReader) read(path *trail, depth int) (*option.Value, error) {
	at := r.next()
	if err := r.enter(path, at, depth); err != nil {
		return nil, err
	}
	token, err := r.token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case nil:
		return &option.Value{Kind: option.Null, At: at}, nil
	case bool:
		return &option.Value{Kind: option.Boolean, At: at, Truth: t}, nil
	case string:
		return &option.Value{Kind: option.Text, At: at, Text: t}, nil
	case json.Number:
		return readNumber(string(t), path, at)
	case json.Delim:
		if t == '[' {
			return r.readList(path, at, depth)
		}
		return r.readObject(path, at, depth)
	}
	return nil, faultAt(path, at, "unexpected %v", token)
}

func readNumber(literal string, path *trail, at option.Position) (*option.Value, error) {
	if i, err := strconv.ParseInt(literal, 10, 64); err == nil {
		return option.Integer(i, at), nil
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return nil, faultAt(path, at, "number %s is too large", option.Clip(literal))
	}
	return option.Float(f, at), nil
}

func (r *jsonReader) readList(path *trail, at option.Position, depth int) (*option.Value, error) {
	v := &option.Value{Kind: option.List, At: at}
	for r.decoder.More() {
		item, err := r.read(path.item(len(v.Items)), depth+1)
		if err != nil {
			return nil, err
		}
		v.Items = append(v.Items, item)
	}
	_, err := r.token()
	return v, err
}

func (r *jsonReader) readObject(path *trail, at option.Position, depth int) (*option.Value, error) {
	v := &option.Value{Kind: option.Object, At: at}
	seen := make(map[string]option.Position)
	for r.decoder.More() {
		place := r.next()
		token, err := r.token()
		if err != nil {
			return nil, err
		}
		name, ok := token.(string)
		if !ok {
			return nil, faultAt(path, place, "a name in quotes is needed")
		}
		below := path.field(name)
		read, err := r.read(below, depth+1)
		if err != nil {
			return nil, err
		}
		r.field(v, below, option.Entry{Name: name, At: place, Value: read}, seen)
	}
	_, err := r.token()
	return v, err
}

func (r *jsonReader) token() (json.Token, error) {
	token, err := r.decoder.Token()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, faultAt(nil, r.place(len(r.data)), "unexpected end of input")
	case err != nil:
		return nil, faultAt(nil, r.next(), "%v", err)
	}
	return token, nil
}

// next returns where the next token begins.
func (r *jsonReader) next() option.Position {
	offset := int(r.decoder.InputOffset())
	for offset < len(r.data) && bytes.IndexByte([]byte(" \t\r\n,:"), r.data[offset]) >= 0 {
		offset++
	}
	return r.place(offset)
}

// place returns the line and column of an offset, both from 1.
func (r *jsonReader) place(offset int) option.Position {
	line := sort.SearchInts(r.lines, offset+1)
	start := 0
	if line > 0 {
		start = r.lines[line-1]
	}
	return option.Position{Line: line + 1, Column: offset - start + 1}
}
