package document_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/document"
	"weir/scheduling/option"
)

func TestReadErrors(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"empty":             {"", "it is empty"},
		"a list":            {"[1]", "it is a list"},
		"two documents":     {"a: 1\n---\nb: 1\n", "a second document"},
		"a tag":             {"a: !!binary x\n", "tags are not supported"},
		"a merge key":       {"a: &x {b: 1}\nc: {<<: *x}\n", "merge keys"},
		"an unknown alias":  {"a: *x\n", "x"},
		"not a number":      {"a: .nan\n", "not a finite number"},
		"a tab":             {"a:\n\tb: 1\n", "line 2, column 1: found a tab character that cannot start any token"},
		"deep":              {"a: " + strings.Repeat("[", 40) + strings.Repeat("]", 40), "nest more than 32 deep"},
		"very deep":         {"a: " + strings.Repeat("[", 1<<17), "line 1, column 36: values nest more than 32 deep"},
		"deep after others": {"a: [" + strings.Repeat("[], ", 100) + strings.Repeat("[", 100), "nest more than 32 deep"},
		"lists in lists":    {strings.Repeat("- ", 1<<17), "line 1, column 20001: there are more than 10000 entries"},
		"a log":             {strings.Repeat("error: no such file\n", 20_000), "line 10001, column 6: there are more than 10000 entries"},
		"growing aliases":   {bomb(), "more than"},
		"not UTF-8":         {"a: ä\nb: \xff", "line 2, column 4: byte 0xff is not UTF-8"},
		"too long":          {"#" + strings.Repeat("x", document.MaxBytes), "1048577 bytes, the limit is 1048576 (1 MiB)"},
		"json: cut off":     {`{"a": [1`, "line 1, column 9: unexpected end of input"},
		"json: two objects": {"{} {}", "line 1, column 4: unexpected text after the object"},
		"json: number":      {`{"a": 1e999}`, "number 1e999 is too large"},
		"json: deep":        {strings.Repeat(`{"a":`, 40), "nest more than 32 deep"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := document.Read("operation spec", []byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// bomb returns YAML whose aliases stand for 10^9 values.
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x]\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	return b.String()
}

// TestSyntaxesAgree reads the same as YAML, as JSON and from a message.
func TestSyntaxesAgree(t *testing.T) {
	const text = `{"a": [1, 2.5, "x", true, null], "b": {"c-d": "1", "e": {}}}`
	var want any
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	message, err := structpb.NewStruct(want.(map[string]any))
	if err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func() (*document.Document, error){
		"JSON":    func() (*document.Document, error) { return document.Read("x", []byte(text)) },
		"YAML":    func() (*document.Document, error) { return document.Read("x", []byte("# YAML\n"+text)) },
		"message": func() (*document.Document, error) { return document.FromStruct("x", message) },
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := read()
			if err != nil {
				t.Fatal(err)
			}
			if got := doc.Root.Plain(); !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			sent, err := doc.Struct()
			if err != nil || !reflect.DeepEqual(sent.AsMap(), want) {
				t.Errorf("sent %v, %v", sent, err)
			}
		})
	}
}

// TestMessagesHaveLimits refuses what no text could be.
func TestMessagesHaveLimits(t *testing.T) {
	deep := structpb.NewNullValue()
	for range 40 {
		deep = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{deep}})
	}
	many := &structpb.ListValue{}
	for range 1 << 17 {
		many.Values = append(many.Values, structpb.NewBoolValue(true))
	}
	for name, test := range map[string]struct {
		value *structpb.Value
		want  string
	}{
		"deep": {deep, "x: a[0]"}, "many": {structpb.NewListValue(many), "there are more than 131072 values"},
		"long": {structpb.NewStringValue(strings.Repeat("x", document.MaxBytes)), "the limit is 1048576 (1 MiB)"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := document.FromStruct("x", &structpb.Struct{Fields: map[string]*structpb.Value{"a": test.value}})
			var refused *option.Error
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}
