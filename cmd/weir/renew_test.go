package main

import (
	"bytes"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/cluster/identity"
	"weir/cluster/identity/identitytest"
	"weir/messages/apipb"
)

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

func TestRenewedCertificates(t *testing.T) {
	tick := func() {}
	hangUp := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		every  time.Duration
		notice func()
	}{
		"are taken up on SIGHUP":               {time.Hour, hangUp},
		"are taken up when the folder changed": {time.Millisecond, tick},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := identitytest.New(t, "c1")
			id := identity.Identity{Cluster: "c1", Role: identity.Agent, Name: "n1"}
			begin := time.Now().Add(-time.Hour)
			dir := cluster.Folder(t, cluster.Certificate(t, id, begin, time.Now().Add(time.Hour)))
			renewed := cluster.Folder(t, cluster.Certificate(t, id, begin, time.Now().Add(48*time.Hour)))
			log := new(lines)
			logger := slog.New(slog.NewTextHandler(log, nil))
			protection, err := (&security{credentials: dir}).load(identity.Agent, "n1", logger)
			if err != nil {
				t.Fatal(err)
			}
			stop := protection.keepFresh(test.every, logger)
			defer stop()
			move := func(file string) {
				t.Helper()
				if err := os.Rename(filepath.Join(renewed, file), filepath.Join(dir, file)); err != nil {
					t.Fatal(err)
				}
				test.notice()
			}
			move("tls.crt")
			eventually(t, func() bool { return log.has("certificate not reloaded") }, "nobody noticed a certificate without its key")
			move("tls.key")
			eventually(t, func() bool { return log.has("certificate reloaded") }, "the renewed certificate was not taken up")
			stop()
		})
	}
}

// TestNothingToRenewInPlaintext: what is told to reload goes on.
func TestNothingToRenewInPlaintext(t *testing.T) {
	log := new(lines)
	logger := slog.New(slog.NewTextHandler(log, nil))
	protection, err := (&security{insecure: true}).load(identity.Agent, "n1", logger)
	if err != nil {
		t.Fatal(err)
	}
	// Were it not caught, the signal would end the tests here.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	defer signal.Stop(caught)
	stop := protection.keepFresh(time.Millisecond, logger)
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	<-caught
	eventually(t, func() bool { return log.has("no certificates to renew") }, "the signal was not heard")
}

func eventually(t *testing.T, done func() bool, otherwise string) {
	t.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(time.Minute); !done(); <-look.C {
		if time.Now().After(deadline) {
			t.Fatal(otherwise)
		}
	}
}

// TestRenewVerb (T6) renews what is due beside an authority: not what is not due, and not what is revoked.
func TestRenewVerb(t *testing.T) {
	dir := t.TempDir()
	weir := func(args ...string) string {
		t.Helper()
		var printed bytes.Buffer
		root := newRootCommand()
		root.SetArgs(append([]string{"tls"}, args...))
		root.SetOut(&printed)
		root.SetErr(&printed)
		if err := root.Execute(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, printed.String())
		}
		return printed.String()
	}
	weir("init", "--dir", dir, "--agent", "n1", "--user", "ann")
	weir("issue", "--dir", dir, "--role", "user", "--name", "bob", "--validity", "1ns")
	bob := filepath.Join(dir, "user-bob")
	authority, err := identity.OpenAuthority(filepath.Join(dir, "authority"))
	if err != nil {
		t.Fatal(err)
	}
	before, err := identity.FolderCertificate(bob)
	if err != nil {
		t.Fatal(err)
	}
	for name, revoked := range map[string]*apipb.Revocation{
		"by name":   {Role: "user", Name: "bob", IssuedBefore: timestamppb.New(time.Now().Add(time.Hour)), User: "admin", Reason: "stolen"},
		"by serial": {Serial: identity.Serial(before), User: "admin", Reason: "stolen"},
	} {
		if said, err := renewFolder(authority, bob, []*apipb.Revocation{revoked}, time.Now()); err != nil || !strings.Contains(said, "not renewed: user bob: revoked by admin: stolen") {
			t.Errorf("revoked %s: %q, %v", name, said, err)
		}
	}
	if after, err := identity.FolderCertificate(bob); err != nil || identity.Serial(after) != identity.Serial(before) {
		t.Errorf("a revoked certificate was replaced: %v", err)
	}
	if said := weir("renew", "--dir", dir, "--offline"); strings.Count(said, "\n") != 1 || !strings.Contains(said, "renewed: user bob, valid until") {
		t.Errorf("renew: %q, want bob's only", said)
	}
	if after, err := identity.FolderCertificate(bob); err != nil || identity.Serial(after) == identity.Serial(before) {
		t.Errorf("the certificate was not replaced: %v", err)
	}
	if said := weir("renew", "--dir", dir, "--offline", filepath.Join(dir, "agent-n1")); said != "" {
		t.Errorf("renewed what is not due: %q", said)
	}
	validities := map[time.Duration]bool{}
	for _, folder := range []string{"agent-n1", "user-ann"} {
		cert, err := identity.FolderCertificate(filepath.Join(dir, folder))
		if err != nil {
			t.Fatal(err)
		}
		valid := cert.NotAfter.Sub(identity.Issued(cert))
		if off := (valid - identity.DefaultValidity).Abs(); off > identity.DefaultValidity/20+time.Second {
			t.Errorf("%s is valid for %v, want %v give or take a twentieth", folder, valid, identity.DefaultValidity)
		}
		validities[valid] = true
	}
	if len(validities) != 2 {
		t.Errorf("all certificates of a cluster expire at once: %v", validities)
	}
}
