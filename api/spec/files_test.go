package spec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"weir/messages/statepb"
)

func TestParsePlaceOfJobs(t *testing.T) {
	parsed, err := checked(Read([]byte(task(
		"disk_limit: 2GiB", "isolation: strict", "cpu-enforcement: weight", "pids_limit: 64", "user: 1000", "group: users",
		"file_paths: [/opt/tool, s3://models/v1/m.bin, {source: /opt/x, path: ./bin/x, executable: true}, '/in/{task}/{cookie}.csv', {source: '/in/{operation_id}', path: 'in-{cookie}'}]",
		"output_paths: [{path: out/, destination: '/data/{operation_id}/{task}/{cookie}'}]",
		"gang_options: {}",
	))))
	if err != nil {
		t.Fatal(err)
	}
	want := &statepb.TaskSpec{
		Name: "t", JobCount: 1, Argv: []string{"run"}, CpuLimitHundredths: 100, MemoryLimit: 512 << 20, Memory: plainMemory(),
		DiskLimit: 2 << 30, Isolation: IsolationStrict, CpuEnforcement: "weight", PidsLimit: 64, User: "1000", Group: "users",
		Files: []*statepb.FileSpec{
			{Source: "/opt/tool", Path: "tool"},
			{Source: "s3://models/v1/m.bin", Path: "m.bin"},
			{Source: "/opt/x", Path: "bin/x", Executable: true},
			{Source: "/in/{task}/{cookie}.csv", Path: "{cookie}.csv"},
			{Source: "/in/{operation_id}", Path: "in-{cookie}"},
		},
		Outputs: []*statepb.KeptFile{{Path: "out", Destination: "/data/{operation_id}/{task}/{cookie}"}},
		Gang:    &statepb.GangSpec{Size: 1},
	}
	if diff := cmp.Diff(want, parsed.Spec.GetTasks()[0], protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// jobs returns a spec in YAML with a task of two jobs that has these lines too.
func jobs(lines string) string {
	return "tasks:\n  t:\n    job_count: 2\n    command: [run]\n    " + lines + "\n"
}

func TestPlaceFaults(t *testing.T) {
	checkFaults(t, map[string]faultCase{
		"files that are not named": {task("file_paths: [tool, /opt/, 5, {path: x}, {source: /x, path: /x}]"), []string{
			`line 5, column 18: tasks.t.file_paths[0].source: "tool" does not begin with /: write the whole path, as every node sees it, or s3://bucket/key`,
			`line 5, column 24: tasks.t.file_paths[1]: "/opt/" names a folder: jobs can be given only files, such as an archive of it`,
			`line 5, column 31: tasks.t.file_paths[2]: is the number 5, not an object of options`,
			`line 5, column 34: tasks.t.file_paths[3].source: it is missing: write a path that every node sees, or s3://bucket/key`,
			`line 5, column 64: tasks.t.file_paths[4].path: "/x" begins at the root: write a path within the workspace, such as "x"`,
		}},
		"files with names that are none": {task("file_paths: ['/in/{job}', '/in/{cookie', {source: '/in/{job_id}', path: x}, {source: /in/x, path: '{cookies}'}, '/a/{cookie}', '/b/{cookie}']"), []string{
			`line 5, column 18: tasks.t.file_paths[0].source: "/in/{job}": { must be followed by one of operation_id, task, cookie, and }`,
			`line 5, column 31: tasks.t.file_paths[1].source: "/in/{cookie": { must be followed by one of operation_id, task, cookie, and }`,
			`line 5, column 55: tasks.t.file_paths[2].source: "/in/{job_id}": { must be followed by one of operation_id, task, cookie, and }`,
			`line 5, column 103: tasks.t.file_paths[3].path: "{cookies}": { must be followed by one of operation_id, task, cookie, and }`,
			`line 5, column 132: tasks.t.file_paths[5]: "{cookie}" is also the path of "/a/{cookie}": give one of them another path`,
		}},
		"two files of one path": {task("file_paths: [/a/x, /b/x, {source: /c, path: x/c}]"), []string{
			`line 5, column 24: tasks.t.file_paths[1]: "x" is also the path of "/a/x": give one of them another path`,
			`line 5, column 30: tasks.t.file_paths[2]: "x/c" and "x" overlap: a path cannot be both a file and a folder`,
		}},
		"a file in a tmpfs": {task("tmpfs_path: a", "file_paths: [{source: /x, path: a/x}]"),
			[]string{`line 6, column 18: tasks.t.file_paths[0]: "a/x" and the tmpfs "a" overlap: files are on disk, so choose a path outside the tmpfs`}},
		"stores that are none": {task("file_paths: [gs://data/x, s3://No/x, s3://data]"), []string{
			`line 5, column 18: tasks.t.file_paths[0].source: "gs://data/x": only s3:// URLs are supported; name files that every node sees by their path`,
			`line 5, column 31: tasks.t.file_paths[1].source: "s3://No/x": "No" is not a bucket name: it has 3 to 63 lower-case letters, digits, dots and dashes`,
			`line 5, column 42: tasks.t.file_paths[2].source: "s3://data" names only a bucket: add a key, such as s3://data/data/`,
		}},
		"one destination for all jobs": {jobs("output_paths: [{path: x, destination: /data/x}]"),
			[]string{`line 5, column 43: tasks.t.output_paths[0].destination: "/data/x" is the same for all 2 jobs: add {cookie} to it`}},
		"one destination for two files": {task("output_paths: [{path: x, destination: /d}, {path: y, destination: /d}]"),
			[]string{`line 5, column 71: tasks.t.output_paths[1].destination: "/d" is used twice: one file would replace the other`}},
		"one destination for two tasks": {task("output_paths: [{path: x, destination: '/d/{cookie}'}]") +
			"  u: {job_count: 1, command: [x], output_paths: [{path: y, destination: '/d/{cookie}'}]}\n",
			[]string{`line 2, column 3: tasks: t and u both keep a file at "/d/{cookie}", where one would replace the other: add {task} to it`}},
		"destinations that cannot be": {task(`output_paths: [{path: x, destination: "/a/{job}"}, {path: y, destination: "/a/{cookie"}, {path: z, destination: /a/}, {path: z}]`), []string{
			`line 5, column 43: tasks.t.output_paths[0].destination: "/a/{job}": { must be followed by one of operation_id, task, cookie, job_id, and }`,
			`line 5, column 79: tasks.t.output_paths[1].destination: "/a/{cookie": { must be followed by one of operation_id, task, cookie, job_id, and }`,
			`line 5, column 117: tasks.t.output_paths[2].destination: "/a/" ends with a slash: write the path that "z" gets`,
			`line 5, column 123: tasks.t.output_paths[3].destination: it is missing: write the path or s3:// URL at which it is kept`,
		}},
		"a disk of nothing": {task("disk_limit: 0"), []string{`line 5, column 17: tasks.t.disk_limit: 0 is too little: the minimum is 1MiB`}},
		"isolation": {task("isolation: paranoid", "cpu_enforcement: hard", "pids_limit: 0"), []string{
			`line 5, column 16: tasks.t.isolation: "paranoid" is not one of none, default, strict`,
			`line 6, column 22: tasks.t.cpu_enforcement: "hard" is not one of quota, weight`,
			`line 7, column 17: tasks.t.pids_limit: 0 is not a number from 1 to 4194304`,
		}},
		"users": {task("user: Root", "group: -1"), []string{
			`line 5, column 11: tasks.t.user: "Root" is not a user or group: write a name of lower-case letters, digits, - and _, or a number from 0 to 4294967294`,
			`line 6, column 12: tasks.t.group: "-1" is not a user or group: write a name of lower-case letters, digits, - and _, or a number from 0 to 4294967294`,
		}},
		"a user of a job that is not isolated": {task("isolation: none", "user: nobody"),
			[]string{`line 6, column 11: tasks.t.user: it has no effect with isolation: none: leave one of them out`}},
		"root, strictly isolated": {task("isolation: strict", "user: 0"),
			[]string{`line 6, column 11: tasks.t.user: with isolation: strict no job can be root: name another user, or leave it out`}},
		"a gang larger than its task":   {task("gang_options: {size: 2}"), []string{`line 5, column 26: tasks.t.gang_options.size: 2 is more than job_count, 1`}},
		"a gang that is too large":      {strings.Replace(jobs("gang_options: {}"), "job_count: 2", "job_count: 10001", 1), []string{`line 5, column 19: tasks.t.gang_options: a gang of 10001 jobs: at most 10000 can start together`}},
		"a gang that is never done":     {task("gang_options: {}", "restart_completed_jobs: true"), []string{`line 5, column 19: tasks.t.gang_options: cannot be combined with restart_completed_jobs, since a gang is done once all its ranks have completed: remove one of the two options`}},
		"an unknown option of a gang":   {task("gang_options: {sise: 2}"), []string{`line 5, column 20: tasks.t.gang_options.sise: unknown option; did you mean size?`}},
		"a gang that is said by a word": {task("gang_options: yes"), []string{`line 5, column 19: tasks.t.gang_options: is the text "yes", not an object of options`}},
	})
}

func TestSetOfNestedOptions(t *testing.T) {
	got, err := parseWith(jobs("gang-options: {size: 1}"), "tasks.t.gang-options.size=2", "tasks.t.job-proxy-memory-digest.upper-bound=3", "no-memory-profile=true")
	if err != nil {
		t.Fatal(err)
	}
	if in := got.Spec.GetTasks()[0]; in.GetGang().GetSize() != 2 || in.GetMemory().GetProxyUpperBound() != 3 || !got.Spec.GetNoMemoryProfile() {
		t.Errorf("spec %v", got.Spec)
	}
}
