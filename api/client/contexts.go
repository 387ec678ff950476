package client

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// ErrNoHome is returned when the environment does not say where a user's files are.
var ErrNoHome = errors.New("no folder for contexts: set HOME or XDG_CONFIG_HOME")

// ErrUnknownContext is returned when no context has a name.
var ErrUnknownContext = errors.New("unknown context")

// Contexts are the clusters that a user has given names to, in a file of the user.
type Contexts struct {
	// Current is the name of the context that is used where no other is named; empty if none.
	Current string `yaml:"current_context,omitempty"`
	// Named are the settings of each context. In the file, Credentials are relative to the
	// file's folder.
	Named map[string]Settings `yaml:"contexts,omitempty"`
	// Path is that of the file.
	Path string `yaml:"-"`
}

// ContextsFile returns the path of a user's contexts: $XDG_CONFIG_HOME/weir/config.yaml, or that
// below ~/.config.
func ContextsFile(getenv func(string) string) (string, error) {
	dir := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		// The XDG specification has relative paths ignored.
		home := getenv("HOME")
		if home == "" {
			return "", ErrNoHome
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "weir", "config.yaml"), nil
}

// OpenContexts returns the contexts of a user; none if the file does not exist. Unknown
// fields are errors.
func OpenContexts(getenv func(string) string) (Contexts, error) {
	path, err := ContextsFile(getenv)
	if err != nil {
		return Contexts{}, err
	}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Contexts{}, fmt.Errorf("read contexts: %w", err)
	}
	c, err := parseContexts(path, data)
	if err != nil {
		return Contexts{}, fmt.Errorf("read contexts: %s: %w", path, err)
	}
	return c, nil
}

func parseContexts(path string, data []byte) (Contexts, error) {
	c := Contexts{}
	if err := yaml.UnmarshalWithOptions(data, &c, yaml.Strict()); err != nil {
		return c, errors.New(yaml.FormatError(err, false, false))
	}
	c.Path = path
	for _, name := range c.Names() {
		s, err := c.Named[name].in(filepath.Dir(path))
		if err == nil {
			err = checkContextName(name)
		}
		if err != nil {
			return c, fmt.Errorf("context %q: %w", name, err)
		}
		s.Source = fmt.Sprintf("context %q of %s", name, path)
		c.Named[name] = s
	}
	return c, nil
}

// Names returns the names of the contexts in order.
func (c Contexts) Names() []string { return slices.Sorted(maps.Keys(c.Named)) }

// Find returns the settings of a context, or an error that says which contexts there are.
func (c Contexts) Find(name string) (Settings, error) {
	if s, ok := c.Named[name]; ok {
		return s, nil
	}
	there := "has none"
	if names := c.Names(); len(names) > 0 {
		there = "has " + strings.Join(names, ", ")
	}
	return Settings{}, fmt.Errorf("%w %q: %s %s; to add it: weir context set %s --addresses HOST:PORT,... --credentials FOLDER", ErrUnknownContext, name, c.Path, there, name)
}

// Set gives a context settings. The first one becomes the current context.
func (c *Contexts) Set(name string, s Settings) error {
	err := checkContextName(name)
	switch {
	case err != nil:
	case len(s.Addresses) == 0:
		err = errors.New("no addresses: give --addresses HOST:PORT,... of replicas")
	default:
		err = s.Validate()
	}
	if err != nil {
		return fmt.Errorf("set context %q: %w", name, err)
	}
	if c.Named == nil {
		c.Named = make(map[string]Settings)
	}
	if len(c.Named) == 0 {
		c.Current = name
	}
	c.Named[name] = s
	return nil
}

// Remove removes a context. If it was the current one, there is none then.
func (c *Contexts) Remove(name string) error {
	if _, err := c.Find(name); err != nil {
		return err
	}
	delete(c.Named, name)
	if c.Current == name {
		c.Current = ""
	}
	return nil
}

// Save writes the contexts to their file. Comments in it are lost.
func (c Contexts) Save() error {
	written := Contexts{Current: c.Current, Named: make(map[string]Settings, len(c.Named))}
	for name, s := range c.Named {
		s, err := s.within(filepath.Dir(c.Path))
		if err != nil {
			return fmt.Errorf("save contexts: context %q: %w", name, err)
		}
		written.Named[name] = s
	}
	if err := writeYAML(c.Path, written, 0o700); err != nil {
		return fmt.Errorf("save contexts: %w", err)
	}
	return nil
}

var contextName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@:/-]{0,99}$`)

func checkContextName(name string) error {
	if !contextName.MatchString(name) {
		return errors.New("a name has at most 100 of the letters a to z, digits, and _ . @ : / -, and does not begin with a sign other than _")
	}
	return nil
}
