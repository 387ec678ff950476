package agent

import "time"

// Stage is what the time of a job on its node goes to.
type Stage uint8

// The stages, in their order. Each lasts until one after it begins; some jobs pass some over.
const (
	// StageOrder: the order to start it has come, and the journal takes it.
	StageOrder Stage = iota
	// StageSpec: its controller is asked what it runs.
	StageSpec
	// StageFiles: the files are fetched that it finds in its workspace.
	StageFiles
	// StageJournal: the journal takes that its processes are about to be started.
	StageJournal
	// StageFolders: its folders and sockets are made, and its supervisor is forked.
	StageFolders
	// StageSupervisor: the supervisor's program is loaded and its runtime started.
	StageSupervisor
	// StageGroups: the supervisor makes the job's groups, starts the command, and says so.
	StageGroups
	// StageCommand: the command runs.
	StageCommand
	// StageEnd: the supervisor ends what is left, measures, keeps output, and says so.
	StageEnd
	// StageResult: the journal takes the result.
	StageResult
	// StageReport: its controller takes the result, which is committed.
	StageReport
	// StageRelease: what it left is removed, and the journal takes that.
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

// course is the way of a job through its stages.
type course struct {
	stage Stage
	// since is when the stage began; zero: before this process of the agent.
	since time.Time
	// passed are the stages that have ended and were not asked for.
	passed []StageTime
}

// reach tells that a stage began at a moment, which another clock of the machine may have
// told. A job does not go back.
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

// Passed returns the stages that the job has passed at now, each once.
func (j *Job) Passed(now time.Time) []StageTime {
	j.course.reach(j.stage(), now)
	passed := j.course.passed
	j.course.passed = nil
	return passed
}

// stage is where the job is, as far as the agent does the work.
func (j *Job) stage() Stage {
	switch j.phase {
	case Waiting:
		return StageSpec
	case Starting:
		switch {
		case len(j.spec.GetFiles()) > 0 && !j.fetched:
			return StageFiles
		case !j.noted[NoteStart]:
			return StageJournal
		}
		return StageFolders
	case Running:
		if j.pid == 0 {
			return StageSupervisor
		}
		return StageCommand
	case Ended:
		if !j.noted[NoteEnd] {
			return StageResult
		}
		return StageReport
	}
	if j.ran || !j.noted[NoteRelease] {
		return StageRelease
	}
	return stageOver
}

// unmeasured forgets when the job came where it is.
func (j *Job) unmeasured() *Job {
	j.course = course{stage: j.stage()}
	return j
}
