package main

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"

	"weir/cluster/identity"
	"weir/cluster/wire"
)

// security is the flags that say how connections are protected.
type security struct {
	credentials string
	insecure    bool
}

func (s *security) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.credentials, "credentials", "", "credentials folder of this process (see weir tls)")
	areFolders(flags, "credentials")
	flags.BoolVar(&s.insecure, "insecure-plaintext", false, "no encryption, no certificates: every caller is trusted")
}

// protection is how a process protects its connections.
type protection struct {
	security  wire.Security
	cluster   string
	gossipKey []byte
	// dir is the credentials folder; empty: there are no certificates.
	dir string
}

// load returns the protection of a process with this role and name. The
// certificate must be of both.
func (s *security) load(role identity.Role, name string, log *slog.Logger) (protection, error) {
	if s.insecure {
		if s.credentials != "" {
			return protection{}, &exitError{exitUsage, errors.New("--insecure-plaintext takes no --credentials")}
		}
		log.Warn("INSECURE: plaintext requested; no encryption, no certificates, every caller is trusted")
		self := identity.Identity{Cluster: wire.InsecureCluster, Role: role, Name: name}
		if err := self.Validate(); err != nil {
			return protection{}, &exitError{exitUsage, err}
		}
		return protection{security: wire.Insecure{Self: self}, cluster: wire.InsecureCluster}, nil
	}
	if s.credentials == "" {
		return protection{}, &exitError{exitUsage, errors.New("--credentials is needed: the folder that weir tls init or weir tls issue made for this process")}
	}
	credentials, err := identity.LoadCredentials(s.credentials)
	if err != nil {
		return protection{}, err
	}
	if id := credentials.Identity(); id.Role != role || id.Name != name {
		return protection{}, &exitError{exitUsage, fmt.Errorf("credentials %s are for %s %q, not for %s %q: use the right folder or name", s.credentials, id.Role, id.Name, role, name)}
	}
	return protection{
		security: wire.Mutual{Credentials: credentials}, cluster: credentials.Identity().Cluster, gossipKey: credentials.GossipKey(), dir: s.credentials,
	}, nil
}
