package spec

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"weir/messages/statepb"
)

// Settings are completed in the order of J.1.2.
func TestMemoryIsCompleted(t *testing.T) {
	with := func(change func(*statepb.MemorySpec)) *statepb.MemorySpec {
		m := plainMemory()
		change(m)
		return m
	}
	for name, test := range map[string]struct {
		spec      string
		want      *statepb.MemorySpec
		wantTmpfs []*statepb.Tmpfs
	}{
		"nothing said": {spec: task(), want: plainMemory()},
		"one factor sets both numbers": {
			spec: task("memory_reserve_factor: 0.8"),
			want: with(func(m *statepb.MemorySpec) { m.DigestDefaultValue, m.DigestLowerBound = 0.8, 0.8 }),
		},
		"and overrides them": {
			spec: task("memory_reserve_factor: 0.3", "user_job_memory_digest_default_value: 0.9", "user_job_memory_digest_lower_bound: 0.8"),
			want: with(func(m *statepb.MemorySpec) { m.DigestDefaultValue, m.DigestLowerBound = 0.3, 0.3 }),
		},
		"the default is no less than the lower bound": {
			spec: task("user_job_memory_digest_lower_bound: 0.7"),
			want: with(func(m *statepb.MemorySpec) { m.DigestDefaultValue, m.DigestLowerBound = 0.7, 0.7 }),
		},
		"a tmpfs raises the lower bound": {
			spec:      task("memory_limit: 100MiB", "tmpfs_path: ./a//b/", "tmpfs_size: 20MiB"),
			want:      with(func(m *statepb.MemorySpec) { m.DigestLowerBound = 0.2 }),
			wantTmpfs: []*statepb.Tmpfs{{Path: "a/b", Size: 20 << 20}},
		},
		"a tmpfs without a size is all of the memory": {
			spec:      task("memory_limit: 100MiB", "tmpfs_path: t"),
			want:      with(func(m *statepb.MemorySpec) { m.DigestDefaultValue, m.DigestLowerBound = 1, 1 }),
			wantTmpfs: []*statepb.Tmpfs{{Path: "t", Size: 100 << 20}},
		},
		"several count by their sum": {
			spec:      task("memory_limit: 100MiB", "tmpfs_volumes: [{path: a, size: 30MiB}, {path: ab, size: 50MiB}]"),
			want:      with(func(m *statepb.MemorySpec) { m.DigestDefaultValue, m.DigestLowerBound = 0.8, 0.8 }),
			wantTmpfs: []*statepb.Tmpfs{{Path: "a", Size: 30 << 20}, {Path: "ab", Size: 50 << 20}},
		},
		"steps after an overdraft, and a profile": {
			spec: task("user_job_resource_overdraft_memory_multiplier: 1.5", "job_proxy_resource_overdraft_memory_multiplier: 2", "memory-profile: ads/nightly.v2"),
			want: with(func(m *statepb.MemorySpec) {
				m.UserOverdraftMultiplier, m.ProxyOverdraftMultiplier, m.Profile = 1.5, 2, "ads/nightly.v2"
			}),
		},
		"the job proxy's, of the operation and of the task": {
			spec: "job_proxy_memory_digest: {upper_bound: 4, lower_bound: 0.25}\n" + task("job-proxy-memory-digest: {default-value: 3}"),
			want: with(func(m *statepb.MemorySpec) { m.ProxyDefaultValue, m.ProxyLowerBound, m.ProxyUpperBound = 3, 0.25, 4 }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := checked(Read([]byte(test.spec)))
			if err != nil {
				t.Fatal(err)
			}
			got := parsed.Spec.GetTasks()[0]
			if diff := cmp.Diff(test.want, got.GetMemory(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.wantTmpfs, got.GetTmpfs(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMemoryFaults(t *testing.T) {
	checkFaults(t, map[string]faultCase{
		"factors": {task("memory_reserve_factor: 0", "user_job_memory_digest_default_value: 1.01", "user_job_memory_digest_lower_bound: -0.1"), []string{
			`line 5, column 28: tasks.t.memory_reserve_factor: 0 is not a number above 0 and at most 1`,
			`line 6, column 43: tasks.t.user_job_memory_digest_default_value: 1.01 is not a number above 0 and at most 1`,
			`line 7, column 41: tasks.t.user_job_memory_digest_lower_bound: -0.1 is not a number above 0 and at most 1`,
		}},
		"a factor in words": {task(`memory_reserve_factor: "0.5"`), []string{`line 5, column 28: tasks.t.memory_reserve_factor: is the text "0.5", not a number`}},
		"multipliers": {task("user_job_resource_overdraft_memory_multiplier: 0.5", "job_proxy_resource_overdraft_memory_multiplier: 11"), []string{
			`line 5, column 52: tasks.t.user_job_resource_overdraft_memory_multiplier: 0.5 is not a number from 1 to 10`,
			`line 6, column 53: tasks.t.job_proxy_resource_overdraft_memory_multiplier: 11 is not a number from 1 to 10`,
		}},
		"a proxy's bounds in the wrong order": {task("job_proxy_memory_digest: {lower_bound: 3}"),
			[]string{`line 5, column 30: tasks.t.job_proxy_memory_digest: lower_bound 3 is above upper_bound 2: reduce lower_bound`}},
		"a proxy's default beyond its bounds": {task("job_proxy_memory_digest: {lower_bound: 1.5}"),
			[]string{`line 5, column 30: tasks.t.job_proxy_memory_digest: default_value 1 is not between lower_bound 1.5 and upper_bound 2: change them; the values if not set are 1, 0.5 and 2`}},
		"an unknown setting of a proxy": {task("job_proxy_memory_digest: {upper: 2}"),
			[]string{`line 5, column 31: tasks.t.job_proxy_memory_digest.upper: unknown option: use one of default_value, lower_bound, upper_bound`}},
		"profiles":         {task("memory_profile: 'a b'"), []string{`line 5, column 21: tasks.t.memory_profile: "a b": use letters and digits, and after the first character also . _ - /`}},
		"an empty profile": {task("memory_profile: ''"), []string{`line 5, column 21: tasks.t.memory_profile: it is empty: leave it out to share the profile of tasks with the same name, command and isolation`}},
		"tmpfs above the memory": {task("memory_limit: 100MiB", "tmpfs_path: t", "tmpfs_size: 101MiB"),
			[]string{`line 7, column 17: tasks.t.tmpfs_size: 101MiB is more than memory_limit, 100MiB, but its content counts as the job's memory: reduce it, or raise memory_limit`}},
		"tmpfs above the memory together": {task("memory_limit: 100MiB", "tmpfs_volumes: [{path: a, size: 60MiB}, {path: b, size: 60MiB}]"),
			[]string{`line 6, column 20: tasks.t.tmpfs_volumes: 120MiB is more than memory_limit, 100MiB, but its content counts as the job's memory: reduce it, or raise memory_limit`}},
		"tmpfs in two ways": {task("tmpfs_path: t", "tmpfs_volumes: []"),
			[]string{`line 6, column 20: tasks.t.tmpfs_volumes: tmpfs_path or tmpfs_size is set too: list all file systems here`}},
		"a size of no tmpfs": {task("tmpfs_size: 1MiB"), []string{`line 5, column 17: tasks.t.tmpfs_size: it has no effect without tmpfs_path: add tmpfs_path, a path in the workspace`}},
		"volumes that are none": {task("tmpfs_volumes: [t, {path: a}, {size: 1MiB}]"), []string{
			`line 5, column 21: tasks.t.tmpfs_volumes[0]: is the text "t", not an object of options`,
			`line 5, column 24: tasks.t.tmpfs_volumes[1].size: it is missing: write the size limit`,
			`line 5, column 35: tasks.t.tmpfs_volumes[2].path: it is missing: a path within the workspace is needed`,
		}},
		"a tmpfs in another": {task("tmpfs_volumes: [{path: a/b, size: 1MiB}, {path: a, size: 1MiB}]"),
			[]string{`line 5, column 20: tasks.t.tmpfs_volumes: "a/b" and "a" overlap: neither path may be inside the other`}},
		"a tmpfs elsewhere": {task("tmpfs_volumes: [{path: /tmp, size: 1MiB}, {path: ../a, size: 1MiB}, {path: a/.., size: 1MiB}]"), []string{
			`line 5, column 28: tasks.t.tmpfs_volumes[0].path: "/tmp" begins at the root: write a path within the workspace, such as "tmp"`,
			`line 5, column 54: tasks.t.tmpfs_volumes[1].path: "../a" leads out of the workspace: write a path within it`,
			`line 5, column 80: tasks.t.tmpfs_volumes[2].path: "a/.." is the workspace itself: write a path within it, such as "data"`,
		}},
	})
}
