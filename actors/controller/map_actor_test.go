package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/cluster/storage"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// shelf is a storage, and the part of the state that is about it.
type shelf struct {
	tell func(string)
	// listing and placing are errors, publishing those of publications to come.
	listing, placing error
	publishing       []error
	// hangs: a publication goes on until it is called off.
	hangs bool

	input    *statepb.Input
	slices   []*statepb.Slice
	parts    []*statepb.CompletedPart
	progress *statepb.InputProgress
	failed   []*statepb.FinishedJob
}

// List implements Storage.
func (s *shelf) List(_ context.Context, paths []string) ([]*statepb.InputFile, error) {
	s.tell("list " + strings.Join(paths, " "))
	return twoFiles().GetFiles(), s.listing
}

// Source implements Storage.
func (s *shelf) Source(_ context.Context, file *statepb.InputFile) (string, error) {
	return "read:" + file.GetPath(), s.placing
}

// Prepare implements Storage.
func (s *shelf) Prepare(_ context.Context, out storage.Output) error {
	s.tell("prepare " + out.Path)
	return nil
}

// Destination implements Storage.
func (s *shelf) Destination(_ context.Context, out storage.Output, part string) (string, error) {
	return "write:" + out.Operation + "/" + part, nil
}

// Publish implements Storage.
func (s *shelf) Publish(ctx context.Context, out storage.Output, parts []storage.Part) error {
	s.tell(fmt.Sprint("publish ", out.Path, parts))
	if s.hangs {
		<-ctx.Done()
		s.tell("called off")
		return ctx.Err()
	}
	if len(s.publishing) == 0 {
		return nil
	}
	err := s.publishing[0]
	s.publishing = s.publishing[1:]
	return err
}

// Input implements InputState.
func (s *stage) Input(string) *statepb.Input { return s.shelf.input }

// Slices implements InputState.
func (s *stage) Slices(string, string, int32) []*statepb.Slice { return s.shelf.slices }

// Parts implements InputState.
func (s *stage) Parts(string, string) []*statepb.CompletedPart { return s.shelf.parts }

// Progress implements InputState.
func (s *stage) Progress(string, string) *statepb.InputProgress { return s.shelf.progress }

// Failed implements InputState.
func (s *stage) Failed(string, string) []*statepb.FinishedJob { return s.shelf.failed }

// onMapStage has a map operation that has two files and one part.
func onMapStage(t *testing.T, state string, set, story func(s *stage)) {
	perform(t, func(s *stage) {
		s.operation = readOperation()
		s.operation.State = state
		s.shelf.input, s.shelf.slices = twoFiles(), []*statepb.Slice{slice(0, 0, 10)}
		s.shelf.parts = []*statepb.CompletedPart{part(0, "p", 4, slice(0, 0, 15), slice(1, 0, 5))}
		s.shelf.progress = &statepb.InputProgress{Bytes: 20, BytesTotal: 20}
		set(s)
	}, story)
}

func nothingElse(*stage) {}

// last returns the command that was proposed last.
func last[T proto.Message](s *stage) (command T) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	command, ok := s.commands[len(s.commands)-1].(T)
	if !ok {
		s.t.Fatalf("proposed %v", s.commands)
	}
	return command
}

func TestInputIsListedAndCut(t *testing.T) {
	onMapStage(t, "initializing", nothingElse, func(s *stage) {
		s.want("list /in/*", "prepare /out", "propose PrepareOperation")
		if in := last[*commandpb.PrepareOperation](s).GetInput(); in.GetBytes() != 20 {
			t.Errorf("input %v", in)
		}
		s.operation.State = "materializing"
		s.look()
		s.answer(&commandpb.Result{}, nil)
		s.want("propose DefineTasks")
		if task := last[*commandpb.DefineTasks](s).GetTasks()[0]; task.GetJobCount() != 2 || len(task.GetSlices()) != 2 {
			t.Errorf("task %v", task)
		}
	})
}

func TestInputThatCannotBeUsed(t *testing.T) {
	for name, set := range map[string]func(*stage){
		"not there":     func(s *stage) { s.shelf.listing = errors.New("no such file") },
		"too many jobs": func(s *stage) { s.operation.Spec.Map.DataSizePerJob = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			onMapStage(t, "initializing", set, func(s *stage) {
				s.want("list /in/*", "propose PrepareOperation")
				if step := last[*commandpb.PrepareOperation](s); step.GetError() == nil || step.GetInput() != nil {
					t.Errorf("step %v", step)
				}
			})
		})
	}
}

func TestOutputIsPublishedOnce(t *testing.T) {
	onMapStage(t, "completing", func(s *stage) { s.running = []string{"a"} }, func(s *stage) {
		// A job is there still.
		s.want()
		s.running = nil
		s.look()
		s.look()
		s.want("publish /out[{p 4}]", "propose PublishOutput")
		if out := last[*commandpb.PublishOutput](s).GetOutput(); out.GetBytes() != 4 {
			t.Errorf("output %v", out)
		}
		s.operation.Output = &statepb.Output{}
		s.answer(&commandpb.Result{}, nil)
		s.look()
		s.want()
	})
}

func TestOutputThatCannotBeYet(t *testing.T) {
	full := errors.New("no space left on device")
	onMapStage(t, "completing", func(s *stage) { s.shelf.publishing = []error{full, full} }, func(s *stage) {
		s.want("publish /out[{p 4}]")
		s.wait(200 * time.Millisecond)
		s.want("publish /out[{p 4}]")
		s.wait(400 * time.Millisecond)
		s.want("publish /out[{p 4}]", "propose PublishOutput")
	})
}

func TestOutputThatCannotBe(t *testing.T) {
	full := errors.New("no space left on device")
	for name, test := range map[string]struct {
		set  func(*stage)
		want string
	}{
		"it exists":            {func(s *stage) { s.shelf.publishing = []error{storage.ErrExists} }, "already exists"},
		"a part is broken":     {func(s *stage) { s.shelf.publishing = []error{storage.ErrBroken} }, "differs from what it wrote"},
		"the disk stays full":  {func(s *stage) { s.shelf.publishing = []error{full, full, full, full, full, full, full, full} }, "no space left"},
		"not all was read":     {func(s *stage) { s.shelf.progress.Bytes = 7 }, "7 of 20 input bytes read"},
		"something read twice": {func(s *stage) { s.shelf.parts = append(s.shelf.parts, s.shelf.parts[0]) }, "was read by two jobs"},
	} {
		t.Run(name, func(t *testing.T) {
			onMapStage(t, "completing", test.set, func(s *stage) {
				s.wait(time.Minute)
				if err := last[*commandpb.PublishOutput](s).GetError(); !strings.Contains(err.GetMessage(), test.want) {
					t.Errorf("error %v, want %q", err, test.want)
				}
			})
		})
	}
}

func TestPublicationIsCalledOff(t *testing.T) {
	onMapStage(t, "completing", func(s *stage) { s.shelf.hangs = true }, func(s *stage) {
		s.want("publish /out[{p 4}]")
		s.operation.State = "aborting"
		s.look()
		synctest.Wait()
		s.want("called off")
		s.wait(time.Minute)
		s.want()
	})
}

func TestJobsAreFed(t *testing.T) {
	ask := &actorpb.JobSpecRequest{Node: "n1", OperationId: "op", JobId: "a"}
	onMapStage(t, "running", func(s *stage) { s.running = []string{"a"} }, func(s *stage) {
		var feed *actorpb.JobFeed
		s.system.Root.Send(s.pid, FromAgent{Message: ask, Reply: func(answer proto.Message) { feed = answer.(*actorpb.JobSpec).GetFeed() }})
		synctest.Wait()
		if len(feed.GetParts()) != 1 || feed.GetParts()[0].GetSource() != "read:/in/a" || feed.GetOutput() != "write:op/part-00000-a" {
			t.Errorf("feed %v", feed)
		}
	})
	for name, set := range map[string]func(*stage){
		"no URL":             func(s *stage) { s.shelf.placing = errors.New("no credentials") },
		"no input yet":       func(s *stage) { s.shelf.input = nil },
		"nothing to be read": func(s *stage) { s.shelf.slices = nil },
	} {
		t.Run(name, func(t *testing.T) {
			onMapStage(t, "running", func(s *stage) { s.running = []string{"a"}; set(s) }, func(s *stage) {
				s.say("spec", ask)
				s.want("spec: refuse unavailable")
			})
		})
	}
}

// alone is the end of a job that has failed on one record.
func alone(id string, slices []*statepb.Slice) *actorpb.JobEnded {
	return &actorpb.JobEnded{Node: "n1", OperationId: "op", Job: &statepb.FinishedJob{
		JobId: id, State: "failed", Pid: 1, Input: &statepb.JobInput{Processed: slices, Rows: 1}, Error: &statepb.Error{Message: "exited with code 7"},
	}}
}

func TestFailuresThatAreSentAwayCountOnce(t *testing.T) {
	onMapStage(t, "running", func(s *stage) { s.running = []string{"a", "b", "c", "d"} }, func(s *stage) {
		for _, job := range []string{"a", "b", "c"} {
			s.end(job, job)
		}
		s.say("too many", alone("d", s.shelf.slices))
		s.want("propose FinishJobs 2 a", "too many: refuse overloaded")
		s.answer(finishedJobs(&commandpb.FinishJobResult{JobId: "a"}), nil)
		s.say("again", alone("d", s.shelf.slices))
		s.answer(finishedJobs(&commandpb.FinishJobResult{JobId: "b"}, &commandpb.FinishJobResult{JobId: "c"}), nil)
		if job := last[*commandpb.FinishJobs](s).GetJobs()[0]; job.GetJobId() != "d" || job.GetFatal() {
			t.Errorf("the first failure is not forgiven: %v", job)
		}
	})
}

func TestEndsOfWhatIsNotKnown(t *testing.T) {
	for name, set := range map[string]func(*stage){
		"no input yet":        func(s *stage) { s.shelf.input = nil },
		"it has been counted": func(s *stage) { s.shelf.slices = nil },
	} {
		t.Run(name, func(t *testing.T) {
			onMapStage(t, "running", func(s *stage) {
				s.running, s.shelf.failed = []string{"a"}, []*statepb.FinishedJob{{State: "failed"}}
				set(s)
			}, func(s *stage) {
				s.say("end", alone("a", []*statepb.Slice{slice(0, 0, 10)}))
				s.want("end: refuse unavailable")
			})
		})
	}
}

func TestFewerJobsMayBeThanThereAre(t *testing.T) {
	onMapStage(t, "running", func(s *stage) {
		s.running = []string{"a"}
		s.operation.Spec.Map.DataSizePerJob = 1
	}, func(s *stage) {
		s.say("spec", &actorpb.JobSpecRequest{Node: "n1", OperationId: "op", JobId: "a"})
		s.want("spec: spec r1:1")
		if s.spec.GetJobCount() != 20 {
			t.Errorf("the job is one of %d, want as many as the input was cut into", s.spec.GetJobCount())
		}
	})
}

func TestRecordsAreLeftOutAsFarAsMayBe(t *testing.T) {
	onMapStage(t, "running", func(s *stage) {
		s.running = []string{"a", "b", "c"}
		s.operation.Spec.Map.MaxSkippedRecords = 2
		s.shelf.progress.SkippedRecords = 1
	}, func(s *stage) {
		finished := func() *statepb.FinishedJob { return last[*commandpb.FinishJobs](s).GetJobs()[0] }
		s.say("first", alone("a", s.shelf.slices))
		if job := finished(); job.GetSkipped() != nil || job.GetFatal() {
			t.Errorf("the first failure is not forgiven: %v", job)
		}
		// It is repeated before it is committed, and counts once.
		s.say("first", alone("a", s.shelf.slices))
		s.answer(finishedJobs(&commandpb.FinishJobResult{JobId: "a"}), nil)
		s.say("second", alone("b", s.shelf.slices))
		if job := finished(); job.GetSkipped() == nil || job.GetFatal() {
			t.Errorf("the second one does not leave it out: %v", job)
		}
		// What is to be left out counts before it is committed.
		s.say("third", alone("c", s.shelf.slices))
		s.answer(finishedJobs(&commandpb.FinishJobResult{JobId: "b"}), nil)
		if job := finished(); job.GetSkipped() != nil || !job.GetFatal() {
			t.Errorf("one too many is left out: %v", job)
		}
	})
}

// TestTooManyJobsOfLate lowers how many jobs an operation may have after it was prepared: it
// waits, says so once, and goes on when it may.
func TestTooManyJobsOfLate(t *testing.T) {
	onMapStage(t, "materializing", func(s *stage) { s.operation.Spec.Map.DataSizePerJob = 1 }, func(s *stage) {
		s.want("propose SetPendingReason")
		said := last[*commandpb.SetPendingReason](s)
		if said.GetEpoch() != 2 || !strings.Contains(said.GetHeldBack(), "cut into 20 jobs") {
			t.Errorf("said %v", said)
		}
		s.answer(nil, errors.New("no leader"))
		s.wait(time.Second)
		s.want("propose SetPendingReason")
		s.answer(&commandpb.Result{}, nil)
		s.wait(time.Minute)
		s.want()
		s.mu.Lock()
		s.operation.Spec.Map.DataSizePerJob = 10
		s.mu.Unlock()
		s.wait(time.Second)
		s.want("propose DefineTasks")
	})
}

// TestTasksThatAreTooManyOfLate is the same of an operation that reads nothing.
func TestTasksThatAreTooManyOfLate(t *testing.T) {
	refused := &commandpb.Result{Refusal: &commandpb.Refusal{Code: "too_many_jobs", Message: "it has 3 jobs"}}
	onStage(t, "materializing", func(s *stage) {
		s.want("propose DefineTasks")
		s.answer(refused, nil)
		s.want("propose SetPendingReason")
		if said := last[*commandpb.SetPendingReason](s); said.GetHeldBack() != "it has 3 jobs" {
			t.Errorf("said %v", said)
		}
		s.answer(&commandpb.Result{}, nil)
		s.wait(time.Second)
		s.want("propose DefineTasks")
		s.answer(refused, nil)
		s.wait(time.Second)
		s.want("propose DefineTasks")
	})
}
