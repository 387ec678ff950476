package runner

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWhatProxiesGetOfTheEnvironment is how they reach stores, and how many processors they
// use, and nothing else.
func TestWhatProxiesGetOfTheEnvironment(t *testing.T) {
	for _, name := range storeVariables {
		t.Setenv(name, "")
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	if diff := cmp.Diff([]string{oneProcessor}, proxyEnvironment()); diff != "" {
		t.Errorf("without any (-want +got):\n%s", diff)
	}
	t.Setenv("SSL_CERT_FILE", "/etc/own-ca.pem")
	t.Setenv("HTTPS_PROXY", "proxy:3128")
	t.Setenv("no_proxy", "")
	want := []string{oneProcessor, "HTTPS_PROXY=proxy:3128", "no_proxy=", "SSL_CERT_FILE=/etc/own-ca.pem"}
	if diff := cmp.Diff(want, proxyEnvironment()); diff != "" {
		t.Errorf("with some (-want +got):\n%s", diff)
	}
}
