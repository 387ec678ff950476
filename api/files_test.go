package api

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/cluster/storage"
	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/access"
)

// TestFilesOfJobs reads files of a job that runs, and then what was kept of it: a node is told where that is, and as whom it is read.
func TestFilesOfJobs(t *testing.T) {
	for name, test := range map[string]struct {
		body string
		// state is how the job ended; empty: it runs. refused is the code of the node's answer, fault the answer of the
		// object store.
		state, refused string
		fault          error
		// wantAsked is what the node was asked for: path, kept, user; wantCode the code of an error, wantText in the answer.
		wantAsked, wantCode, wantText string
	}{
		"a file":                  {body: `"path": "a/b"`, wantAsked: "a/b,,", wantText: `"size":"7"`},
		"the workspace":           {body: ``, wantAsked: ",,", wantText: `"mode":"-rw-r--r--"`},
		"no such file":            {body: `"path": "x"`, refused: actorpb.CodeNotFound, wantAsked: "x,,", wantCode: apipb.CodeNoSuchFile, wantText: "the node's reason"},
		"a bad file":              {body: `"path": "x"`, refused: actorpb.CodeBadRequest, wantAsked: "x,,", wantCode: apipb.CodeInvalidArgument, wantText: "the node's reason"},
		"no answer":               {body: `"path": "x"`, refused: actorpb.CodeUnavailable, wantAsked: "x,,", wantCode: "unavailable", wantText: "the node's reason"},
		"a negative offset":       {body: `"offset": -1`, wantCode: apipb.CodeInvalidArgument, wantText: "negative"},
		"a long path":             {body: `"path": "` + strings.Repeat("x", 5000) + `"`, wantCode: apipb.CodeInvalidArgument, wantText: "the limit is 4096"},
		"a zero byte":             {body: `"path": "x\u0000"`, wantCode: apipb.CodeInvalidArgument, wantText: "zero byte"},
		"of a job that has ended": {body: `"path": "x"`, state: "completed", wantCode: apipb.CodeJobEnded, wantText: "its files are gone"},
		"kept, while it runs":     {body: `"kept": true`, wantCode: apipb.CodeNoSuchFile, wantText: "of jobs that complete"},
		"kept of a failed job":    {body: `"kept": true`, state: "failed", wantCode: apipb.CodeNoSuchFile, wantText: "of jobs that complete"},
		"what was kept":           {body: `"kept": true`, state: "completed", wantText: `"link":"/shared/t-0"`},
		"a kept file":             {body: `"kept": true, "path": "model"`, state: "completed", wantAsked: ",/shared/t-0,build"},
		"below a kept folder":     {body: `"kept": true, "path": "./out/a/b"`, state: "completed", wantAsked: "a/b,/shared/j1,build"},
		"a kept object":           {body: `"kept": true, "path": "object", "offset": 3`, state: "completed", wantAsked: "s3://bucket/j1 3 131072", wantText: `"next_offset":"7"`},
		"below a kept object":     {body: `"kept": true, "path": "object/x"`, state: "completed", wantCode: apipb.CodeNoSuchFile, wantText: "s3://bucket/j1, with nothing below it"},
		"an object that is gone":  {body: `"kept": true, "path": "object"`, state: "completed", fault: storage.ErrNoObject, wantAsked: "s3://bucket/j1 0 131072", wantCode: apipb.CodeNoSuchFile, wantText: "no such object"},
		"a store that is down":    {body: `"kept": true, "path": "object"`, state: "completed", fault: storage.ErrUnavailable, wantAsked: "s3://bucket/j1 0 131072", wantCode: apipb.CodeUnavailable, wantText: "object store failing"},
		"a store that denies it":  {body: `"kept": true, "path": "object"`, state: "completed", fault: errors.New("access denied"), wantAsked: "s3://bucket/j1 0 131072", wantCode: apipb.CodeNoSuchFile, wantText: "access denied"},
		"a store taken away":      {body: `"kept": true, "path": "object"`, state: "completed", fault: &access.Denied{User: "ann", What: "use store x"}, wantAsked: "s3://bucket/j1 0 131072", wantCode: apipb.CodePermissionDenied, wantText: "may not use store x"},
		"not kept":                {body: `"kept": true, "path": "modelled"`, state: "completed", wantCode: apipb.CodeNoSuchFile, wantText: "none of the output_paths"},
		"out of what was kept":    {body: `"kept": true, "path": "out/../../x"`, state: "completed", wantCode: apipb.CodeNoSuchFile, wantText: "none of the output_paths"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			operation := s.runAs(`{"spec": {"pool": "ads", "tasks": {"t": {"job_count": 1, "command": ["x"], "memory_limit": "1MiB", "user": "build", "output_paths": [
				{"path": "model", "destination": "/shared/{task}-{cookie}"}, {"path": "out", "destination": "/shared/{job_id}"},
				{"path": "object", "destination": "s3://bucket/{job_id}"}]}}}}`, 1, "j1")
			if test.state != "" {
				s.must(&commandpb.FinishJobs{OperationId: operation, Epoch: 1, Jobs: []*statepb.FinishedJob{{JobId: "j1", State: test.state, Pid: 42, Statistics: &statepb.JobStatistics{}}}})
			}
			asked := ""
			s.file = func(m *actorpb.ReadFile) (*actorpb.FilePart, error) {
				if m.GetNode() != "n1" || m.GetJobId() != "j1" {
					t.Errorf("asked for %v", m)
				}
				asked = strings.Join([]string{m.GetPath(), m.GetKept(), m.GetUser()}, ",")
				if test.refused != "" {
					return nil, &actorpb.Refused{Code: test.refused, Reason: "the node's reason"}
				}
				return &actorpb.FilePart{Size: 7, Entries: []*actorpb.FileEntry{{Name: "f", Mode: "-rw-r--r--", Modified: timestamppb.Now()}}}, nil
			}
			s.object = func(of, path string, offset, limit int64) ([]byte, int64, error) {
				if of != operation {
					t.Errorf("asked for operation %s, want %s", of, operation)
				}
				asked = fmt.Sprint(path, " ", offset, " ", limit)
				return []byte("data"), 7, test.fault
			}
			got := s.post("JobService/File", strings.TrimSuffix(`{"job_id": "j1", `+test.body, ", ")+"}")
			if asked != test.wantAsked || got.header.Get(apipb.HeaderCode) != test.wantCode || !strings.Contains(strings.ReplaceAll(got.raw, `": `, `":`), test.wantText) {
				t.Errorf("asked for %q, got %s %s, want %q, %s with %q", asked, got.header.Get(apipb.HeaderCode), got.raw, test.wantAsked, test.wantCode, test.wantText)
			}
		})
	}
}
