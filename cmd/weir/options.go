package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/document"
	"weir/api/poolfile"
	"weir/scheduling/option"
	"weir/scheduling/resource"
)

// assigned is a name=value argument, or a name to reset to its default. path is the path of the
// option, without aliases.
type assigned struct {
	path string
	// value is nil for the default.
	value any
}

// assignments parses arguments such as weight=3 or resource_limits.cpu=10 for the options
// of T. An empty value means the default, and so does a name in `unset`. An unknown or repeated
// option is an error at once; values are validated together.
func assignments[T any](given, unset []string) ([]assigned, error) {
	var out []assigned
	add := func(argument, path, text string) error {
		path, err := optionPath[T](path)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(out, func(a assigned) bool { return a.path == path }) {
			return fmt.Errorf("%s: option %s is given twice", argument, path)
		}
		value, err := optionValue[T](path, text)
		if err != nil {
			return fmt.Errorf("%s: %w", argument, err)
		}
		out = append(out, assigned{path, value})
		return nil
	}
	for _, argument := range given {
		name, text, ok := strings.Cut(argument, "=")
		if !ok {
			return nil, fmt.Errorf("%q: missing =: write option=value, such as weight=3", argument)
		}
		if err := add(argument, name, text); err != nil {
			return nil, err
		}
	}
	for _, name := range unset {
		if err := add("--unset "+name, name, ""); err != nil {
			return nil, err
		}
	}
	return out, checkAssigned[T](out)
}

// optionPath returns the path of an option, with slashes and without aliases.
func optionPath[T any](path string) (string, error) {
	document := make(map[string]any)
	var schema T
	if err := option.Put(document, schema, path, true); err != nil {
		return "", err
	}
	return poolfile.Diff(nil, document)[0].Path, nil
}

// optionValue parses the value of an option on a command line: text, filters and durations
// as they are, anything else as YAML.
func optionValue[T any](path, text string) (any, error) {
	var schema T
	for _, field := range option.Fields(schema) {
		if field.Path == path && slices.Contains([]string{"text", "filter", "duration"}, field.Kind) {
			if text == "" {
				return nil, nil
			}
			return text, nil
		}
	}
	return document.Literal(text)
}

// checkAssigned returns an error for values that are invalid whatever else is set.
func checkAssigned[T any](values []assigned) error {
	set := slices.DeleteFunc(slices.Clone(values), func(v assigned) bool { return v.value == nil })
	document, err := objectOf[T](set)
	if err != nil {
		return err
	}
	var options T
	return option.Read(&options, document)
}

// objectOf returns an object in which only the given values are set.
func objectOf[T any](values []assigned) (map[string]any, error) {
	object := make(map[string]any)
	for _, v := range values {
		var schema T
		if err := option.Put(object, schema, v.path, v.value); err != nil {
			return nil, err
		}
	}
	return object, nil
}

// changeOf parses the arguments of a change to options of T. moved is the value of the argument
// named by `move`; nil if it is not given. `done` describes the change.
func changeOf[T any](move string, given, unset []string) (moved *string, options *structpb.Struct, done string, err error) {
	moved, given, err = takeOut(move, given)
	if err != nil {
		return nil, nil, "", err
	}
	values, err := assignments[T](given, unset)
	if err != nil {
		return nil, nil, "", err
	}
	if len(values) == 0 && moved == nil {
		return nil, nil, "", errNothing
	}
	var said []string
	if moved != nil {
		said = []string{move + "=" + *moved}
	}
	options, err = structOf(values)
	return moved, options, changesText(values, said...), err
}

// takeOut removes the argument name=value, which is not an option, from `given`.
func takeOut(name string, given []string) (value *string, rest []string, err error) {
	for _, argument := range given {
		text, ok := strings.CutPrefix(argument, name+"=")
		switch {
		case !ok || name == "":
			rest = append(rest, argument)
		case value != nil:
			return nil, nil, fmt.Errorf("%s: %s is given twice", argument, name)
		default:
			value = &text
		}
	}
	return value, rest, nil
}

// newOptions parses the options of a new pool or tree, and validates them with `read`.
func newOptions[T any](given []string, read func(map[string]any) (T, error)) (*structpb.Struct, error) {
	values, err := assignments[T](given, nil)
	if err != nil {
		return nil, err
	}
	object, err := objectOf[T](values)
	if err != nil {
		return nil, err
	}
	if _, err := read(object); err != nil {
		return nil, err
	}
	return structpb.NewStruct(object)
}

// structOf returns a message with values by path.
func structOf(values []assigned) (*structpb.Struct, error) {
	fields := make(map[string]any, len(values))
	for _, v := range values {
		fields[v.path] = v.value
	}
	return structpb.NewStruct(fields)
}

// changesText lists values by path, after the parts in `said`, for the line that reports the
// change.
func changesText(values []assigned, said ...string) string {
	for _, v := range values {
		if v.value == nil {
			said = append(said, defaultAgain(v.path))
			continue
		}
		said = append(said, v.path+"="+poolfile.Text(v.path, v.value))
	}
	return strings.Join(said, ", ")
}

// defaultAgain says that an option is reset to its default.
func defaultAgain(path string) string { return path + " back to its default" }

// optionsHelp lists the options of T for the help of a verb.
func optionsHelp[T any]() string {
	var schema T
	var b strings.Builder
	for _, field := range option.Fields(schema) {
		about := field.Kind
		if field.Values != nil {
			about = strings.Join(field.Values, ", ")
		}
		fmt.Fprintf(&b, "  %s\n      %s (%s)\n", field.Path, field.Help, about)
	}
	return b.String()
}

// completeOptions suggests the names of options, and the values of those that have a fixed
// set. `first`, if not nil, completes the first argument.
func (f *clientFlags) completeOptions(first lister, fields []option.Field, more ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if first != nil && len(args) == 0 {
			return f.suggest(true, first)(cmd, args, typed)
		}
		name, _, given := strings.Cut(typed, "=")
		var out []cobra.Completion
		for _, field := range fields {
			switch {
			case !given:
				out = append(out, cobra.CompletionWithDesc(field.Path+"=", field.Help))
			case field.Path == strings.NewReplacer("-", "_", ".", "/").Replace(name):
				values := field.Values
				if field.Kind == "bool" {
					values = []string{"true", "false"}
				}
				for _, value := range values {
					out = append(out, name+"="+value)
				}
			}
		}
		if !given {
			for _, name := range more {
				out = append(out, name+"=")
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// errNothing is returned for a change without options.
var errNothing = errors.New("nothing to change: give option=value, or --unset (see --help)")

// sizeFlag parses the size in a flag; `low` is the least valid size.
func sizeFlag(flag, text string, low int64) (int64, error) {
	size, err := resource.ParseSizeWithin(text, low, math.MaxInt64)
	if err != nil {
		return 0, &exitError{exitUsage, fmt.Errorf("--%s %q is %w", flag, text, err)}
	}
	return size, nil
}
