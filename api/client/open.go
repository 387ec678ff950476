package client

import (
	"fmt"
	"log/slog"
	"slices"

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
	return s.config("the API is for users and operators", identity.User, identity.Operator)
}

// GatewayConfig is Config for a process that makes calls for others, whom it names.
func (s Settings) GatewayConfig() (Config, error) {
	return s.config("this needs the role gateway (weir tls issue --role gateway --name NAME)", identity.Gateway)
}

// config returns the configuration for credentials with one of the roles.
func (s Settings) config(needed string, roles ...identity.Role) (Config, error) {
	if err := s.Validate(); err != nil {
		return Config{}, err
	}
	security, err := s.security(needed, roles)
	if err != nil {
		return Config{}, err
	}
	dialer, err := wire.NewDialer(security)
	if err != nil {
		return Config{}, err
	}
	return Config{Addresses: s.Addresses, HTTP: dialer.HTTPClient(0), URL: dialer.URL}, nil
}

func (s Settings) security(needed string, roles []identity.Role) (wire.Security, error) {
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
	if !slices.Contains(roles, self.Role) {
		return nil, fmt.Errorf("credentials in %s are for role %s: %s", s.Credentials, self.Role, needed)
	}
	return wire.Mutual{Credentials: credentials, Reload: true}, nil
}
