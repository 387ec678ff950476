package agent

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/agent/filecache"
	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
	"weir/messages/actorpb"
	"weir/messages/statepb"
)

// fullSpec has every field set.
func fullSpec() *actorpb.JobSpec {
	return &actorpb.JobSpec{
		JobId: "j", Shell: "sort", Environment: map[string]string{"A": "b"}, CpuLimitHundredths: 150, MemoryLimit: 9, JobTimeLimitMillis: 1500,
		MemoryReserve: 5, JobProxyMemoryReserve: 6, Tmpfs: []*statepb.Tmpfs{{Path: "tmp", Size: 3}}, DiskLimit: 7, Isolation: "strict",
		CpuEnforcement: "weight", PidsLimit: 20, User: "u", Group: "g", GpuLimit: 2,
		Files:   []*actorpb.JobFile{{Source: "/s", Path: "p", Executable: true}},
		Outputs: []*statepb.KeptFile{{Path: "out", Destination: "/d"}},
		Feed: &actorpb.JobFeed{Format: "lines", MaxRecordBytes: 100, Output: "/o/part-0", OutputPart: "part-0", Parts: []*actorpb.FeedPart{
			{Slice: &statepb.Slice{File: 4, Begin: 10, End: 20}, Source: "/in", File: &statepb.InputFile{Path: "/in", Size: 30, ModifiedTime: timestamppb.New(epoch)}},
			{Slice: &statepb.Slice{File: 5, Begin: 0, End: 9}, Source: "https://store/b?sig", File: &statepb.InputFile{Path: "s3://b", Size: 9, Version: "v1"}},
		}},
	}
}

func TestJobSpecOfANode(t *testing.T) {
	order := startOrder("j")
	order.Ports = []int32{21000}
	j := NewJob(epoch, order)
	j.Equip(epoch, []int{0, 2}, nil)
	j.Next()
	j.Answered(epoch, fullSpec())
	got := j.Spec(3*time.Second, &Config{MaxPids: 77, Host: "host1", JobUser: "nobody"})
	want := runner.JobSpec{
		ID: "j", Shell: "sort", Environment: map[string]string{"A": "b", "WEIR_HOST": "host1", "WEIR_PORTS": "1", "WEIR_PORT_0": "21000", "WEIR_GPUS": "0,2"},
		Isolation: "strict", User: "u", Group: "g", CPULimit: 1.5, CPUEnforcement: "weight", MemoryLimit: 9, MemoryReserve: 5, ProxyMemoryReserve: 6,
		PidsLimit: 20, DiskLimit: 7, Tmpfs: []proxyproto.Tmpfs{{Path: "tmp", Size: 3}}, Outputs: []proxyproto.KeptFile{{Path: "out", Destination: "/d"}},
		TimeLimit: 1500 * time.Millisecond, Lease: 3 * time.Second,
		Feed: &proxyproto.Feed{Format: "lines", MaxRecordBytes: 100, Output: "/o/part-0", Part: "part-0", Parts: []proxyproto.FeedPart{
			{Path: "/in", Name: "/in", Size: 30, ModTime: epoch.UTC(), Begin: 10, End: 20},
			{URL: "https://store/b?sig", Name: "s3://b", Size: 9, Version: "v1", Begin: 0, End: 9},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	files, user, group := j.Files(&Config{JobUser: "nobody"})
	if diff := cmp.Diff([]filecache.File{{Source: "/s", Path: "p", Executable: true}}, files); diff != "" || user != "u" || group != "g" {
		t.Errorf("files for %s:%s (-want +got):\n%s", user, group, diff)
	}
}

func TestJobsAreWhoTheirNodeSays(t *testing.T) {
	for name, test := range map[string]struct{ spec, group, node, wantUser, wantGroup string }{
		"nobody in particular":            {},
		"the node's":                      {node: "nobody", wantUser: "nobody"},
		"the node's, in group":            {node: "nobody:12", wantUser: "nobody", wantGroup: "12"},
		"the task's":                      {spec: "7", node: "nobody:12", wantUser: "7"},
		"the node's, in the task's group": {group: "9", node: "nobody:12", wantUser: "nobody", wantGroup: "9"},
	} {
		t.Run(name, func(t *testing.T) {
			j := NewJob(epoch, startOrder("j"))
			j.Next()
			j.Answered(epoch, &actorpb.JobSpec{JobId: "j", User: test.spec, Group: test.group})
			got := j.Spec(time.Second, &Config{MaxPids: 9, JobUser: test.node})
			if got.User != test.wantUser || got.Group != test.wantGroup || got.PidsLimit != 9 {
				t.Errorf("user %q, group %q, %d processes", got.User, got.Group, got.PidsLimit)
			}
		})
	}
}

// TestNoJobIsRootWhereTheNodeSaysSo (T2): jobs that are root, or as good as root, need --allow-root-jobs.
func TestNoJobIsRootWhereTheNodeSaysSo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	const refused = "its agent has no --allow-root-jobs"
	for name, test := range map[string]struct {
		node, user, group, want string
		allow                   bool
	}{
		"root":                                 {user: "root", want: refused},
		"root, by its number":                  {user: "0", group: "12", want: refused},
		"root, where all jobs are nobody":      {node: "nobody", user: "root", want: refused},
		"the group of root":                    {user: "7", group: "root", want: refused},
		"the group of root, and no user":       {group: "0", want: refused},
		"a group that reads disks":             {user: "7", group: "disk", want: `group disk is as good as root`},
		"a group that reads disks, and nobody": {group: "disk", want: `group disk is as good as root`},
		"by its number":                        {user: "7", group: "42", want: `group shadow is as good as root`},
		"a job's own user":                     {user: "200007", want: "is one of the ids 200000-265535"},
		"a job's own user, where root may":     {user: "200007", want: "is one of the ids 200000-265535", allow: true},
		"another":                              {user: "7", group: "12"},
		"nobody in particular":                 {},
		"nobody in particular, in a group":     {group: "12"},
		"the node's":                           {node: "nobody", user: "nobody"},
		"root, where root may":                 {user: "root", allow: true},
		"a group, where root may":              {user: "7", group: "disk", allow: true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{JobUser: test.node, JobUIDs: runner.DefaultUIDs, AllowRootJobs: test.allow}
			_, err := cfg.users().Find(test.user, test.group)
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestInputOfAJob(t *testing.T) {
	slice := func(file int32, begin, end int64) *statepb.Slice {
		return &statepb.Slice{File: file, Begin: begin, End: end}
	}
	feed := fullSpec().GetFeed()
	tests := map[string]struct {
		rest                    *proxyproto.FeedPosition
		wantProcessed, wantRest []*statepb.Slice
	}{
		"all of it":                 {nil, []*statepb.Slice{slice(4, 10, 20), slice(5, 0, 9)}, nil},
		"nothing":                   {&proxyproto.FeedPosition{Part: 0, Offset: 10}, nil, []*statepb.Slice{slice(4, 10, 20), slice(5, 0, 9)}},
		"a part of the first":       {&proxyproto.FeedPosition{Part: 0, Offset: 13}, []*statepb.Slice{slice(4, 10, 13)}, []*statepb.Slice{slice(4, 13, 20), slice(5, 0, 9)}},
		"the first":                 {&proxyproto.FeedPosition{Part: 1, Offset: 0}, []*statepb.Slice{slice(4, 10, 20)}, []*statepb.Slice{slice(5, 0, 9)}},
		"a part of the second":      {&proxyproto.FeedPosition{Part: 1, Offset: 8}, []*statepb.Slice{slice(4, 10, 20), slice(5, 0, 8)}, []*statepb.Slice{slice(5, 8, 9)}},
		"a record across the end":   {&proxyproto.FeedPosition{Part: 1, Offset: 12}, []*statepb.Slice{slice(4, 10, 20), slice(5, 0, 9)}, nil},
		"a place before the slices": {&proxyproto.FeedPosition{Part: 0, Offset: 2}, nil, []*statepb.Slice{slice(4, 10, 20), slice(5, 0, 9)}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := inputOf(feed, &proxyproto.InputCount{Rows: 3, Bytes: 40, Hash: 5, Rest: test.rest})
			want := &statepb.JobInput{Processed: test.wantProcessed, Rest: test.wantRest, Rows: 3, Bytes: 40, Hash: 5}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("input (-want +got):\n%s", diff)
			}
		})
	}
	if inputOf(nil, &proxyproto.InputCount{}) != nil || inputOf(feed, nil) != nil || outputOf(nil) != nil {
		t.Error("a job that was not fed has an input, or an output")
	}
	if got := outputOf(&proxyproto.OutputCount{Part: "part-0", Rows: 2, Bytes: 9}); got.GetPart() != "part-0" || got.GetRows() != 2 || got.GetBytes() != 9 {
		t.Errorf("output %v", got)
	}
}
