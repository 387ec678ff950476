package identity_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/cluster/identity"
	"weir/cluster/identity/identitytest"
)

// folderOf issues a credentials folder.
func folderOf(t testing.TB, authority *identity.Authority, role identity.Role, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := authority.Issue(dir, identity.Identity{Role: role, Name: name}, []string{"host1", "127.0.0.9"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	return dir
}

// rotate does one step of a rotation with the folders.
func rotate(dir string, step identity.Phase, folders ...string) error {
	update := func(a *identity.Authority) (err error) {
		for _, folder := range folders {
			_, failed := a.Update(folder)
			err = errors.Join(err, failed)
		}
		return err
	}
	if step == identity.Settled {
		return identity.FinishRotation(dir, update)
	}
	begin := identity.StartRotation
	if step == identity.Switched {
		begin = identity.SwitchRotation
	}
	a, err := begin(dir)
	if err != nil {
		return err
	}
	return update(a)
}

// steps are those of a rotation, in order.
var steps = []identity.Phase{identity.Started, identity.Switched, identity.Settled}

// TestRotation (T6) replaces authority and gossip key, each step twice, and looks at what each step gives to a
// replica, an agent that does not run, and a new process: keys and names of processes stay. In the end nothing
// of the old authority is left.
func TestRotation(t *testing.T) {
	cluster := identitytest.New(t, "c1")
	replica, agent := folderOf(t, cluster.Authority, identity.Replica, "r1"), folderOf(t, cluster.Authority, identity.Agent, "n1")
	oldKey, err := os.ReadFile(filepath.Join(cluster.Dir(), "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	running, err := identity.LoadCredentials(replica)
	if err != nil {
		t.Fatal(err)
	}
	var used [][]byte
	if err := running.HeedGossipKeys(func(keys [][]byte) error { used = keys; return nil }); err != nil || len(used) != 1 {
		t.Fatalf("gossip keys %x, %v", used, err)
	}
	before, oldGossip := running.Standing(), used[0]
	private, err := os.ReadFile(filepath.Join(replica, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		for range 2 {
			if err := rotate(cluster.Dir(), step, replica, agent); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
		}
		if err := running.Reload(); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		opened, err := identity.OpenAuthority(cluster.Dir())
		if err != nil || opened.Phase() != step {
			t.Fatalf("phase %v, %v; want %v", opened, err, step)
		}
		holds := running.Standing()
		if !slices.EqualFunc(used, running.GossipKeys(), bytes.Equal) {
			t.Errorf("step %d: gossip was not told the keys", step)
		}
		wantRoots := 2
		if step == identity.Settled {
			wantRoots = 1
		}
		if len(holds.Roots) != wantRoots || len(holds.GossipKeys) != wantRoots || (holds.Issuer == before.Issuer) != (step == identity.Started) ||
			bytes.Equal(used[0], oldGossip) != (step == identity.Started) {
			t.Errorf("step %d: the replica holds %+v, at first %+v", step, holds, before)
		}
		for _, folder := range []string{agent, folderOf(t, opened, identity.Replica, fmt.Sprint("new", step))} {
			loaded, err := identity.LoadCredentials(folder)
			if err != nil {
				t.Fatal(err)
			}
			if other := loaded.Standing(); other.Issuer != holds.Issuer || !slices.Equal(other.Roots, holds.Roots) {
				t.Errorf("step %d: %s holds %+v, the replica %+v", step, loaded.Identity(), other, holds)
			}
		}
	}
	cert, err := identity.FolderCertificate(replica)
	if err != nil || !slices.Equal(cert.DNSNames, []string{"host1"}) || len(cert.IPAddresses) != 1 || cert.NotAfter.Sub(identity.Issued(cert)).Round(time.Minute) != time.Hour {
		t.Errorf("certificate for %v %v until %v, %v", cert.DNSNames, cert.IPAddresses, cert.NotAfter, err)
	}
	if now, err := os.ReadFile(filepath.Join(replica, "tls.key")); err != nil || !bytes.Equal(now, private) {
		t.Errorf("the private key changed: %v", err)
	}
	err = filepath.WalkDir(cluster.Dir(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if content, err := os.ReadFile(path); err != nil || bytes.Contains(content, oldKey) {
			return fmt.Errorf("%s has the old authority's key still: %w", path, err)
		}
		return nil
	})
	if files, failed := os.ReadDir(cluster.Dir()); err != nil || failed != nil || len(files) != 4 {
		t.Errorf("authority's folder: %v, %v, %v; want its four files", files, failed, err)
	}
}

// TestInterruptedRotation (T6) has a step end between any two of its writes: what is there can be loaded, and the
// step can be repeated.
func TestInterruptedRotation(t *testing.T) {
	for name, test := range map[string]struct {
		// step is interrupted once it has written some of its files: first those in a replica's folder.
		step   identity.Phase
		files  []string
		broken func(dir string) error
	}{
		"start, the next authority is a part":      {step: identity.Started, broken: func(dir string) error { return os.Remove(filepath.Join(dir, "next", "ca.crt")) }},
		"start, no folder has it":                  {step: identity.Started},
		"start, the folder has the roots":          {step: identity.Started, files: []string{"ca.crt"}},
		"switch, no folder has it":                 {step: identity.Switched},
		"switch, the folder has the roots":         {step: identity.Switched, files: []string{"ca.crt"}},
		"switch, the folder has its certificate":   {step: identity.Switched, files: []string{"ca.crt", "tls.crt"}},
		"finish, the folder has the root":          {step: identity.Settled, files: []string{"ca.crt"}},
		"finish, the folder has all":               {step: identity.Settled, files: []string{"ca.crt", "gossip.key"}},
		"finish, the authority has its key":        {step: identity.Settled, files: []string{"ca.crt", "gossip.key", "authority/ca.key"}},
		"finish, the authority has its gossip key": {step: identity.Settled, files: []string{"ca.crt", "gossip.key", "authority/ca.key", "authority/gossip.key"}},
		"finish, the authority has all":            {step: identity.Settled, files: []string{"ca.crt", "gossip.key", "authority/ca.key", "authority/gossip.key", "authority/ca.crt"}},
		"finish, copies are left": {step: identity.Settled, files: []string{"ca.crt", "gossip.key", "authority/ca.key", "authority/gossip.key", "authority/ca.crt"},
			broken: func(dir string) error {
				return os.Rename(filepath.Join(dir, "issuing"), filepath.Join(dir, "finished"))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := identitytest.New(t, "c1")
			folder := folderOf(t, cluster.Authority, identity.Replica, "r1")
			for _, step := range steps[:slices.Index(steps, test.step)] {
				if err := rotate(cluster.Dir(), step, folder); err != nil {
					t.Fatal(err)
				}
			}
			// The folders before and after the step: the files that were written are of those after it.
			authority, was := filepath.Join(t.TempDir(), "authority"), filepath.Join(t.TempDir(), "r1")
			if err := errors.Join(os.CopyFS(authority, os.DirFS(cluster.Dir())), os.CopyFS(was, os.DirFS(folder))); err != nil {
				t.Fatal(err)
			}
			if err := rotate(cluster.Dir(), test.step, folder); err != nil {
				t.Fatal(err)
			}
			if test.step != identity.Settled { // The first write of the other steps, in one step of its own.
				authority = cluster.Dir()
			}
			for _, file := range test.files {
				from, to := filepath.Join(folder, file), filepath.Join(was, file)
				if name, ok := strings.CutPrefix(file, "authority/"); ok {
					from, to = filepath.Join(cluster.Dir(), name), filepath.Join(authority, name)
				}
				content, err := os.ReadFile(from)
				if err == nil {
					err = os.WriteFile(to, content, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if test.broken != nil {
				if err := test.broken(authority); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := identity.OpenAuthority(authority); err != nil {
				t.Errorf("the authority, interrupted: %v", err)
			}
			if _, err := identity.LoadCredentials(was); err != nil {
				t.Errorf("the folder, interrupted: %v", err)
			}
			for _, step := range steps[slices.Index(steps, test.step):] {
				if err := rotate(authority, step, was); err != nil {
					t.Fatalf("step %d, after the interruption: %v", step, err)
				}
			}
			issuer, err := identity.ReadCertificate(filepath.Join(authority, "ca.crt"))
			if err != nil {
				t.Fatal(err)
			}
			if _, holds, err := identity.Inspect(was); err != nil || len(holds.Roots) != 1 || holds.Issuer != identity.Fingerprint(issuer) || len(holds.GossipKeys) != 1 {
				t.Errorf("after the rotation the folder holds %+v, %v", holds, err)
			}
			if files, err := os.ReadDir(authority); err != nil || len(files) != 4 {
				t.Errorf("after the rotation the authority's folder has %v, %v", files, err)
			}
		})
	}
}

// TestRotationSaysWhatIsWrong (T6): steps out of order, and folders that are not whole or not of this cluster.
func TestRotationSaysWhatIsWrong(t *testing.T) {
	foreign, other := identitytest.New(t, "c1"), identitytest.New(t, "c2")
	remove := func(file string) func(*testing.T, string) string {
		return func(t *testing.T, folder string) string {
			if err := os.Remove(filepath.Join(folder, file)); err != nil {
				t.Fatal(err)
			}
			return folder
		}
	}
	for name, test := range map[string]struct {
		done   []identity.Phase
		step   identity.Phase
		folder func(t *testing.T, good string) string
		want   error
		says   string
	}{
		"switch before start":   {step: identity.Switched, want: identity.ErrNotStarted, says: "rotate start"},
		"finish before switch":  {done: steps[:1], step: identity.Settled, want: identity.ErrNotStarted, says: "rotate switch"},
		"two rotations at once": {done: steps[:2], step: identity.Started, want: identity.ErrSwitched, says: "rotate finish"},
		"another cluster": {step: identity.Started, want: identity.ErrWrongCluster, says: `cluster "c2", the authority to "c1"`,
			folder: func(t *testing.T, _ string) string { return folderOf(t, other.Authority, identity.Agent, "n1") }},
		"another authority": {step: identity.Started, want: identity.ErrForeignAuthority, says: "issue a credentials folder",
			folder: func(t *testing.T, _ string) string { return folderOf(t, foreign.Authority, identity.Agent, "n1") }},
		"no certificate": {step: identity.Started, want: fs.ErrNotExist, says: "tls.crt", folder: remove("tls.crt")},
		"no roots":       {step: identity.Switched, done: steps[:1], want: fs.ErrNotExist, says: "ca.crt", folder: remove("ca.crt")},
		"no key":         {step: identity.Switched, done: steps[:1], want: fs.ErrNotExist, says: "tls.key", folder: remove("tls.key")},
		"no gossip key":  {step: identity.Started, want: fs.ErrNotExist, says: "gossip.key", folder: remove("gossip.key")},
		"a long gossip key": {step: identity.Started, says: "gossip.key: is 96 bytes long, want 32, or 64 while", folder: func(t *testing.T, folder string) string {
			if err := os.WriteFile(filepath.Join(folder, "gossip.key"), make([]byte, 96), 0o600); err != nil {
				t.Fatal(err)
			}
			return folder
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := identitytest.New(t, "c1")
			folder := folderOf(t, cluster.Authority, identity.Replica, "r1")
			for _, step := range test.done {
				if err := rotate(cluster.Dir(), step, folder); err != nil {
					t.Fatal(err)
				}
			}
			if test.folder != nil {
				folder = test.folder(t, folder)
			}
			err := rotate(cluster.Dir(), test.step, folder)
			if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want %v that says %q", err, test.want, test.says)
			}
		})
	}
}

// TestBundles (T6): roots of two clusters would have these trust each other.
func TestBundles(t *testing.T) {
	ours, theirs := identitytest.New(t, "c1"), identitytest.New(t, "c2")
	folder := folderOf(t, ours.Authority, identity.Agent, "n1")
	running, err := identity.LoadCredentials(folder)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "ca.crt")
	mine, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	more, err := os.ReadFile(filepath.Join(theirs.Dir(), "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	for says, content := range map[string][]byte{
		`clusters "c1" and "c2"`: slices.Concat(mine, more),
		"not a PEM certificate":  append(slices.Clone(mine), "rubbish"...),
		"":                       append(slices.Clone(mine), '\n'),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := running.Reload(); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
		if holds := running.Standing(); len(holds.Roots) != 1 {
			t.Errorf("trusts %v after a refused bundle", holds.Roots)
		}
	}
}

// TestInspect (T6) tells of folders that can no longer be loaded.
func TestInspect(t *testing.T) {
	cluster := identitytest.New(t, "c1")
	id := identity.Identity{Cluster: "c1", Role: identity.Replica, Name: "r1"}
	until := time.Now().Add(-time.Hour).Truncate(time.Second)
	folder := cluster.Folder(t, cluster.Certificate(t, id, until.Add(-time.Hour), until))
	if _, err := identity.LoadCredentials(folder); !errors.Is(err, identity.ErrExpired) {
		t.Fatalf("loaded: %v", err)
	}
	if found, holds, err := identity.Inspect(folder); err != nil || found != id || !holds.Expires.Equal(until) || holds.Issuer == "" || len(holds.Roots) != 1 || len(holds.GossipKeys) != 1 {
		t.Errorf("%v holds %+v, %v", found, holds, err)
	}
}

// process is one that runs with a credentials folder.
type process struct {
	*identity.Credentials
	role   identity.Role
	folder string
}

// shake has a client connect to a server in memory.
func shake(client, server *process) error {
	near, far := net.Pipe()
	defer func() { _ = errors.Join(near.Close(), far.Close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	served := make(chan error, 1)
	accepting := tls.Server(far, server.ServerConfig(identity.Roles()...))
	go func() { served <- accepting.HandshakeContext(ctx) }()
	err := tls.Client(near, client.ClientConfig(identity.Replica)).HandshakeContext(ctx)
	_ = near.Close() // The server has all that it needs; an alert of its would find no reader.
	return errors.Join(err, <-served)
}

// TestRotationCutsNobodyOff (T6): however the steps of rotations and the reloads of processes come after each
// other, a step that waits for those whom it would cut off cuts none off: each pair connects, each replica
// decrypts the others' gossip, and each step comes to its turn. A step that does not wait does cut off.
func TestRotationCutsNobodyOff(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cluster := identitytest.New(t, "c1")
		var all []*process
		start := func(role identity.Role, name string) *process {
			authority, err := identity.OpenAuthority(cluster.Dir())
			if err != nil {
				rt.Fatal(err)
			}
			p := &process{role: role, folder: folderOf(t, authority, role, name)}
			if p.Credentials, err = identity.LoadCredentials(p.folder); err != nil {
				rt.Fatal(err)
			}
			all = append(all, p)
			return p
		}
		start(identity.Replica, "r1")
		start(identity.Replica, "r2")
		start(identity.Agent, "n1")
		connects := func(p *process) {
			for _, other := range all {
				for _, pair := range [][2]*process{{p, other}, {other, p}} {
					client, server := pair[0], pair[1]
					if server.role != identity.Replica || client == server {
						continue
					}
					if err := shake(client, server); err != nil {
						rt.Fatalf("%s -> %s: %v", client.Identity(), server.Identity(), err)
					}
					if client.role == identity.Replica && !slices.ContainsFunc(server.GossipKeys(), func(key []byte) bool { return bytes.Equal(key, client.GossipKeys()[0]) }) {
						rt.Fatalf("%s cannot decrypt gossip of %s", server.Identity(), client.Identity())
					}
				}
			}
		}
		reload := func(p *process) {
			before := p.Standing()
			if err := p.Reload(); err != nil {
				rt.Fatal(err)
			}
			if !reflect.DeepEqual(before, p.Standing()) {
				connects(p)
			}
		}
		step := func() (waits string) {
			authority, err := identity.OpenAuthority(cluster.Dir())
			if err != nil {
				rt.Fatal(err)
			}
			var folders []string
			for _, p := range all {
				if waits = authority.Awaits(p.role, p.Standing()); waits != "" {
					return waits
				}
				folders = append(folders, p.folder)
			}
			// The folders of the step may get it in any order, and processes may reload in between.
			next := steps[authority.Phase()]
			for _, folder := range rapid.Permutation(folders).Draw(rt, "folders") {
				if next == identity.Settled {
					break
				}
				if err := rotate(cluster.Dir(), next, folder); err != nil {
					rt.Fatal(err)
				}
				reload(all[rapid.IntRange(0, len(all)-1).Draw(rt, "meanwhile")])
			}
			if err := rotate(cluster.Dir(), next, folders...); err != nil {
				rt.Fatal(err)
			}
			return ""
		}
		for range rapid.IntRange(1, 8).Draw(rt, "actions") {
			switch rapid.IntRange(0, 4).Draw(rt, "action") {
			case 0, 1:
				step()
			case 2, 3:
				reload(all[rapid.IntRange(0, len(all)-1).Draw(rt, "process")])
			case 4:
				if len(all) < 4 {
					connects(start(identity.Replica, fmt.Sprint("new", len(all))))
				}
			}
		}
		// In the end, nothing keeps the rotation from going on.
		for range 2 {
			for _, p := range all {
				reload(p)
			}
			if waits := step(); waits != "" {
				rt.Fatal("a step waits although all have reloaded: ", waits)
			}
		}
	})
}
