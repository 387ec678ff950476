package browse

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"weir/api/client"
	"weir/cluster/identity"
)

// errUsage marks mistakes in the command line.
var errUsage = errors.New("usage")

func asUsage(err error) error { return errors.Join(errUsage, err) }

// run runs a verb that cannot start.
func run(t *testing.T, cmd *cobra.Command, args []string) error {
	t.Helper()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	return cmd.ExecuteContext(t.Context())
}

// TestGatewaysFlags (W2): what is missing or cannot be is named, before anything listens.
func TestGatewaysFlags(t *testing.T) {
	dir := t.TempDir()
	authority, err := identity.CreateAuthority(filepath.Join(dir, "authority"), "c1")
	if err != nil {
		t.Fatal(err)
	}
	for role, name := range map[identity.Role]string{identity.Gateway: "gw", identity.User: "ann"} {
		if err := authority.Issue(filepath.Join(dir, name), identity.Identity{Role: role, Name: name}, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	secret, empty := filepath.Join(dir, "secret"), filepath.Join(dir, "empty")
	for path, text := range map[string]string{secret: "s\n", empty: "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, key := filepath.Join(dir, "b.crt"), filepath.Join(dir, "b.key")
	writePair(t, cert, key, 1)
	good := map[string]string{
		"addresses": "h:1", "credentials": filepath.Join(dir, "gw"), "oidc": "https://id.example", "client-id": "weir", "client-secret-file": secret,
		"url": "https://weir.example", "tls-cert": cert, "tls-key": key, "listen": "256.0.0.1:0",
	}
	tests := map[string]struct{ flag, value, want string }{
		"a port that cannot be":          {"listen", "256.0.0.1:0", "--listen"},
		"a page in the clear":            {"url", "http://weir.example", "--url"},
		"an address with a path":         {"url", "https://weir.example/x", "--url"},
		"a secret that is not there":     {"client-secret-file", filepath.Join(dir, "none"), "--client-secret-file"},
		"a secret that is empty":         {"client-secret-file", empty, "client secret is empty"},
		"an issuer in the clear":         {"oidc", "http://id.example", "must be https"},
		"a certificate of another role":  {"credentials", filepath.Join(dir, "ann"), "role gateway"},
		"a certificate that is no file":  {"tls-cert", filepath.Join(dir, "none"), "--tls-cert"},
		"an address that is no address":  {"addresses", "h", "host:port"},
		"a session that ends beforehand": {"session-time", "-1s", "session time"},
	}
	for _, name := range needed {
		tests["no "+name] = struct{ flag, value, want string }{name, "", "--" + name + " is needed"}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var args []string
			for flag, value := range good {
				if flag == test.flag {
					continue
				}
				args = append(args, "--"+flag, value)
			}
			if test.value != "" {
				args = append(args, "--"+test.flag, test.value)
			}
			prepare := func(*cobra.Command) (*slog.Logger, error) { return slog.New(slog.DiscardHandler), nil }
			err := run(t, NewGatewayCommand(Gateway{Version: "v", Prepare: prepare, Usage: asUsage}), args)
			if !errors.Is(err, errUsage) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want …%s…", err, test.want)
			}
		})
	}
}

// TestUIListensHere (W2): the page is for this machine alone.
func TestUIListensHere(t *testing.T) {
	by := UI{Version: "v", Usage: asUsage, Open: func() (*client.Client, error) {
		config, err := client.Settings{Addresses: []string{"127.0.0.1:1"}, Insecure: true}.Config()
		if err != nil {
			return nil, err
		}
		return client.New(config)
	}}
	for _, listen := range []string{"0.0.0.0:0", ":0", "7070"} {
		if err := run(t, NewUICommand(by), []string{"--listen", listen}); !errors.Is(err, errUsage) {
			t.Errorf("--listen %s: %v", listen, err)
		}
	}
	by.Open = func() (*client.Client, error) { return nil, client.ErrNotConfigured }
	if err := run(t, NewUICommand(by), nil); !errors.Is(err, client.ErrNotConfigured) || !errors.Is(err, errUsage) {
		t.Errorf("without a cluster: %v", err)
	}
}

// TestRenewedCertificate (W2): a new pair of files counts without a restart, and a broken one does not.
func TestRenewedCertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "b.crt"), filepath.Join(dir, "b.key")
	writePair(t, cert, key, 1)
	p, err := loadPair(cert, key, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	p.now = func() time.Time { return now }
	serial := func() int64 {
		t.Helper()
		got, err := p.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return got.Leaf.SerialNumber.Int64()
	}
	if got := serial(); got != 1 {
		t.Fatalf("at first it is %d", got)
	}
	touch := func(after time.Duration) {
		t.Helper()
		for _, path := range []string{cert, key} {
			if err := os.Chtimes(path, now.Add(after), now.Add(after)); err != nil {
				t.Fatal(err)
			}
		}
	}
	writePair(t, cert, key, 2)
	touch(time.Hour)
	if got := serial(); got != 1 {
		t.Errorf("it is looked at each time: %d", got)
	}
	now = now.Add(lookEvery)
	if got := serial(); got != 2 {
		t.Errorf("the new one does not count: %d", got)
	}
	if err := os.WriteFile(cert, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	touch(2 * time.Hour)
	now = now.Add(lookEvery)
	if got := serial(); got != 2 {
		t.Errorf("a broken one counts: %d", got)
	}
	writePair(t, cert, key, 3)
	touch(2 * time.Hour)
	now = now.Add(lookEvery)
	if got := serial(); got != 3 {
		t.Errorf("the one after a broken one does not count: %d", got)
	}
}

// writePair writes a certificate with a serial number, and its key.
func writePair(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"weir.example"}}
	made, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyBytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: made}, keyFile: {Type: "PRIVATE KEY", Bytes: keyBytes}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
