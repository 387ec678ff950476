package e2e

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"weir/messages/apipb"
)

// TestSecureVault (T3) gives jobs a secret. They have it, also after the agent was killed and the
// leader was; no file of the cluster, no process but the job's and no answer has it; and when the
// operation has ended the state does not even have it sealed.
func TestSecureVault(t *testing.T) {
	t.Parallel()
	c := prepareCluster(t, here, "n1")
	c.more = []string{"--snapshot-threshold", "20"}
	for _, name := range replicaNames {
		c.startReplica(name)
	}
	c.startAgent("n1")
	c.ready(t, 1)
	c.cli(t, "pool", "acl", "<Root>", "--allow", "user:ann=read")

	secret := "hunter2-" + rand.Text()
	release := filepath.Join(c.folder(t), "release")
	task := small(2).with("shell", true).with("command", fmt.Sprintf(`printf %%s "$WEIR_SECURE_VAULT_TOKEN" | sha256sum; while [ ! -e %s ]; do sleep 0.1; done`, release))
	operation := c.start(t, one(task, object{"secure_vault": object{"TOKEN": secret, "OTHER": "x"}}))
	sum := sha256.Sum256([]byte(secret))
	tells := func(job *apipb.Job) {
		t.Helper()
		until(t, "the job has the secret", func() string {
			var part apipb.JobOutputResponse
			c.ask(t, "JobService/Output", object{"job_id": job.GetId(), "stream": "stdout"}, &part)
			if part.GetText() != hex.EncodeToString(sum[:])+"  -\n" {
				return fmt.Sprintf("it says %q", part.GetText())
			}
			return ""
		})
	}
	jobs := c.runs(t, operation, 2)
	for _, job := range jobs {
		tells(job)
	}
	for _, folder := range []string{"operator-admin", "user-ann"} {
		_, shown := c.answered(t, folder, "r2", "OperationService/Get", `{"operation": "`+operation+`"}`)
		if !bytes.Contains(shown, []byte(`"TOKEN":"(hidden)"`)) {
			t.Errorf("%s sees %s", folder, shown)
		}
	}
	if printed := c.cli(t, "op", "get", operation, "-o", "json"); !strings.Contains(printed, `"(hidden)"`) {
		t.Errorf("op get prints\n%s", printed)
	}
	backup := filepath.Join(c.dir, "backup-1")
	c.cli(t, "cluster", "backup", "-f", backup)
	mark := c.vaultMark(t)
	if content, err := os.ReadFile(backup); err != nil || !bytes.Contains(content, mark) {
		t.Errorf("the backup has no sealed secret: %v", err)
	}

	// Other jobs of it have the secret after other processes took over.
	c.process("n1").kill()
	c.startAgent("n1")
	c.process(c.leader(t)).kill()
	c.ask(t, "JobService/Abort", object{"job_id": jobs[0].GetId()}, &apipb.AbortJobResponse{})
	until(t, "another job runs in its place", func() string {
		for _, job := range c.jobs(t, operation, "running") {
			if job.GetPid() != 0 && job.GetId() != jobs[0].GetId() && job.GetId() != jobs[1].GetId() {
				tells(job)
				return ""
			}
		}
		return c.describe(t, operation)
	})
	c.showsNowhere(t, secret)
	if err := os.WriteFile(release, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.ends(t, operation, "completed")

	after := filepath.Join(c.dir, "backup-2")
	c.cli(t, "cluster", "backup", "-f", after)
	if content, err := os.ReadFile(after); err != nil || bytes.Contains(content, mark) || !bytes.Contains(content, []byte(operation)) {
		t.Errorf("after its end the state has the sealed secret, or not the operation: %v", err)
	}
	if shown := protojson.Format(c.get(t, operation)); !strings.Contains(shown, "(hidden)") {
		t.Errorf("after its end it is shown as %s", shown)
	}
	c.showsNowhere(t, secret)
}

// vaultMark returns how everything begins that the replicas of a cluster seal.
func (c *cluster) vaultMark(t *testing.T) []byte {
	t.Helper()
	path := c.certs("replica-r1", "vault.key")
	key, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v", path, info.Mode(), err)
	}
	sum := sha256.Sum256(append([]byte("weir vault key mark "), key...))
	return append([]byte{1}, sum[:4]...)
}

// showsNowhere looks for a secret in all files of the cluster, in all command lines, and in the
// environment of processes of Weir.
func (c *cluster) showsNowhere(t *testing.T, secret string) {
	t.Helper()
	var forms [][]byte
	for _, form := range []string{
		secret, hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret))[:len(secret)], base64.URLEncoding.EncodeToString([]byte(secret))[:len(secret)],
	} {
		forms = append(forms, []byte(form))
	}
	// Packed or not, the random end would be there.
	forms = append(forms, []byte(secret[len(secret)-12:]))
	shows := func(where string, content []byte) {
		for _, form := range forms {
			if bytes.Contains(content, form) {
				t.Errorf("%s has the secret as %q", where, form)
			}
		}
	}
	files := map[string]int{}
	err := filepath.WalkDir(c.dir, func(path string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		shows(path, content)
		below, _ := filepath.Rel(c.dir, path)
		files[strings.Split(below, string(filepath.Separator))[0]]++
		return err
	})
	if err != nil || files["data"] < 10 || files["logs"] < 4 || files["backup-1"] != 1 {
		t.Errorf("looked at files %v: %v", files, err)
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range processes {
		// A process that has ended meanwhile has none.
		arguments, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		shows(process+"/cmdline", arguments)
		if name, _, _ := bytes.Cut(arguments, []byte{0}); strings.Contains(filepath.Base(string(name)), "weir") {
			environment, _ := os.ReadFile(filepath.Join(process, "environ"))
			shows(process+"/environ", environment)
		}
	}
}
