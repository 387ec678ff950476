package agent

import "time"

// Stage is a part of a job's time on its node.
type Stage uint8

// The stages, in order. Each lasts until a later one begins; a job may skip some.
const (
	// StageOrder: its start order has arrived and is being written to the journal.
	StageOrder Stage = iota
	// StageSpec: the controller is asked for its spec.
	StageSpec
	// StageFiles: the files for its workspace are fetched.
	StageFiles
	// StageJournal: its start is being written to the journal.
	StageJournal
	// StageFolders: its folders and sockets are made, and its supervisor is forked.
	StageFolders
	// StageSupervisor: the supervisor is loaded and its runtime starts.
	StageSupervisor
	// StageGroups: the supervisor makes the job's control groups, starts the command, and
	// reports it.
	StageGroups
	// StageCommand: the command runs.
	StageCommand
	// StageEnd: the supervisor ends remaining processes, measures, stores output, and reports
	// the end.
	StageEnd
	// StageResult: the result is being written to the journal.
	StageResult
	// StageReport: the controller commits the result and acknowledges it.
	StageReport
	// StageRelease: its leftovers are removed, and the removal is written to the journal.
	StageRelease

	stageOver
)

var stageNames = [stageOver]string{
	"order", "spec", "files", "journal", "folders", "supervisor", "groups", "command", "end", "result", "report", "release",
}

// String is the stage's name in metrics.
func (s Stage) String() string { return stageNames[s] }

// Stages returns all stages in their order.
func Stages() []Stage {
	all := make([]Stage, stageOver)
	for i := range all {
		all[i] = Stage(i)
	}
	return all
}

// StageTime is how long a job was in a stage.
type StageTime struct {
	Stage Stage
	Took  time.Duration
}

// course is the progress of a job through its stages.
type course struct {
	stage Stage
	// since is when the stage began; zero: before this process of the agent.
	since time.Time
	// passed are the stages that have ended and that Passed has not returned yet.
	passed []StageTime
}

// reach records that a stage began at the time `at`, which may come from another process's clock. A
// job does not go back to an earlier stage.
func (c *course) reach(stage Stage, at time.Time) {
	if stage <= c.stage {
		return
	}
	if !c.since.IsZero() {
		c.passed = append(c.passed, StageTime{c.stage, max(0, at.Sub(c.since))})
	}
	c.stage = stage
	if c.since.Before(at) {
		c.since = at
	}
}

// Passed returns the stages that the job has passed by the time `now`. It returns each stage once.
func (j *Job) Passed(now time.Time) []StageTime {
	j.course.reach(j.stage(), now)
	passed := j.course.passed
	j.course.passed = nil
	return passed
}

// dutyStages are the stages of jobs that have a duty due.
var dutyStages = map[Duty]Stage{
	AskSpec: StageSpec, FetchFiles: StageFiles, NoteStart: StageJournal, StartRun: StageFolders,
	ReadTail: StageResult, NoteEnd: StageResult, Report: StageReport, Leave: stageOver,
}

// stage returns the job's stage, as far as the agent knows it without the supervisor.
func (j *Job) stage() Stage {
	stage, known := dutyStages[j.due()]
	switch {
	case known:
		return stage
	case j.phase == Acknowledged:
		return StageRelease
	case j.pid == 0:
		return StageSupervisor
	default:
		return StageCommand
	}
}

// unmeasured drops the time at which the job's current stage began, and earlier stages.
func (j *Job) unmeasured() *Job {
	j.course = course{stage: j.stage()}
	return j
}
