package browse

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"

	"weir/api/client"
	"weir/api/gateway"
	"weir/api/web"
)

// maxConnections bounds those of all browsers: each has a few.
const maxConnections = 8192

// Gateway is what weir gateway takes from the program.
type Gateway struct {
	Version string
	// Prepare completes the flags, and returns the log.
	Prepare func(cmd *cobra.Command) (*slog.Logger, error)
	// Usage marks an error as a mistake in the command line.
	Usage func(error) error
}

// gatewayFlags holds the flags of weir gateway.
type gatewayFlags struct {
	cluster           client.Settings
	by                gateway.OIDC
	secretFile        string
	url, listen       string
	certFile, keyFile string
	readOnly          bool
}

// NewGatewayCommand returns the verb weir gateway, without the flags of its log.
func NewGatewayCommand(by Gateway) *cobra.Command {
	var f gatewayFlags
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Serve the cluster's page to a team whose people sign in",
		Long: `Serve the cluster's page to a team. People sign in with OpenID Connect; the gateway makes their
calls with its own certificate, of the role gateway, and names them and their groups. They
may do what pools give to these names (weir pool acl). It speaks for users, never for
operators.

Register it at the issuer with the redirect URL https://HOST/callback. Run one gateway for a
URL: sessions are in its memory.`,
		Example: `  weir tls issue --dir certs --role gateway --name gw1
  weir gateway --oidc https://id.example.org --client-id weir --client-secret-file secret \
      --url https://weir.example.org --listen :443 --tls-cert weir.crt --tls-key weir.key \
      --addresses host1:7701,host2:7701,host3:7701 --credentials certs/gateway-gw1`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := by.Prepare(cmd)
			if err != nil {
				return err
			}
			return f.run(cmd, by, log)
		},
	}
	f.register(cmd)
	return cmd
}

func (f *gatewayFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.cluster.Addresses, "addresses", nil, "host:port of replicas")
	flags.StringVar(&f.cluster.Credentials, "credentials", "", "credentials folder with a certificate of the role gateway")
	flags.StringVar(&f.by.Issuer, "oidc", "", "URL of the OpenID Connect issuer")
	flags.StringVar(&f.by.ClientID, "client-id", "", "id of this gateway at the issuer")
	flags.StringVar(&f.secretFile, "client-secret-file", "", "file with the secret of this gateway at the issuer")
	flags.StringSliceVar(&f.by.Scopes, "scopes", nil, "scopes to ask for, besides openid and profile")
	flags.StringVar(&f.by.NameClaim, "name-claim", "preferred_username", "claim with a person's name; email counts only if the issuer has verified it")
	flags.StringVar(&f.by.NameSuffix, "name-suffix", "", "end of all names at the issuer, such as @example.org, that is cut off; other names are refused")
	flags.StringVar(&f.by.GroupsClaim, "groups-claim", "groups", "claim with a person's groups; groups that no group of Weir can be called are left out")
	flags.DurationVar(&f.by.SessionTime, "session-time", f.by.SessionTime, "how long a person stays signed in, with the groups of that moment (default 8h)")
	flags.StringVar(&f.url, "url", "", "https address at which browsers reach the gateway")
	flags.StringVar(&f.listen, "listen", ":443", "host:port to listen on")
	flags.StringVar(&f.certFile, "tls-cert", "", "file with the certificate for browsers, and its chain; read again when it changes")
	flags.StringVar(&f.keyFile, "tls-key", "", "file with the key of that certificate")
	flags.BoolVar(&f.readOnly, "read-only", false, "let nobody change anything through this gateway")
	if err := cobra.MarkFlagDirname(flags, "credentials"); err != nil {
		panic(err)
	}
	registerNone(cmd, "addresses", "oidc", "client-id", "scopes", "name-claim", "name-suffix", "groups-claim", "url", "listen")
}

// needed are the flags without which there is no gateway.
var needed = []string{"addresses", "credentials", "oidc", "client-id", "client-secret-file", "url", "tls-cert", "tls-key"}

// check returns an error that names what is missing or cannot be, and reads the secret.
func (f *gatewayFlags) check(cmd *cobra.Command) (origin *url.URL, err error) {
	for _, name := range needed {
		if flag := cmd.Flags().Lookup(name); flag.Value.String() == "" || flag.Value.String() == "[]" {
			return nil, fmt.Errorf("--%s is needed: %s", name, flag.Usage)
		}
	}
	origin, err = url.Parse(f.url)
	if err != nil || origin.Scheme != "https" || origin.Host == "" || origin.User != nil || origin.Path != "" && origin.Path != "/" || origin.RawQuery != "" || origin.Fragment != "" {
		return nil, fmt.Errorf("--url %q: must be https://HOST or https://HOST:PORT", f.url)
	}
	if origin.Port() == "443" {
		origin.Host = origin.Hostname()
	}
	secret, err := os.ReadFile(f.secretFile)
	if err != nil {
		return nil, fmt.Errorf("--client-secret-file: %w", err)
	}
	f.by.ClientSecret = string(bytes.TrimSpace(secret))
	return &url.URL{Scheme: origin.Scheme, Host: origin.Host}, nil
}

func (f *gatewayFlags) run(cmd *cobra.Command, by Gateway, log *slog.Logger) (err error) {
	origin, err := f.check(cmd)
	if err != nil {
		return by.Usage(err)
	}
	config, err := f.cluster.GatewayConfig()
	if err != nil {
		return by.Usage(err)
	}
	config.Logger = log
	cluster, err := client.New(config)
	if err != nil {
		return by.Usage(err)
	}
	defer cluster.Close()
	team, err := gateway.NewTeam(gateway.Config{
		Files: web.Files(), Cluster: cluster, Origin: origin, Version: by.Version, Write: !f.readOnly, Logger: log,
	}, f.by)
	if err != nil {
		return by.Usage(err)
	}
	defer team.Close()
	certificate, err := loadPair(f.certFile, f.keyFile, log)
	if err != nil {
		return by.Usage(err)
	}
	port, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", f.listen)
	if err != nil {
		return by.Usage(fmt.Errorf("--listen: %w", err))
	}
	bounded := netutil.LimitListener(port, maxConnections)
	secured := tls.NewListener(bounded, &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: certificate.get})
	fmt.Fprintf(cmd.OutOrStdout(), "ready: %s at %s\n", origin, port.Addr())
	log.Info("ready", "address", port.Addr().String(), "version", by.Version)
	err = serve(cmd.Context(), secured, team, log)
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	log.Info("stopping")
	return err
}
