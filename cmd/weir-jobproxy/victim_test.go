package main

import (
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

func TestVictims(t *testing.T) {
	chosen := func(group, task, pid string) string {
		return "6,5814,11788340686,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=" + group +
			",task_memcg=" + group + ",task=" + task + ",pid=" + pid + ",uid=0\n"
	}
	killed := func(name, pid string) string {
		return "3,5815,11788340723,-;Memory cgroup out of memory: Killed process " + pid + " (" + name +
			") total-vm:1293180kB, anon-rss:65152kB, file-rss:1848kB, shmem-rss:24kB, UID:0 pgtables:220kB oom_score_adj:0\n"
	}
	const own = "/box/weir-n1/job"
	bytes := int64(65152+1848+24) << 10
	tests := map[string]struct {
		records []string
		want    []proxyproto.ProcessMemory
	}{
		"the job's":                            {[]string{"6,1,1,-;usb 1-1: hello\n", chosen(own, "sort", "442"), killed("sort", "442")}, []proxyproto.ProcessMemory{{Pid: 442, Name: "sort", Bytes: bytes}}},
		"seen from another namespace":          {[]string{chosen("/weir-n1/job", "sort", "442"), killed("sort", "442")}, []proxyproto.ProcessMemory{{Pid: 442, Name: "sort", Bytes: bytes}}},
		"in a group that the job made":         {[]string{chosen(own+"/inner", "sort", "442"), killed("sort", "442")}, []proxyproto.ProcessMemory{{Pid: 442, Name: "sort", Bytes: bytes}}},
		"another job's":                        {[]string{chosen("/box/weir-n1/job2", "sort", "442"), killed("sort", "442")}, nil},
		"a job of the same id, another node's": {[]string{chosen("/box/weir-n2/job", "sort", "442"), killed("sort", "442")}, nil},
		"a kill that says no group":            {[]string{killed("sort", "442")}, nil},
		"a name of any characters":             {[]string{chosen(own, "a,pid=1) (", "442"), killed("a,pid=1) (", "442")}, []proxyproto.ProcessMemory{{Pid: 442, Name: "a,pid=1) (", Bytes: bytes}}},
		"two of them":                          {[]string{chosen(own, "a", "1"), killed("a", "1"), chosen(own, "b", "2"), killed("b", "2")}, []proxyproto.ProcessMemory{{Pid: 1, Name: "a", Bytes: bytes}, {Pid: 2, Name: "b", Bytes: bytes}}},
	}
	places := map[string]proxyproto.Placement{
		"v2":     {Unified: "/sys/fs/cgroup/box/weir-n1/job"},
		"hybrid": {Unified: "/sys/fs/cgroup/unified/weir-n1/job-of-v2", Memory: "/sys/fs/cgroup/memory/weir-n1/job"},
	}
	for name, test := range tests {
		for kind, place := range places {
			v := newVictims(place)
			for _, record := range test.records {
				v.take(record)
			}
			if !slices.Equal(v.list, test.want) {
				t.Errorf("%s, %s: got %+v, want %+v", name, kind, v.list, test.want)
			}
		}
	}
}

func TestKernelLog(t *testing.T) {
	const record = "6,1,1,-;usb 1-1: hello\n"
	type answer struct {
		times int
		err   error
	}
	tests := map[string]struct {
		// answers of the log, by turns; then there is no more.
		answers []answer
		wantErr error
	}{
		"empty":                           {},
		"a log that ends":                 {answers: []answer{{times: 5}, {times: 1}}},
		"records are lost on the way":     {answers: []answer{{2, unix.EPIPE}, {times: 1}, {1, unix.EINTR}, {mostLost - 1, unix.EINVAL}, {times: 1}, {mostLost - 1, unix.EPIPE}, {times: 1}}},
		"a log that never gives a record": {answers: []answer{{times: 1}, {10 * mostLost, unix.EINVAL}}, wantErr: unix.EINVAL},
		"a log that always runs ahead":    {answers: []answer{{10 * mostLost, unix.EPIPE}}, wantErr: unix.EPIPE},
		"a log that breaks":               {answers: []answer{{times: 1}, {1, unix.EIO}}, wantErr: unix.EIO},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var all []error
			for _, a := range test.answers {
				all = append(all, slices.Repeat([]error{a.err}, a.times)...)
			}
			reads := 0
			err := newVictims(proxyproto.Placement{}).takeAll(func(p []byte) (int, error) {
				if reads++; reads > len(all) {
					return 0, unix.EAGAIN
				}
				return copy(p, record), all[reads-1]
			})
			if !errors.Is(err, test.wantErr) || reads > len(all)+1 || err == nil && reads <= len(all) {
				t.Errorf("%v after %d reads of %d, want %v", err, reads, len(all), test.wantErr)
			}
		})
	}
}

// TestCulprits: a root process has the memory of a child that it has waited for, and is not
// taken for who was killed where the kernel tells who that was.
func TestCulprits(t *testing.T) {
	p := func(pid int, bytes int64) []proxyproto.ProcessMemory {
		return []proxyproto.ProcessMemory{{Pid: pid, Bytes: bytes}}
	}
	tests := map[string]struct{ seen, killed, want []proxyproto.ProcessMemory }{
		"its child was killed, and nobody seen": {killed: p(2, 99), want: p(2, 99)},
		"nobody tells, and it held the most":    {seen: p(2, 5), want: p(1, 100)},
		"nobody tells, and another held more":   {seen: p(2, 100), want: p(2, 100)},
	}
	for name, test := range tests {
		if got := culprits(test.seen, test.killed, p(1, 100)[0]); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

func TestMerge(t *testing.T) {
	p := func(pid int, bytes int64) proxyproto.ProcessMemory {
		return proxyproto.ProcessMemory{Pid: pid, Bytes: bytes}
	}
	tests := map[string]struct{ seen, more, want []proxyproto.ProcessMemory }{
		"nobody":                    {},
		"one who was not seen":      {seen: []proxyproto.ProcessMemory{p(1, 5)}, more: []proxyproto.ProcessMemory{p(2, 9)}, want: []proxyproto.ProcessMemory{p(2, 9), p(1, 5)}},
		"one who grew since":        {seen: []proxyproto.ProcessMemory{p(1, 5), p(2, 3)}, more: []proxyproto.ProcessMemory{p(2, 9)}, want: []proxyproto.ProcessMemory{p(2, 9), p(1, 5)}},
		"one who was bigger before": {seen: []proxyproto.ProcessMemory{p(2, 9)}, more: []proxyproto.ProcessMemory{p(2, 1)}, want: []proxyproto.ProcessMemory{p(2, 9)}},
		"more than are to be named": {seen: []proxyproto.ProcessMemory{p(1, 6), p(2, 5), p(3, 4), p(4, 3), p(5, 2)}, more: []proxyproto.ProcessMemory{p(6, 7)},
			want: []proxyproto.ProcessMemory{p(6, 7), p(1, 6), p(2, 5), p(3, 4), p(4, 3)}},
	}
	for name, test := range tests {
		if got := merge(test.seen, test.more); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}
