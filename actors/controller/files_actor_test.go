package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir/cluster/storage"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// FileSource implements Storage.
func (s *shelf) FileSource(_ context.Context, path string) (string, error) {
	if strings.HasPrefix(path, "/secret/") {
		return "", fmt.Errorf("file %s: %w", path, storage.ErrForbidden)
	}
	return strings.Replace(path, "s3://", "https://store/get/", 1), s.placing
}

// FileDestination implements Storage.
func (s *shelf) FileDestination(_ context.Context, path string) (string, error) {
	if strings.HasPrefix(path, "/secret/") {
		return "", fmt.Errorf("output %s: %w", path, storage.ErrForbidden)
	}
	return strings.Replace(path, "s3://", "https://store/put/", 1), s.placing
}

// withFiles is an operation whose job finds a file, and keeps one.
func withFiles(state, source, destination string) func(*stage) {
	return func(s *stage) {
		s.operation, s.running = sortOperation(state), []string{"a"}
		task := s.operation.GetSpec().GetTasks()[0]
		task.Files = []*statepb.FileSpec{{Source: source, Path: "dictionary", Executable: true}}
		task.Outputs = []*statepb.KeptFile{{Path: "result", Destination: destination}}
	}
}

func TestFilesArePlaced(t *testing.T) {
	for story, test := range map[string]struct {
		source, destination         string
		wantSource, wantDestination string
	}{
		"on paths that nodes see": {"/shared/words", "/shared/{task}/{cookie}", "/shared/words", "/shared/sort/0"},
		"in a store":              {"s3://data/words", "s3://data/{operation_id}-{job_id}", "https://store/get/data/words", "https://store/put/data/op-a"},
	} {
		t.Run(story, func(t *testing.T) {
			perform(t, withFiles("running", test.source, test.destination), func(s *stage) {
				s.say("mine", &actorpb.JobSpecRequest{Node: "n1", OperationId: "op", JobId: "a"})
				s.want("mine: spec r1:1")
				spec := s.spec
				if len(spec.GetFiles()) != 1 || spec.GetFiles()[0].GetSource() != test.wantSource || spec.GetFiles()[0].GetPath() != "dictionary" || !spec.GetFiles()[0].GetExecutable() {
					t.Errorf("finds %v, want %s", spec.GetFiles(), test.wantSource)
				}
				if len(spec.GetOutputs()) != 1 || spec.GetOutputs()[0].GetDestination() != test.wantDestination || spec.GetOutputs()[0].GetPath() != "result" {
					t.Errorf("keeps %v, want %s", spec.GetOutputs(), test.wantDestination)
				}
				s.shelf.placing = storage.ErrUnavailable
				s.say("later", &actorpb.JobSpecRequest{Node: "n1", OperationId: "op", JobId: "a"})
				s.want("later: refuse unavailable")
			})
		})
	}
}

func TestFilesAreCheckedFirst(t *testing.T) {
	for story, test := range map[string]struct {
		source, destination string
		placing             error
		wantError           string
	}{
		"files that jobs may have":         {"/shared/words", "/shared/result", nil, ""},
		"a file that they may not":         {"/secret/words", "/shared/result", nil, "file /secret/words"},
		"an output that they may not":      {"/shared/words", "/secret/{cookie}", nil, "output /secret/{cookie}"},
		"a store that does not answer now": {"s3://data/words", "s3://data/result", storage.ErrUnavailable, ""},
		"a store without credentials":      {"s3://data/words", "s3://data/result", errors.New("no credentials"), "no credentials"},
	} {
		t.Run(story, func(t *testing.T) {
			perform(t, func(s *stage) {
				withFiles("initializing", test.source, test.destination)(s)
				s.shelf.placing = test.placing
			}, func(s *stage) {
				s.want("propose PrepareOperation")
				got := s.commands[0].(*commandpb.PrepareOperation).GetError()
				if test.wantError == "" && got != nil || !strings.Contains(got.GetMessage(), test.wantError) {
					t.Errorf("prepared with %v, want %q", got, test.wantError)
				}
			})
		})
	}
}
