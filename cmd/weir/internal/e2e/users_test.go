package e2e

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
)

// crimes are what a job may not do, as lines of shell that succeed if it can. $DIR has the
// certificates and the data of the cluster, $VICTIM is the folder of another job of the node, and
// $PIDS are the pids of its processes outside.
var crimes = map[string]string{
	"read a replica's key":                 "cat $DIR/certs/replica-r1/*.key || cat $DIR/certs/replica-r1/*",
	"read the authority's key":             "cat $DIR/certs/authority/*",
	"list a replica's state":               "ls $DIR/data/r1",
	"read the agent's key":                 "cat $DIR/certs/agent-*/*",
	"list the agent's state":               "ls $(dirname $(dirname $(dirname $VICTIM))) | grep -v jobs",
	"list the node's jobs":                 "ls $(dirname $VICTIM)",
	"read its own specification":           "cat $(dirname $PWD)/spec.json",
	"reach its proxy":                      "ls $(dirname $PWD)/control.sock",
	"read another job's file":              "cat $VICTIM/work/secret",
	"list another job's files":             "ls $VICTIM/work",
	"write to another job's folder":        "touch $VICTIM/work/mine",
	"read another job's output":            "cat $(dirname $(dirname $VICTIM))/output/*/stdout*",
	"find another job's socket":            "ls $VICTIM/ask",
	"signal another job":                   "for p in $PIDS; do kill -0 $p && exit 0; done; exit 1",
	"end all that it can":                  `perl -e 'exit(kill("KILL", map { $_ } split / /, $ENV{PIDS}) ? 0 : 1)'`,
	"trace another job":                    `perl -e 'for (split / /, $ENV{PIDS}) { exit 0 if syscall(101, 16, $_+0, 0, 0) == 0 } exit 1'`,
	"read another job's environment":       "for p in $PIDS; do cat /proc/$p/environ && exit 0; done; exit 1",
	"read another job's memory":            "for p in $PIDS; do head -c 1 /proc/$p/mem && exit 0; done; exit 1",
	"follow another job's folder":          "for p in $PIDS; do ls /proc/$p/cwd/ && exit 0; done; exit 1",
	"see another job":                      "for p in $PIDS; do test -d /proc/$p && exit 0; done; exit 1",
	"see many processes":                   "test $(ls /proc | grep -c '^[0-9]') -gt 12",
	"look into its proxy":                  "cat /proc/1/environ",
	"follow the files of its proxy":        "ls /proc/1/root/ || ls /proc/1/fd/",
	"uncover what is hidden":               "umount $(dirname $(dirname $(dirname $VICTIM))) && cat $VICTIM/work/secret",
	"mount":                                "mount -t tmpfs x /mnt && test ! -w /proc/self/uid_map",
	"read the passwords":                   "cat /etc/shadow",
	"stop its proxy":                       "kill -STOP 1",
	"end its proxy":                        "kill -9 1",
	"enter the namespaces of its proxy":    "nsenter -t 1 -m -p true",
	"become root":                          "su -c true </dev/null || sudo -n true",
	"give itself another user":             `perl -e '$< = $> = 0; exit($> == 0 ? 0 : 1)' && test $(stat -c %u /proc/self/exe) = 0 && cat /etc/shadow`,
	"share memory by System V with others": `ipcs -m | grep -q 0x57`,
}

// TestJobUsers (T2): each job of an agent that is root runs as a user of its own. A job reads
// nothing of the agent's, of the replicas' or of another job's, and two jobs of one node can neither
// signal, trace nor read each other: not as what they are, and not as root of a namespace that they
// make.
func TestJobUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can have jobs that are others")
	}
	t.Parallel()
	c := newCluster(t, here, "n1")
	c.startAgent("n1")
	c.ready(t, 1)
	dir := c.folder(t)
	release := filepath.Join(dir, "release")
	victim := c.start(t, one(shell(1, `echo secret > secret; chmod 0666 secret; ipcmk -M 64; id -u > uid; mv uid `+dir+`; until test -e `+release+`; do sleep 0.1; done; cat secret`)))
	var itself string
	until(t, "the victim runs", func() string {
		data, err := os.ReadFile(filepath.Join(dir, "uid"))
		if itself = strings.TrimSpace(string(data)); err != nil {
			return err.Error()
		}
		return ""
	})
	id := c.jobs(t, victim)[0].GetId()
	folder := filepath.Join(c.data("n1"), "jobs", "jobs", id)
	pids := processesWith("WEIR_PROCESS_TREE=" + folder)
	if len(pids) == 0 {
		t.Fatalf("the victim's processes are %v", pids)
	}
	names := slices.Sorted(maps.Keys(crimes))
	script := "echo ran $AS\n"
	for i, name := range names {
		script += fmt.Sprintf("if ( %s ) >/dev/null 2>&1; then echo \"crime $AS %d\"; fi\n", crimes[name], i)
	}
	tried := filepath.Join(c.folder(t), "tried.sh")
	if err := os.WriteFile(tried, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	about := `grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs|Groups)' /proc/self/status | tr -s '\t ' ' '; echo uid $(id -u) gid $(id -g); AS=user sh ` + tried + `; unshare -U -r -m sh -c "AS=root sh ` + tried + `" || echo no namespaces; echo done`
	attack := c.start(t, one(shell(1, about).with("environment", object{"DIR": c.dir, "VICTIM": folder, "PIDS": strings.Join(pids, " ")})))
	c.ends(t, attack, "completed")
	printed := c.output(t, c.jobs(t, attack)[0].GetId(), "stdout")
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	for _, want := range []string{"CapEff: 0000000000000000", "CapPrm: 0000000000000000", "CapBnd: 0000000000000000", "NoNewPrivs: 1", "Groups:", "ran user", "done"} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.TrimSpace(line) == want }) {
			t.Errorf("no %q in what a job says of itself:\n%s", want, printed)
		}
	}
	for _, line := range lines {
		words := strings.Fields(line)
		switch {
		case len(words) == 4 && words[0] == "uid":
			uid, err := strconv.Atoi(words[1])
			if err != nil || uid < 200_000 || uid > 265_535 || words[3] != words[1] || words[1] == itself {
				t.Errorf("a job is %s, want a user and a group of its own", line)
			}
		case len(words) == 3 && words[0] == "crime":
			number, _ := strconv.Atoi(words[2])
			t.Errorf("a job, as %s, could %s: %s", words[1], names[number], crimes[names[number]])
		}
	}
	if err := os.WriteFile(release, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.ends(t, victim, "completed")
	for user, task := range map[string]object{
		"user root": small(1).with("user", "root"), "uid 0": small(1).with("user", "0"), "a group that reads disks": small(1).with("group", "disk"),
		"isolation none": small(1).with("isolation", "none"),
	} {
		refused := c.ends(t, c.start(t, one(task, object{"max_failed_job_count": 1})), "failed")
		wantIn(t, user, protojson.Format(refused.GetResult()), []string{"--allow-root-jobs"})
	}
}

// TestFlagsOfJobUsers (T2): an agent does not start with ids for jobs that are none, that an account of
// the machine has, or that it cannot give; with --job-uids jobs have ids of that range, and with
// --allow-root-jobs they may be root.
func TestFlagsOfJobUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can have jobs that are others")
	}
	t.Parallel()
	c := newCluster(t, here, "n1")
	for name, test := range map[string]struct {
		user uint32
		args []string
		want string
	}{
		"no range":                  {args: []string{"--job-uids", "7"}, want: `--job-uids: "7": must be FIRST-LAST`},
		"few ids":                   {args: []string{"--job-uids", "300000-300100"}, want: "at least 1000 ids"},
		"an account of the machine": {args: []string{"--job-uids", "65000-66000"}, want: "account nobody of this machine is among them; choose other ids with --job-uids"},
		"ids without root":          {user: nobody, args: []string{"--job-uids", "300000-301999"}, want: "the agent is not root, so its jobs can only run as its own user"},
		"root jobs without root":    {user: nobody, args: []string{"--allow-root-jobs"}, want: "the agent is not root, so its jobs can only run as its own user"},
	} {
		arguments := append([]string{"agent", "--insecure-plaintext", "--name", "n1", "--replicas", "r1=127.0.0.1:1", "--data", filepath.Join(c.folder(t), "agent")}, test.args...)
		cmd := exec.CommandContext(t.Context(), program("weir"), arguments...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: test.user, Gid: test.user}}
		said, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); err == nil || code != 2 || !strings.Contains(string(said), test.want) {
			t.Errorf("%s: exit code %d, %v, want 2 and %q:\n%s", name, code, err, test.want, said)
		}
	}
	c.startAgent("n1", "--job-uids", "300000-301999", "--allow-root-jobs")
	c.ready(t, 1)
	for name, test := range map[string]struct {
		task object
		want func(uid int) bool
	}{
		"a job of its own":      {shell(1, "id -u"), func(uid int) bool { return uid >= 300_000 && uid <= 301_999 }},
		"a job of root":         {shell(1, "id -u").with("user", "root"), func(uid int) bool { return uid == 0 }},
		"a job without a fence": {shell(1, "id -u").with("isolation", "none"), func(uid int) bool { return uid >= 300_000 && uid <= 301_999 }},
	} {
		operation := c.start(t, one(test.task))
		c.ends(t, operation, "completed")
		printed := strings.TrimSpace(c.output(t, c.jobs(t, operation)[0].GetId(), "stdout"))
		if uid, err := strconv.Atoi(printed); err != nil || !test.want(uid) {
			t.Errorf("%s runs as %q", name, printed)
		}
	}
}

// nobody is a user of each machine that is not root.
const nobody = 65534
