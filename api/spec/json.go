package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
)

// readJSON reads one JSON value.
func readJSON(data []byte) (*value, error) {
	r := &jsonReader{decoder: json.NewDecoder(bytes.NewReader(data)), data: data}
	for i, c := range data {
		if c == '\n' {
			r.lines = append(r.lines, i+1)
		}
	}
	r.decoder.UseNumber()
	root, err := r.read(0)
	if err != nil {
		return nil, err
	}
	if at := r.next(); r.decoder.More() {
		return nil, fmt.Errorf("%s: something follows the object: one spec is one object", where(at))
	}
	return root, nil
}

// jsonReader reads values token by token, so that their places are known and
// duplicate keys are seen.
type jsonReader struct {
	decoder *json.Decoder
	data    []byte
	// lines are the offsets at which the lines after the first begin.
	lines []int
	count int
}

func (r *jsonReader) read(depth int) (*value, error) {
	at := r.next()
	if depth > maxDepth {
		return nil, fmt.Errorf("%s: values nest more than %d deep", where(at), maxDepth)
	}
	if r.count++; r.count > maxValues {
		return nil, fmt.Errorf("%s: more than %d values", where(at), maxValues)
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
		return readNumber(string(t), at)
	case json.Delim:
		if t == '[' {
			return r.readList(at, depth)
		}
		return r.readObject(at, depth)
	}
	return nil, fmt.Errorf("%s: unexpected %v", where(at), token)
}

func readNumber(literal string, at position) (*value, error) {
	if i, err := strconv.ParseInt(literal, 10, 64); err == nil {
		return integer(i, at), nil
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return nil, fmt.Errorf("%s: number %s is too large", where(at), literal)
	}
	return number64(f, at), nil
}

func (r *jsonReader) readList(at position, depth int) (*value, error) {
	v := &value{kind: list, at: at}
	for r.decoder.More() {
		item, err := r.read(depth + 1)
		if err != nil {
			return nil, err
		}
		v.items = append(v.items, item)
	}
	_, err := r.token()
	return v, err
}

func (r *jsonReader) readObject(at position, depth int) (*value, error) {
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
			return nil, fmt.Errorf("%s: a name in quotes is needed", where(place))
		}
		if first, twice := seen[name]; twice {
			return nil, duplicate(name, place, first)
		}
		seen[name] = place
		read, err := r.read(depth + 1)
		if err != nil {
			return nil, err
		}
		v.fields = append(v.fields, field{name: name, at: place, value: read})
	}
	_, err := r.token()
	return v, err
}

func (r *jsonReader) token() (json.Token, error) {
	token, err := r.decoder.Token()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("%s: the text ends too early", where(r.place(len(r.data))))
	case err != nil:
		return nil, fmt.Errorf("%s: %w", where(r.next()), err)
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
