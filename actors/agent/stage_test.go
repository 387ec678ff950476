package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/actors/agent/journal"
	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
	"weir/messages/actorpb"
	"weir/messages/journalpb"
)

// walk is a job on its way, and the time.
type walk struct {
	*Job
	now    time.Time
	passed map[string]time.Duration
}

// after lets time pass, has something done, and takes the stages that were passed by it.
func (w *walk) after(d time.Duration, do func(j *Job, now time.Time)) {
	w.now = w.now.Add(d)
	do(w.Job, w.now)
	for _, stage := range w.Passed(w.now) {
		w.passed[stage.Stage.String()] += stage.Took
	}
}

// end goes from the word of the result, which came 8 ms after the job had ended, to the last record.
func (w *walk) end() {
	w.after(20*time.Millisecond, func(j *Job, now time.Time) {
		j.Saw(runner.Exited{Result: &runner.Result{Outcome: proxyproto.OutcomeExited, EndTime: now.Add(-8 * time.Millisecond)}})
	})
	w.after(9*time.Millisecond, func(j *Job, _ time.Time) { j.Noted(NoteEnd) })
	w.after(10*time.Millisecond, func(j *Job, _ time.Time) { j.Acknowledge() })
	w.after(5*time.Millisecond, func(j *Job, _ time.Time) { j.Released() })
	w.after(6*time.Millisecond, func(j *Job, _ time.Time) { j.Noted(NoteRelease) })
	w.after(time.Hour, func(*Job, time.Time) {})
}

func TestTimeOfAJobGoesToItsStages(t *testing.T) {
	w := &walk{Job: NewJob(epoch, startOrder("j")), now: epoch, passed: map[string]time.Duration{}}
	w.after(time.Millisecond, func(j *Job, now time.Time) {
		j.Next()
		j.Answered(now, &actorpb.JobSpec{JobId: "j", Argv: []string{"true"}, Files: []*actorpb.JobFile{{}}})
		j.Next()
	})
	w.after(2*time.Millisecond, func(j *Job, now time.Time) { j.Fetched(now, time.Millisecond, nil) })
	w.after(3*time.Millisecond, func(j *Job, _ time.Time) { j.Noted(NoteStart) })
	w.after(4*time.Millisecond, func(j *Job, now time.Time) { j.Started(now, nil) })
	w.after(11*time.Millisecond, func(j *Job, now time.Time) {
		j.Saw(runner.Started{JobID: "j", Pid: 42, Time: now.Add(-6 * time.Millisecond)})
	})
	w.after(time.Second, func(j *Job, _ time.Time) { j.Saw(runner.Sample{Memory: 5}) })
	w.end()
	want := map[string]time.Duration{
		"spec": time.Millisecond, "files": 2 * time.Millisecond, "journal": 3 * time.Millisecond, "folders": 4 * time.Millisecond,
		"supervisor": 5 * time.Millisecond, "groups": 6 * time.Millisecond, "command": time.Second + 12*time.Millisecond, "end": 8 * time.Millisecond,
		"result": 9 * time.Millisecond, "report": 10 * time.Millisecond, "release": 11 * time.Millisecond,
	}
	if diff := cmp.Diff(want, w.passed); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
}

// TestStagesOfAnEarlierProcessAreNotMeasured counts what begins now.
func TestStagesOfAnEarlierProcessAreNotMeasured(t *testing.T) {
	kept := &journal.Job{Grant: startOrder("j"), Starting: &journalpb.Starting{JobId: "j"}, Started: &journalpb.Started{JobId: "j", Pid: 42}}
	w := &walk{Job: RecoverJob(epoch, kept, true), now: epoch, passed: map[string]time.Duration{}}
	w.after(time.Second, func(j *Job, now time.Time) { j.Saw(runner.Started{JobID: "j", Pid: 42, Time: now}) })
	w.end()
	want := map[string]time.Duration{
		"end": 8 * time.Millisecond, "result": 9 * time.Millisecond, "report": 10 * time.Millisecond, "release": 11 * time.Millisecond,
	}
	if diff := cmp.Diff(want, w.passed); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
}

// TestStagesByTwoClocks: the clock of the machine, by which the job's supervisor tells of its
// stages, may be set meanwhile.
func TestStagesByTwoClocks(t *testing.T) {
	c := course{stage: StageSupervisor, since: epoch}
	c.reach(StageGroups, epoch.Add(-time.Hour))
	c.reach(StageCommand, epoch.Add(time.Second))
	c.reach(StageSpec, epoch.Add(time.Minute))
	want := []StageTime{{StageSupervisor, 0}, {StageGroups, time.Second}}
	if diff := cmp.Diff(want, c.passed); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
}
