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

	"weir/cluster/identity"
	"weir/cluster/identity/identitytest"
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
