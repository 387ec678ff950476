package client

import (
	"fmt"
	"log/slog"

	"weir/cluster/identity"
	"weir/cluster/wire"
)

// Open returns a client for the cluster that s names, with the defaults of Config.
func Open(s Settings, log *slog.Logger) (*Client, error) {
	cfg, err := s.Config()
	if err != nil {
		return nil, fmt.Errorf("open client: %w", err)
	}
	cfg.Logger = log
	return New(cfg)
}

// Config returns the configuration for New to reach the cluster of the settings. Its times
// are not set, so that the caller can choose them.
func (s Settings) Config() (Config, error) {
	if err := s.Validate(); err != nil {
		return Config{}, err
	}
	security, err := s.security()
	if err != nil {
		return Config{}, err
	}
	dialer, err := wire.NewDialer(security)
	if err != nil {
		return Config{}, err
	}
	return Config{Addresses: s.Addresses, HTTP: dialer.HTTPClient(0), URL: dialer.URL}, nil
}

func (s Settings) security() (wire.Security, error) {
	if s.Insecure {
		if s.User == "" {
			return wire.Insecure{}, nil
		}
		// Without certificates nothing checks the role, so use the most powerful one.
		return wire.Insecure{Self: identity.Identity{Role: identity.Operator, Name: s.User}}, nil
	}
	credentials, err := identity.LoadCredentials(s.Credentials)
	if err != nil {
		return nil, err
	}
	self := credentials.Identity()
	if s.Cluster != "" && self.Cluster != s.Cluster {
		return nil, fmt.Errorf("credentials in %s are for cluster %q, the settings say %q: use the credentials of that cluster",
			s.Credentials, self.Cluster, s.Cluster)
	}
	if self.Role != identity.User && self.Role != identity.Operator {
		return nil, fmt.Errorf("credentials in %s are for role %s: the API is for users and operators", s.Credentials, self.Role)
	}
	return wire.Mutual{Credentials: credentials, Reload: true}, nil
}
