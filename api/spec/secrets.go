package spec

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/messages/bounds"
	"weir/messages/statepb"
	"weir/scheduling/option"
)

// Hidden stands for a secret wherever one is shown.
const Hidden = "(hidden)"

// secrets are values by name. Only Document.Secrets returns the values: what is read here and what
// is written are names.
type secrets []string

// ReadOption implements option.Reader. Errors never contain a value.
func (s *secrets) ReadOption(v *option.Value) error {
	if v.Kind != option.Object {
		return errors.New("is not an object: write a value for each name")
	}
	var faults []option.Fault
	total := 0
	for _, f := range v.Fields {
		at, err := f.Value.At, checkSecret(f.Name, f.Value.Text)
		if err == nil && f.Value.Kind != option.Text {
			err = errors.New("is not text: put it in quotes")
		}
		if err != nil {
			faults = append(faults, option.Fault{Path: option.Clip(f.Name), Position: at, Problem: err.Error()})
		}
		*s = append(*s, f.Name)
		total += len(f.Name) + len(f.Value.Text)
	}
	slices.Sort(*s)
	if total > bounds.Secrets && faults == nil {
		return fmt.Errorf("it has %d bytes, the limit is %d (64 KiB): put data into files", total, bounds.Secrets)
	}
	return option.NewError(faults)
}

// checkSecret returns an error, which does not contain the value, if a secret cannot be given to
// jobs.
func checkSecret(name, value string) error {
	switch {
	case !isVariable(name) || len(name) > bounds.SecretName:
		return fmt.Errorf("the name of a secret has 1 to %d letters, digits and _, and does not begin with a digit", bounds.SecretName)
	case value == Hidden:
		return fmt.Errorf("it is %s, which is how a secret is shown: write the secret itself", Hidden)
	case len(value) > bounds.Secret:
		return fmt.Errorf("it has %d bytes, the limit is %d (16 KiB)", len(value), bounds.Secret)
	case strings.ContainsRune(value, 0):
		return errors.New("it contains a NUL byte, which cannot be passed to a process")
	}
	return nil
}

// WriteOption implements option.Writer.
func (s *secrets) WriteOption() any {
	hidden := make(map[string]any, len(*s))
	for _, name := range *s {
		hidden[name] = Hidden
	}
	return hidden
}

// vaultOf returns the record of secrets that have not been sealed; nil if there are none.
func vaultOf(s *secrets) *statepb.Vault {
	if s == nil || len(*s) == 0 {
		return nil
	}
	return &statepb.Vault{Names: *s}
}

// ReadSecrets returns the secrets in a spec, or in a document that has nothing but secure_vault.
func ReadSecrets(data []byte) (map[string]string, error) {
	doc, err := Read(data)
	if err != nil {
		return nil, err
	}
	given := doc.Root.Get("secure_vault")
	if given == nil {
		return nil, errors.New("it has no secure_vault: write one, as in the spec that started the operation")
	}
	if err := new(secrets).ReadOption(given); err != nil {
		return nil, fmt.Errorf("secure_vault: %w", err)
	}
	return doc.Secrets(), nil
}

// Secrets returns the secrets in a document that has passed Check, by name. The operation that Check
// returned has their names only.
func (d *Document) Secrets() map[string]string {
	vault := d.Root.Get("secure_vault")
	if vault == nil {
		return nil
	}
	found := make(map[string]string, len(vault.Fields))
	for _, f := range vault.Fields {
		found[f.Name] = f.Value.Text
	}
	return found
}

// CheckSecrets returns an error if these are not the secrets of an operation that has secrets of
// these names.
func CheckSecrets(names []string, given map[string]string) error {
	for _, name := range option.SortedNames(given) {
		if !slices.Contains(names, name) {
			return fmt.Errorf("secure_vault.%s: the operation has no such secret", option.Clip(name))
		}
		if err := checkSecret(name, given[name]); err != nil {
			return fmt.Errorf("secure_vault.%s: %w", option.Clip(name), err)
		}
	}
	for _, name := range names {
		if _, ok := given[name]; !ok {
			return fmt.Errorf("its secret %s was removed when it ended: give all its secrets again (secure_vault: %s)", name, strings.Join(names, ", "))
		}
	}
	return nil
}
