package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/cluster/identity"
	"weir/cluster/vault"
	"weir/cluster/wire"
	"weir/messages/statepb"
)

// security holds the flags that say how connections are protected.
type security struct {
	credentials string
	insecure    bool
}

func (s *security) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.credentials, "credentials", "", "credentials folder of this process (see weir tls)")
	must(cobra.MarkFlagDirname(flags, "credentials"))
	flags.BoolVar(&s.insecure, "insecure-plaintext", false, "no encryption, no certificates: every caller is trusted")
}

// protection is how a process protects its connections.
type protection struct {
	security wire.Security
	cluster  string
	// vault seals secrets; nil without a key.
	vault *vault.Vault
	// dir is the credentials folder; empty without certificates.
	dir string
}

// load returns the protection of a process. Its certificate must have this role and name.
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
	sealer, err := vault.New(credentials.VaultKey())
	return protection{
		security: wire.Mutual{Credentials: credentials}, cluster: credentials.Identity().Cluster, vault: sealer, dir: s.credentials,
	}, err
}

func newTLSCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "tls",
		Short: "Create the certificates of a cluster",
		Long: `Create the certificates of a cluster.

Every process of a cluster has a folder with its certificate, issued by the
cluster's own authority. The certificate says what the process is: a replica, an
agent, a user, an operator or a gateway. Every port requires one.`,
	}, newTLSInitCommand(), newTLSIssueCommand(), newTLSRenewCommand(), newTLSRevokeCommand(), newTLSRotateCommand(), newTLSVaultKeyCommand(), newTLSShowCommand())
}

func newTLSInitCommand() *cobra.Command {
	var dir, cluster string
	var replicas, agents, users, operators, hosts []string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create a cluster's authority and the certificates of its first processes",
		Example: `  weir tls init --dir certs --replica r1,r2,r3 --agent n1,n2 --operator admin --user ann
  # certs/authority stays with you; certs/replica-r1 goes to replica r1, and so on`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			authority, err := identity.CreateAuthority(filepath.Join(dir, "authority"), cluster)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "authority of cluster %s in %s: keep its ca.key safe\n", authority.Cluster(), filepath.Join(dir, "authority"))
			for _, list := range []struct {
				role  identity.Role
				names []string
				hosts []string
			}{{identity.Replica, replicas, hosts}, {identity.Agent, agents, nil}, {identity.User, users, nil}, {identity.Operator, operators, nil}} {
				for _, name := range list.names {
					if err := issue(cmd, authority, dir, list.role, name, list.hosts, staggered(identity.DefaultValidity)); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "dir", "certs", "folder for the authority and the credentials folders")
	flags.StringVar(&cluster, "cluster-id", "", "id of the cluster (default: random)")
	flags.StringSliceVar(&replicas, "replica", nil, "names of replicas")
	flags.StringSliceVar(&agents, "agent", nil, "names of agents: their nodes' names")
	flags.StringSliceVar(&users, "user", nil, "names of users")
	flags.StringSliceVar(&operators, "operator", nil, "names of operators: users who may do everything")
	flags.StringSliceVar(&hosts, "hosts", []string{"localhost", "127.0.0.1"}, "DNS names and addresses of replicas, for clients like curl that check them")
	return cmd
}

func newTLSIssueCommand() *cobra.Command {
	var dir, role, name string
	var hosts []string
	var validity time.Duration
	cmd := &cobra.Command{
		Use:     "issue",
		Short:   "Issue one more certificate",
		Example: `  weir tls issue --dir certs --role agent --name n3`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := require(cmd, "role", "name"); err != nil {
				return err
			}
			parsed, err := identity.ParseRole(role)
			if err != nil {
				return &exitError{exitUsage, fmt.Errorf("--role: %w", err)}
			}
			authority, err := identity.OpenAuthority(filepath.Join(dir, "authority"))
			if err != nil {
				return err
			}
			if parsed != identity.Replica && !cmd.Flags().Changed("hosts") {
				hosts = nil
			}
			if len(hosts) > 0 && (parsed == identity.User || parsed == identity.Operator || parsed == identity.Gateway) {
				return &exitError{exitUsage, fmt.Errorf("--hosts: the role %s does not listen on a port", parsed)}
			}
			if !cmd.Flags().Changed("validity") {
				validity = staggered(validity)
			}
			return issue(cmd, authority, dir, parsed, name, hosts, validity)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "dir", "certs", "folder that weir tls init made")
	flags.StringVar(&role, "role", "", "replica, agent, user, operator or gateway")
	flags.StringVar(&name, "name", "", "name of the replica, node or user")
	flags.StringSliceVar(&hosts, "hosts", []string{"localhost", "127.0.0.1"}, "DNS names and addresses in the certificate, for clients that verify them, such as curl: those of the replica, or of the agent's machine if the agent serves metrics")
	flags.DurationVar(&validity, "validity", identity.DefaultValidity, "how long the certificate is valid; without this flag up to 5% more or less, so that those of a cluster do not expire at once")
	return cmd
}

func newTLSVaultKeyCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "vault-key [FOLDER...]",
		Short: "Give replicas of an older cluster the key that seals secrets",
		Long: `Give replicas the key that seals secrets (secure_vault): vault.key in their credentials
folders. The authority of an older cluster has no such key: it gets one. Replicas that weir
tls init and weir tls issue make have it already.

Restart a replica afterwards. Keep the key with the backups, which cannot be restored with
their secrets without it.`,
		Example: `  weir tls vault-key --dir certs certs/replica-r1 certs/replica-r2 certs/replica-r3`,
		RunE: func(cmd *cobra.Command, folders []string) error {
			authority, made, err := identity.MakeVaultKey(filepath.Join(dir, "authority"))
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "authority of cluster %s %s vault.key: keep it safe\n", authority.Cluster(), when(made, "has a new")+when(!made, "has a"))
			for _, folder := range folders {
				given, err := authority.GiveVaultKey(folder)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", folder, when(given, "has the key now: restart its replica")+when(!given, "has the key already"))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "certs", "folder with the authority's folder")
	return cmd
}

// staggered returns a validity that differs from another by up to a twentieth.
func staggered(validity time.Duration) time.Duration {
	return validity - validity/20 + rand.N(validity/10)
}

// issue writes the credentials folder of one process, dir/role-name.
func issue(cmd *cobra.Command, authority *identity.Authority, dir string, role identity.Role, name string, hosts []string, validity time.Duration) error {
	folder := filepath.Join(dir, fmt.Sprintf("%s-%s", role, name))
	id := identity.Identity{Cluster: authority.Cluster(), Role: role, Name: name}
	if err := authority.Issue(folder, id, hosts, validity); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s %s: %s\n", role, name, folder)
	return nil
}

// lookAtCertificate is how often a process reloads its credentials folder.
// Certificates are renewed days before they expire.
const lookAtCertificate = time.Minute

// keepFresh reloads the certificates every period, and at once on SIGHUP, until `stop` is
// called. New connections use the reloaded certificates. Without certificates SIGHUP is ignored,
// so that it does not end the process.
func (p protection) keepFresh(period time.Duration, log *slog.Logger) (stop func()) {
	hangups, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	mutual, _ := p.security.(wire.Mutual)
	r := renewal{credentials: mutual.Credentials, dir: p.dir, log: log}
	var running sync.WaitGroup
	running.Go(func() {
		reviews := time.NewTicker(reviewEvery)
		defer reviews.Stop()
		for {
			select {
			case <-reviews.C:
				r.review()
			case <-over:
				return
			}
		}
	})
	// Beside the reviews, which must not wait for a slow disk.
	running.Go(func() {
		defer signal.Stop(hangups)
		looks := time.NewTicker(period)
		defer looks.Stop()
		for {
			select {
			case <-over:
				return
			case <-hangups:
				r.reload(true)
			case <-looks.C:
				r.reload(false)
			}
		}
	})
	return sync.OnceFunc(func() {
		close(over)
		running.Wait()
	})
}

// reviewEvery is how often a process closes connections whose certificate is no longer accepted.
const reviewEvery = 250 * time.Millisecond

// review closes connections whose certificate has expired or was revoked.
func (r *renewal) review() {
	if r.credentials == nil {
		return
	}
	for _, closed := range r.credentials.Review(time.Now()) {
		r.log.Warn("connection closed", "error", closed)
	}
}

// expires returns a function that says when the process's certificate expires; nil without
// certificates.
func (p protection) expires() func() time.Time {
	if mutual, ok := p.security.(wire.Mutual); ok {
		return mutual.Credentials.Expires
	}
	return nil
}

// holds returns what the process holds of the cluster's certificates; zero without certificates.
func (p protection) holds() identity.Standing {
	if mutual, ok := p.security.(wire.Mutual); ok {
		return mutual.Credentials.Standing()
	}
	return identity.Standing{}
}

// revocationOf returns the revocation of a certificate; nil if there is none.
type revocationOf func(serial, role, name string, issued time.Time) *statepb.Revocation

// heed makes revocations count for new and open connections. current returns those of now; nil if there are none.
func (p protection) heed(current func() revocationOf) {
	mutual, ok := p.security.(wire.Mutual)
	if !ok {
		return
	}
	mutual.Credentials.Heed(func() func(identity.Shown) error {
		if revoked := current(); revoked != nil {
			return revoked.why
		}
		return nil
	})
}

// why says why a certificate is no longer accepted.
func (of revocationOf) why(peer identity.Shown) error {
	found := of(peer.Serial, peer.Who.Role.String(), peer.Who.Name, peer.Issued)
	switch {
	case found == nil:
		return nil
	case found.GetUser() == "": // Agents are told neither who nor why.
		return fmt.Errorf("at %s", found.GetTime().AsTime().Format(time.RFC3339))
	}
	return fmt.Errorf("by %s at %s: %s", found.GetUser(), found.GetTime().AsTime().Format(time.RFC3339), cmp.Or(found.GetReason(), "no reason given"))
}

// gossipKeys returns the keys of gossip; none without certificates.
func (p protection) gossipKeys() [][]byte {
	if mutual, ok := p.security.(wire.Mutual); ok {
		return mutual.Credentials.GossipKeys()
	}
	return nil
}

// heedGossipKeys has the function use called whenever the keys of gossip change.
func (p protection) heedGossipKeys(use func([][]byte) error) error {
	if mutual, ok := p.security.(wire.Mutual); ok {
		return mutual.Credentials.HeedGossipKeys(use)
	}
	return nil
}

// heedMembers makes `accepts` decide which replicas are members.
func (p protection) heedMembers(accepts func(replica string) error) {
	if mutual, ok := p.security.(wire.Mutual); ok {
		mutual.Credentials.HeedMembers(accepts)
	}
}

// renewal reloads credentials.
type renewal struct {
	// credentials are nil without certificates.
	credentials *identity.Credentials
	dir         string
	log         *slog.Logger
	// failed is set while the folder cannot be loaded.
	failed bool
}

// reload reads the folder. It logs the result if `asked` is set, or if the result is new.
func (r *renewal) reload(asked bool) {
	if r.credentials == nil {
		if asked {
			r.log.Info("SIGHUP ignored: no certificates to renew")
		}
		return
	}
	before, failed := r.credentials.Standing(), r.failed
	err := r.credentials.Reload()
	expires := r.credentials.Expires()
	r.failed = err != nil
	switch {
	case !asked && r.failed == failed && reflect.DeepEqual(before, r.credentials.Standing()):
	case r.failed:
		r.log.Warn("certificate not reloaded", "dir", r.dir, "expires", expires, "error", err)
	default:
		r.log.Info("certificate reloaded", "dir", r.dir, "expires", expires)
	}
}
