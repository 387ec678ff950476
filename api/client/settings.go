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

// The variables that override the file.
const (
	EnvAddresses   = "WEIR_ADDRESSES"
	EnvCredentials = "WEIR_CREDENTIALS"
	EnvInsecure    = "WEIR_INSECURE_PLAINTEXT"
	EnvCluster     = "WEIR_CLUSTER"
)

// ErrNotConfigured is returned when the settings name no address of a replica.
var ErrNotConfigured = fmt.Errorf("no cluster configured: give --addresses and --credentials, or set %s and %s, or start one here with weir dev up, which writes %s",
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
}

// LoadSettings returns the settings of the nearest file in dir or above it. Variables of
// the environment override them. It is no error if there is no file.
func LoadSettings(dir string, getenv func(string) string) (Settings, error) {
	path, err := FindSettings(dir)
	if err != nil {
		return Settings{}, err
	}
	var settings Settings
	if path != "" {
		if settings, err = ReadSettings(path); err != nil {
			return Settings{}, err
		}
	}
	fromEnv := Settings{Credentials: getenv(EnvCredentials), Cluster: getenv(EnvCluster)}
	if list := getenv(EnvAddresses); list != "" {
		for address := range strings.SplitSeq(list, ",") {
			if address = strings.TrimSpace(address); address != "" {
				fromEnv.Addresses = append(fromEnv.Addresses, address)
			}
		}
	}
	if flag := getenv(EnvInsecure); flag != "" {
		insecure, err := strconv.ParseBool(flag)
		if err != nil {
			return Settings{}, fmt.Errorf("load settings: %s=%q: it must be true or false", EnvInsecure, flag)
		}
		fromEnv.Insecure = insecure
		settings.Insecure = insecure
	}
	settings = settings.Override(fromEnv)
	if err := settings.checkAddresses(); err != nil {
		return Settings{}, fmt.Errorf("load settings: %w", err)
	}
	return settings, nil
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
	if len(with.Addresses) > 0 {
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
func parseSettings(path string, data []byte) (Settings, error) {
	var s Settings
	if err := yaml.UnmarshalWithOptions(data, &s, yaml.Strict()); err != nil {
		return Settings{}, fmt.Errorf("%s: %s", path, yaml.FormatError(err, false, false))
	}
	if s.Credentials != "" && !filepath.IsAbs(s.Credentials) {
		s.Credentials = filepath.Join(filepath.Dir(path), s.Credentials)
	}
	if s.Insecure && s.Credentials != "" {
		return Settings{}, fmt.Errorf("%s: %w", path, errBoth)
	}
	if err := s.checkAddresses(); err != nil {
		return Settings{}, fmt.Errorf("%s: %w", path, err)
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
	if err != nil {
		return err
	}
	if s.Credentials != "" {
		if s.Credentials, err = filepath.Abs(s.Credentials); err != nil {
			return err
		}
		if within, err := filepath.Rel(filepath.Dir(path), s.Credentials); err == nil && filepath.IsLocal(within) {
			s.Credentials = within
		}
	}
	data, err := yaml.Marshal(s)
	// Rename, so that readers see either the old file or the new one.
	next := path + ".new"
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(next, data, 0o644)
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	return err
}
