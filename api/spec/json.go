package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sort"
	"strconv"
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
		return nil, faultAt(nil, at, "something follows the object: one spec is one object")
	}
	return &Document{root: root, faults: r.faults}, nil
}

// jsonReader reads values token by token, so that their places are known and
// duplicate keys are seen.
type jsonReader struct {
	decoder *json.Decoder
	data    []byte
	// lines are the offsets at which the lines after the first begin.
	lines  []int
	count  int
	faults []Fault
}

func (r *jsonReader) read(path *trail, depth int) (*value, error) {
	at := r.next()
	if depth > maxDepth {
		return nil, faultAt(path, at, "values nest more than %d deep", maxDepth)
	}
	if r.count++; r.count > maxValues {
		return nil, faultAt(path, at, "there are more than %d values", maxValues)
	}
	token, err := r.token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case nil:
		return &value{kind: null, at: at}, nil
	case bool:
		return &value{kind: boolean, at: at, truth: t}, nil
	case string:
		return &value{kind: text, at: at, text: t}, nil
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

func readNumber(literal string, path *trail, at position) (*value, error) {
	if i, err := strconv.ParseInt(literal, 10, 64); err == nil {
		return integer(i, at), nil
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return nil, faultAt(path, at, "number %s is too large", clip(literal))
	}
	return number64(f, at), nil
}

func (r *jsonReader) readList(path *trail, at position, depth int) (*value, error) {
	v := &value{kind: list, at: at}
	for r.decoder.More() {
		item, err := r.read(path.item(len(v.items)), depth+1)
		if err != nil {
			return nil, err
		}
		v.items = append(v.items, item)
	}
	_, err := r.token()
	return v, err
}

func (r *jsonReader) readObject(path *trail, at position, depth int) (*value, error) {
	v := &value{kind: object, at: at}
	seen := make(map[string]position)
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
		if first, twice := seen[name]; twice {
			r.faults = append(r.faults, duplicate(below, place, first))
			continue
		}
		seen[name] = place
		v.fields = append(v.fields, field{name: name, at: place, value: read})
	}
	_, err := r.token()
	return v, err
}

func (r *jsonReader) token() (json.Token, error) {
	token, err := r.decoder.Token()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, faultAt(nil, r.place(len(r.data)), "the text ends too early")
	case err != nil:
		return nil, faultAt(nil, r.next(), "%v", err)
	}
	return token, nil
}

// next returns where the next token begins.
func (r *jsonReader) next() position {
	offset := int(r.decoder.InputOffset())
	for offset < len(r.data) && bytes.IndexByte([]byte(" \t\r\n,:"), r.data[offset]) >= 0 {
		offset++
	}
	return r.place(offset)
}

// place returns the line and column of an offset, both from 1.
func (r *jsonReader) place(offset int) position {
	line := sort.SearchInts(r.lines, offset+1)
	start := 0
	if line > 0 {
		start = r.lines[line-1]
	}
	return position{line: line + 1, column: offset - start + 1}
}
