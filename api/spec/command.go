package spec

import (
	"errors"
	"fmt"
	"strings"

	"weir/scheduling/option"
)

// arguments holds a program and its arguments.
type arguments []string

// ReadOption implements option.Reader.
func (a *arguments) ReadOption(v *option.Value) error {
	switch {
	case v.Kind != option.List:
		return fmt.Errorf("is %s, not a list", v)
	case len(v.Items) == 0:
		return errors.New("it is empty: write a list, the program and its arguments")
	}
	var faults []option.Fault
	for i, item := range v.Items {
		err := processText(item)
		if err == nil && i == 0 && strings.TrimSpace(item.Text) == "" {
			err = errors.New("the program's name is empty")
		}
		if err != nil {
			faults = append(faults, option.Fault{Path: fmt.Sprintf("[%d]", i), Position: item.At, Problem: err.Error()})
		}
		*a = append(*a, item.Text)
	}
	return option.NewError(faults)
}

// WriteOption implements option.Writer.
func (a *arguments) WriteOption() any {
	list := make([]any, len(*a))
	for i, word := range *a {
		list[i] = word
	}
	return list
}

// command is a program and its arguments, or a line for a shell.
type command struct {
	argv arguments
	line string
}

// ReadOption implements option.Reader.
func (c *command) ReadOption(v *option.Value) error {
	switch {
	case v.Kind != option.Text:
		return c.argv.ReadOption(v)
	case strings.TrimSpace(v.Text) == "":
		return errors.New("it is empty: write a list, the program and its arguments")
	}
	c.line = v.Text
	return processText(v)
}

// WriteOption implements option.Writer.
func (c *command) WriteOption() any {
	if c.line != "" {
		return c.line
	}
	return c.argv.WriteOption()
}

// processText returns an error unless v is text that can be passed to a process.
func processText(v *option.Value) error {
	switch {
	case v.Kind == option.Number || v.Kind == option.Boolean:
		return fmt.Errorf("is %s, not text: put it in quotes", v)
	case v.Kind != option.Text:
		return fmt.Errorf("is %s, not text", v)
	case len(v.Text) > MaxStringBytes:
		return fmt.Errorf("it has %d bytes, the limit of Linux is %d", len(v.Text), MaxStringBytes)
	case strings.ContainsRune(v.Text, 0):
		return errors.New("it contains a NUL byte, which cannot be passed to a process")
	}
	return nil
}

// environment holds environment variables by name.
type environment map[string]string

// ReadOption implements option.Reader.
func (e *environment) ReadOption(v *option.Value) error {
	if v.Kind != option.Object {
		return fmt.Errorf("is %s, not an object", v)
	}
	var faults []option.Fault
	fault := func(name string, at option.Position, problem string) {
		faults = append(faults, option.Fault{Path: option.Clip(name), Position: at, Problem: problem})
	}
	*e = make(environment, len(v.Fields))
	total := 0
	for _, f := range v.Fields {
		switch err := processText(f.Value); {
		case !isVariable(f.Name):
			fault(f.Name, f.At, "the name of a variable has letters, digits and _, and does not begin with a digit")
		case strings.HasPrefix(f.Name, ReservedPrefix):
			fault(f.Name, f.At, fmt.Sprintf("names that begin with %s are reserved for Weir: choose another", ReservedPrefix))
		case err != nil:
			fault(f.Name, f.Value.At, err.Error())
		default:
			(*e)[f.Name] = f.Value.Text
		}
		total += len(f.Name) + len("=\x00") + len(f.Value.Text)
	}
	if total > MaxEnvironmentBytes && faults == nil {
		return fmt.Errorf("it has %d bytes, the limit is %d (128 KiB): put data into files", total, MaxEnvironmentBytes)
	}
	return option.NewError(faults)
}

// WriteOption implements option.Writer.
func (e *environment) WriteOption() any {
	variables := make(map[string]any, len(*e))
	for name, value := range *e {
		variables[name] = value
	}
	return variables
}

func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
