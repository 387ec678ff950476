package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/api/client"
	"weir/cluster/identity"
	"weir/messages/apipb"
)

// tlsVerb returns a function that runs a verb of weir tls.
func tlsVerb(t *testing.T) func(args ...string) (string, error) {
	return func(args ...string) (string, error) {
		t.Helper()
		var out strings.Builder
		root := newRootCommand()
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(append([]string{"tls"}, args...))
		err := root.ExecuteContext(t.Context())
		return out.String(), err
	}
}

// TestRotateVerbs (T6) replace the authority offline: every folder is named with the files to copy, steps are taken
// in order, none goes on unasked without the cluster, and what cannot be right is refused.
func TestRotateVerbs(t *testing.T) {
	dir, foreign := filepath.Join(t.TempDir(), "certs"), filepath.Join(t.TempDir(), "certs")
	weir := tlsVerb(t)
	for _, init := range [][]string{
		{"init", "--dir", dir, "--cluster-id", "c1", "--replica", "r1", "--agent", "n1"}, {"init", "--dir", foreign, "--cluster-id", "c2", "--agent", "n1"},
	} {
		if out, err := weir(init...); err != nil {
			t.Fatal(out, err)
		}
	}
	t.Setenv(client.EnvAddresses, "127.0.0.1:1")
	t.Setenv(client.EnvCredentials, filepath.Join(dir, "none"))
	steps := []struct {
		args  []string
		says  []string
		fails error
	}{
		{args: []string{"switch"}, says: []string{"weir tls rotate start"}, fails: identity.ErrNotStarted},
		{args: []string{"finish"}, says: []string{"agent-n1: up to date", "finished"}},
		{args: []string{"start"}, says: []string{"agent-n1: new ca.crt\n", "replica-r1: new ca.crt, gossip.key\n", "weir tls rotate switch"}},
		{args: []string{"start"}, says: []string{"agent-n1: up to date\n", "started"}},
		{args: []string{"finish", "--force"}, says: []string{"weir tls rotate switch first"}, fails: identity.ErrNotStarted},
		{args: []string{"start", filepath.Join(foreign, "agent-n1")}, says: []string{`belongs to cluster "c2"`}, fails: identity.ErrWrongCluster},
		{args: []string{"switch"}, says: []string{"none", "--force goes on all the same"}, fails: os.ErrNotExist},
		{args: []string{"switch", "--force"}, says: []string{"going on all the same", "agent-n1: new tls.crt\n", "replica-r1: new tls.crt, gossip.key\n"}},
		{args: []string{"switch"}, says: []string{"replica-r1: up to date\n"}},
		{args: []string{"start"}, says: []string{"weir tls rotate finish"}, fails: identity.ErrSwitched},
		{args: []string{"finish"}, says: []string{"--force goes on all the same"}, fails: os.ErrNotExist},
		{args: []string{"finish", "--force"}, says: []string{"agent-n1: new ca.crt\n", "replica-r1: new ca.crt, gossip.key\n", "finished"}},
		{args: []string{"finish"}, says: []string{"replica-r1: up to date\n"}},
	}
	for i, step := range steps {
		out, err := weir(slices.Concat([]string{"rotate"}, step.args, []string{"--dir", dir})...)
		if err != nil {
			out += err.Error()
		}
		if (err == nil) != (step.fails == nil) || !errors.Is(err, step.fails) {
			t.Errorf("%d: rotate %v: %v, want %v", i, step.args, err, step.fails)
		}
		for _, says := range step.says {
			if !strings.Contains(out, says) {
				t.Errorf("%d: rotate %v: %q, want %q", i, step.args, out, says)
			}
		}
	}
	if out, err := weir("issue", "--dir", dir, "--role", "agent", "--name", "n2"); err != nil {
		t.Fatal(out, err)
	}
	one, _ := weir("show", filepath.Join(dir, "agent-n1"))
	two, _ := weir("show", filepath.Join(dir, "agent-n2"))
	if _, was, _ := strings.Cut(one, "\n"); !strings.HasSuffix(two, was) {
		t.Errorf("after the rotation one folder says %q, a new one %q", one, two)
	}
}

// TestShowSaysWhatIsLeft (T6): weir tls show tells of an expired certificate, and of both authorities.
func TestShowSaysWhatIsLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	weir := tlsVerb(t)
	for _, args := range [][]string{
		{"init", "--dir", dir, "--cluster-id", "c1"}, {"issue", "--dir", dir, "--role", "replica", "--name", "r1", "--validity", "1ns"}, {"rotate", "start", "--dir", dir},
	} {
		if out, err := weir(args...); err != nil {
			t.Fatal(out, err)
		}
	}
	out, err := weir("show", filepath.Join(dir, "replica-r1"))
	lines := strings.Split(out, "\n")
	if err != nil || len(lines) != 5 || !strings.HasPrefix(lines[0], "weir://c1/replica/r1, expired on ") || !strings.Contains(lines[0], "weir tls renew") {
		t.Fatalf("%q, %v", out, err)
	}
	issuer, _ := strings.CutPrefix(lines[1], "issued by authority ")
	trusts, _ := strings.CutPrefix(lines[2], "trusts ")
	keys, _ := strings.CutPrefix(lines[3], "gossip keys ")
	if first, second, ok := strings.Cut(trusts, ", "); !ok || first != issuer || second == issuer || len(strings.Split(keys, ", ")) != 2 {
		t.Errorf("%q: want the issuer first of two authorities, and two keys", out)
	}
}

// TestRevokedFoldersAreLeft (T6): a rotation gives no certificate in place of a revoked one.
func TestRevokedFoldersAreLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	weir := tlsVerb(t)
	for _, args := range [][]string{{"init", "--dir", dir, "--agent", "n1"}, {"rotate", "start", "--dir", dir}} {
		if out, err := weir(args...); err != nil {
			t.Fatal(out, err)
		}
	}
	folder := filepath.Join(dir, "agent-n1")
	before, err := identity.FolderCertificate(folder)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := identity.SwitchRotation(filepath.Join(dir, "authority"))
	if err != nil {
		t.Fatal(err)
	}
	said, err := updateFolder(authority, folder, []*apipb.Revocation{{Role: "agent", Name: "n1", IssuedBefore: timestamppb.New(time.Now().Add(time.Hour)), User: "admin"}})
	if err != nil || said != "left as it is: agent n1: revoked by admin: no reason given" {
		t.Errorf("%q, %v", said, err)
	}
	if after, err := identity.FolderCertificate(folder); err != nil || !after.Equal(before) {
		t.Errorf("the revoked certificate was replaced: %v", err)
	}
}

// TestHeldUp (T6): a step of a rotation waits for replicas and agents that it would cut off, and for those of
// which nobody knows; weir status tells of them too.
func TestHeldUp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	weir := tlsVerb(t)
	if out, err := weir("init", "--dir", dir, "--replica", "r1"); err != nil {
		t.Fatal(out, err)
	}
	folder := filepath.Join(dir, "replica-r1")
	// holds is what a process holds after each step.
	var holds []identity.Standing
	var authorities []*identity.Authority
	for _, args := range [][]string{nil, {"rotate", "start", "--dir", dir}, {"rotate", "switch", "--force", "--dir", dir}, {"rotate", "finish", "--force", "--dir", dir}} {
		if args != nil {
			if out, err := weir(args...); err != nil {
				t.Fatal(out, err)
			}
		}
		_, held, err := identity.Inspect(folder)
		if err != nil {
			t.Fatal(err)
		}
		authority, err := identity.OpenAuthority(filepath.Join(dir, "authority"))
		if err != nil {
			t.Fatal(err)
		}
		holds, authorities = append(holds, held), append(authorities, authority)
	}
	told := func(what string, held identity.Standing) *apipb.HeldCredentials {
		role, name, _ := strings.Cut(what, " ")
		c := &apipb.HeldCredentials{Role: role, Name: name, Issuer: held.Issuer, Roots: held.Roots}
		if role == "replica" {
			c.GossipKeys = held.GossipKeys
		}
		return c
	}
	keyless := holds[1]
	keyless.GossipKeys = holds[0].GossipKeys
	const started, switched = 1, 2
	for name, test := range map[string]struct {
		phase   int
		r1, n1  identity.Standing
		r2      *identity.Standing
		noAgent bool
		waits   []string
		status  string
	}{
		"all have started":        {phase: started, r1: holds[1], r2: &holds[1], n1: holds[1], status: "weir tls rotate switch is next"},
		"an agent has not":        {phase: started, r1: holds[1], r2: &holds[1], n1: holds[0], waits: []string{"agent n1 does not trust the next authority"}, status: "agent n1 not trusting it yet"},
		"no process has":          {phase: started, r1: holds[0], r2: &holds[0], n1: holds[0], waits: []string{"agent n1", "replica r1", "replica r2"}},
		"a replica lacks the key": {phase: started, r1: holds[1], r2: &keyless, n1: holds[1], waits: []string{"replica r2 does not have the next gossip key"}, status: "switch is next"},
		"a replica is silent":     {phase: started, r1: holds[1], n1: holds[1], waits: []string{"replica r2 at h2:1 has not told"}, status: "switch is next"},
		"the leader is silent":    {phase: started, r2: &holds[1], noAgent: true, waits: []string{"replica r1 at h1:1 has not told", "the leader, which knows what agents hold"}, status: "switch is next"},
		"an agent is gone":        {phase: started, r1: holds[1], r2: &holds[1], waits: []string{"agent n1 has not told what it holds"}, status: "switch is next"},
		"all have switched":       {phase: switched, r1: holds[2], r2: &holds[2], n1: holds[2], status: "weir tls rotate finish is next"},
		"a replica has not":       {phase: switched, r1: holds[2], r2: &holds[1], n1: holds[2], waits: []string{"replica r2 shows a certificate of the old authority"}, status: "replica r2 still with a certificate of the old one"},
		"one has finished":        {phase: switched, r1: holds[3], r2: &holds[2], n1: holds[2], status: "replica r2, agent n1 still trusting the old one"},
		"all have finished":       {phase: 3, r1: holds[3], r2: &holds[3], n1: holds[3]},
	} {
		t.Run(name, func(t *testing.T) {
			st := &apipb.StatusResponse{Leader: "r1", Members: []*apipb.Member{
				{Id: "r1", Address: "h1:1", Suffrage: "voter"}, {Id: "r2", Address: "h2:1", Suffrage: "voter"}, {Id: "r9", Address: "h9:1"},
			}}
			if test.r1.Issuer != "" {
				st.Credentials = append(st.Credentials, told("replica r1", test.r1))
			}
			if test.r2 != nil {
				st.Credentials = append(st.Credentials, told("replica r2", *test.r2))
			}
			if !test.noAgent {
				st.Credentials = append(st.Credentials, told("agent n1", test.n1))
			}
			waits := heldUp(authorities[test.phase], st)
			slices.Sort(waits)
			if !slices.EqualFunc(waits, test.waits, strings.HasPrefix) {
				t.Errorf("waits for %q, want %q", waits, test.waits)
			}
			if said := rotationProblem(st.GetCredentials()); (said == "") != (test.status == "") || !strings.Contains(said, test.status) {
				t.Errorf("status: %q, want %q", said, test.status)
			}
		})
	}
}
