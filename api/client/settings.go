package client

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// SettingsFile is the path of a client's settings, relative to the working folder or to
// one above it.
const SettingsFile = ".weir/client.yaml"

// The variables that override the file: all of its settings, or, with EnvContext, the file itself.
const (
	EnvAddresses   = "WEIR_ADDRESSES"
	EnvCredentials = "WEIR_CREDENTIALS"
	EnvInsecure    = "WEIR_INSECURE_PLAINTEXT"
	EnvCluster     = "WEIR_CLUSTER"
	EnvContext     = "WEIR_CONTEXT"
)

// ErrNotConfigured is returned when the settings name no address of a replica.
var ErrNotConfigured = fmt.Errorf("no cluster configured: run weir context set NAME --addresses HOST:PORT,... --credentials FOLDER, or give --addresses and --credentials, or set %s and %s, or start a cluster here with weir dev up, which writes %s",
	EnvAddresses, EnvCredentials, SettingsFile)

var errBoth = errors.New("credentials and insecure_plaintext are both given: leave one out")

// Settings say how to reach a cluster.
type Settings struct {
	// Addresses are the host:port of replicas.
	Addresses []string `yaml:"addresses,omitempty"`
	// Credentials is the folder of the client's certificate; in the file, relative
	// to the file's folder.
	Credentials string `yaml:"credentials,omitempty"`
	// Insecure makes the client use plaintext, without certificates.
	Insecure bool `yaml:"insecure_plaintext,omitempty"`
	// User is the user name that the client claims with Insecure, unchecked; it may be
	// empty. Without Insecure the certificate names the user.
	User string `yaml:"user,omitempty"`
	// Cluster is the id of the cluster; empty for the one that the credentials are for.
	Cluster string `yaml:"cluster,omitempty"`
	// Source says, for people, where the settings are from, such as the path of a file.
	Source string `yaml:"-"`
}

// Sources are the places where a client finds its settings.
type Sources struct {
	// Dir is the folder in or above which SettingsFile is looked for.
	Dir string
	// Context names a context; empty for the one that the other sources name.
	Context string
	// Given are settings that override all others.
	Given Settings
	// Getenv returns a variable of the environment.
	Getenv func(name string) string
}

// Load returns the settings to use. They are those of one source: of the context that Context or
// EnvContext names, else of the nearest file in Dir or above it, else of the current context;
// none is no error. The variables of the environment override single settings, unless Context is
// set; Given overrides both. No file is read if these are all that it takes to reach a cluster.
func (f Sources) Load() (Settings, error) {
	over, err := f.environment()
	if err != nil {
		return Settings{}, fmt.Errorf("load settings: %w", err)
	}
	settings := over.Override(f.Given)
	if f.Context != "" || len(settings.Addresses) == 0 || settings.Credentials == "" && !settings.Insecure {
		if settings, err = f.base(); err != nil {
			return Settings{}, fmt.Errorf("load settings: %w", err)
		}
		if f.Context == "" && f.Getenv(EnvInsecure) != "" {
			settings.Insecure = over.Insecure
		}
		settings = settings.Override(over).Override(f.Given)
	}
	if err := settings.checkAddresses(); err != nil {
		return Settings{}, fmt.Errorf("load settings: %w", err)
	}
	return settings, nil
}

// environment returns the settings in variables of the environment; none if Context is set.
func (f Sources) environment() (s Settings, err error) {
	if f.Context != "" {
		return s, nil
	}
	s = Settings{Credentials: f.Getenv(EnvCredentials), Cluster: f.Getenv(EnvCluster), Source: "the environment"}
	for address := range strings.SplitSeq(f.Getenv(EnvAddresses), ",") {
		if address = strings.TrimSpace(address); address != "" {
			s.Addresses = append(s.Addresses, address)
		}
	}
	if flag := f.Getenv(EnvInsecure); flag != "" {
		if s.Insecure, err = strconv.ParseBool(flag); err != nil {
			return s, fmt.Errorf("%s=%q: it must be true or false", EnvInsecure, flag)
		}
	}
	return s, nil
}

// base returns the settings of a context or of a file.
func (f Sources) base() (Settings, error) {
	name, by := f.Context, "--context"
	if name == "" {
		name, by = f.Getenv(EnvContext), EnvContext
	}
	if name == "" {
		if path, err := FindSettings(f.Dir); err != nil || path != "" {
			return readIfFound(path, err)
		}
	}
	contexts, err := OpenContexts(f.Getenv)
	switch {
	case err != nil && name == "" && errors.Is(err, ErrNoHome):
		return Settings{}, nil
	case err != nil:
		return Settings{}, err
	case name == "" && contexts.Current == "":
		return Settings{}, nil
	case name == "":
		name, by = contexts.Current, "current_context"
	}
	found, err := contexts.Find(name)
	if err != nil {
		return Settings{}, fmt.Errorf("%s: %w", by, err)
	}
	return found, nil
}

func readIfFound(path string, err error) (Settings, error) {
	if err != nil {
		return Settings{}, err
	}
	return ReadSettings(path)
}

// FindSettings returns the path of the nearest file of settings in dir or above it,
// empty if there is none.
func FindSettings(dir string) (path string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find settings: %w", err)
	}
	for {
		path, above := filepath.Join(dir, SettingsFile), filepath.Dir(dir)
		switch _, err := os.Stat(path); {
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("find settings: %w", err)
		case above == dir:
			return "", nil
		}
		dir = above
	}
}

// ReadSettings returns the settings of one file. Unknown fields are errors.
func ReadSettings(path string) (Settings, error) {
	data, err := os.ReadFile(path)
	var s Settings
	if err == nil {
		s, err = parseSettings(path, data)
	}
	if err != nil {
		return Settings{}, fmt.Errorf("read settings: %w", err)
	}
	return s, nil
}

// Override returns a copy of s in which the fields that are set in `with` replace the fields of s.
// Credentials replace Insecure, and the other way round.
func (s Settings) Override(with Settings) Settings {
	if s.Source = joinSources(s, with); len(with.Addresses) > 0 {
		s.Addresses = with.Addresses
	}
	if with.Cluster != "" {
		s.Cluster = with.Cluster
	}
	switch {
	case with.Credentials != "":
		s.Credentials, s.Insecure, s.User = with.Credentials, with.Insecure, ""
	case with.Insecure:
		s.Credentials, s.Insecure = "", true
	}
	if with.User != "" {
		s.User = with.User
	}
	return s
}

// joinSources returns where settings are from in which some replace others.
func joinSources(s, with Settings) string {
	reached, known := len(with.Addresses) > 0, with.Credentials != "" || with.Insecure
	switch {
	case !reached && !known && with.Cluster == "" && with.User == "":
		return s.Source
	case reached && known, s.Source == "", s.Source == with.Source:
		return with.Source
	default:
		return s.Source + " and " + with.Source
	}
}

// Validate returns an error that says which setting is missing or invalid, and how to set
// it.
func (s Settings) Validate() error {
	switch {
	case len(s.Addresses) == 0:
		return ErrNotConfigured
	case s.Insecure && s.Credentials != "":
		return errBoth
	case !s.Insecure && s.Credentials == "":
		return fmt.Errorf("no credentials for %s: give --credentials or set %s (weir tls issue makes the folder), or ask for plaintext with --insecure-plaintext",
			strings.Join(s.Addresses, ", "), EnvCredentials)
	case s.User != "" && !s.Insecure:
		return fmt.Errorf("user %q: the certificate in %s already identifies the user: leave it out", s.User, s.Credentials)
	}
	return s.checkAddresses()
}

func (s Settings) checkAddresses() error {
	for _, address := range s.Addresses {
		if err := checkAddress(address); err != nil {
			return err
		}
	}
	return nil
}

// parseSettings reads the text of a file. Unknown fields are errors.
func parseSettings(path string, data []byte) (s Settings, err error) {
	if err = yaml.UnmarshalWithOptions(data, &s, yaml.Strict()); err != nil {
		return Settings{}, fmt.Errorf("%s: %s", path, yaml.FormatError(err, false, false))
	}
	if s, err = s.in(filepath.Dir(path)); err != nil {
		return Settings{}, fmt.Errorf("%s: %w", path, err)
	}
	s.Source = path
	return s, nil
}

// in returns settings that were read from a file in dir with a path to the credentials that does
// not depend on it, or an error that says what cannot be.
func (s Settings) in(dir string) (Settings, error) {
	if s.Credentials != "" && !filepath.IsAbs(s.Credentials) {
		s.Credentials = filepath.Join(dir, s.Credentials)
	}
	if s.Insecure && s.Credentials != "" {
		return Settings{}, errBoth
	}
	return s, s.checkAddresses()
}

// within returns settings to be written to a file in dir: credentials below it are named relative
// to it.
func (s Settings) within(dir string) (_ Settings, err error) {
	if s.Credentials == "" {
		return s, nil
	}
	if s.Credentials, err = filepath.Abs(s.Credentials); err != nil {
		return s, err
	}
	if below, err := filepath.Rel(dir, s.Credentials); err == nil && filepath.IsLocal(below) {
		s.Credentials = below
	}
	return s, nil
}

// SaveSettings writes settings to a file. Credentials below its folder are named
// relative to it, so that the folder can be moved.
func SaveSettings(path string, s Settings) error {
	err := s.Validate()
	if err == nil {
		err = s.save(path)
	}
	if err != nil {
		return fmt.Errorf("save settings: %w", err)
	}
	return nil
}

func (s Settings) save(path string) error {
	path, err := filepath.Abs(path)
	if err == nil {
		s, err = s.within(filepath.Dir(path))
	}
	if err != nil {
		return err
	}
	return writeYAML(path, s, 0o755)
}

// writeYAML writes a file, and makes its folder with the given mode if it is missing. Readers see
// either the old file or the new one.
func writeYAML(path string, value any, folder fs.FileMode) error {
	data, err := yaml.Marshal(value)
	next := path + ".new"
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), folder)
	}
	if err == nil {
		err = os.WriteFile(next, data, 0o644)
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	return err
}
