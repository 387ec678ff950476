package controller

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/memory"
)

// errBehind is returned when the digests in the state include samples that were never seen here.
// The digests have to be read again.
var errBehind = errors.New("the digests in the state include samples that are missing here")

// Lessons holds what the tasks of an operation have learned about memory: the digests of the
// replicated state, and all samples after them, in order.
type Lessons struct {
	spec  *statepb.OperationSpec
	tasks map[string]*lesson
}

type lesson struct {
	learner *memory.Learner
	// state is the replicated state, without the digests.
	state *statepb.TaskMemory
}

// NewLessons returns empty Lessons.
func NewLessons(spec *statepb.OperationSpec) *Lessons {
	return &Lessons{spec: spec, tasks: map[string]*lesson{}}
}

// Take adds the replicated memory state of tasks: the digests of tasks that are new here, and
// samples. It returns errBehind when samples are missing; the next call then has to include
// digests.
func (l *Lessons) Take(tasks []*statepb.Task) error {
	for _, task := range tasks {
		if err := l.take(task); err != nil {
			return fmt.Errorf("memory of task %q: %w", task.GetName(), err)
		}
	}
	return nil
}

// Complete reports whether the digests of all tasks are known.
func (l *Lessons) Complete() bool { return len(l.tasks) == len(l.spec.GetTasks()) }

func (l *Lessons) take(task *statepb.Task) error {
	m := task.GetMemory()
	digested := m.GetSampleCount() - int64(len(m.GetSamples()))
	held := l.tasks[task.GetName()]
	if held == nil {
		learner, err := memory.NewLearner(l.task(task.GetName()), m.GetUserDigest(), m.GetProxyDigest(), digested)
		if err != nil {
			// Unreadable digests are replaced by empty ones.
			learner = l.begin(task.GetName(), digested)
		}
		held = &lesson{learner: learner, state: m}
		l.tasks[task.GetName()] = held
		if err != nil {
			return err
		}
	}
	if held.learner.Absorbed < digested {
		delete(l.tasks, task.GetName())
		return errBehind
	}
	// A state that is older than the one before adds nothing.
	known := min(held.learner.Absorbed-digested, int64(len(m.GetSamples())))
	for _, s := range m.GetSamples()[known:] {
		if err := held.learner.Absorb(memory.Sample{User: s.GetUser(), Proxy: s.GetProxy()}); err != nil {
			return err
		}
	}
	held.state = m
	return nil
}

// task returns the memory settings of a task.
func (l *Lessons) task(name string) memory.Task {
	for _, task := range l.spec.GetTasks() {
		if task.GetName() == name {
			return l.spec.MemoryTask(task)
		}
	}
	return memory.Task{Options: memory.Default()}
}

// Of returns the learner of a task, which must not be changed.
func (l *Lessons) Of(task string) *memory.Learner {
	if held := l.tasks[task]; held != nil {
		return held.learner
	}
	return l.begin(task, 0)
}

// begin returns an empty learner. `absorbed` is the number of samples that the learner counts as
// seen.
func (l *Lessons) begin(task string, absorbed int64) *memory.Learner {
	return &memory.Learner{Task: l.task(task), User: new(memory.Digest), Proxy: new(memory.Digest), Absorbed: absorbed}
}

// Learn returns the reserves to propose for the next jobs of tasks; none if they are unchanged or
// were proposed recently. `after` is how long to wait before the next call; 0 means to wait for
// more samples.
func (l *Lessons) Learn(now time.Time) (reserves []*commandpb.TaskReserve, after time.Duration) {
	for _, task := range l.spec.GetTasks() {
		held := l.tasks[task.GetName()]
		if held == nil {
			continue
		}
		digested := held.state.GetSampleCount() - int64(len(held.state.GetSamples()))
		reserve, tell, wait := held.learner.Learn(now, held.state.GetReserve().Reserve(), held.learner.Absorbed-digested)
		if wait > 0 && (after == 0 || wait < after) {
			after = wait
		}
		if tell {
			reserves = append(reserves, &commandpb.TaskReserve{
				Task: task.GetName(), Samples: held.learner.Absorbed, Reserve: statepb.NewJobReserve(reserve),
				UserDigest: held.learner.User.Encode(), ProxyDigest: held.learner.Proxy.Encode(),
			})
		}
	}
	return reserves, after
}

// Leave returns the profiles to save for later operations: those of tasks that have learned
// something and have not saved it yet. `present` returns the current profile of a key, or nil. An
// unreadable profile is replaced.
func (l *Lessons) Leave(operation string, present func(key string) *statepb.MemoryProfile) []*commandpb.SavedProfile {
	var saved []*commandpb.SavedProfile
	latest := map[string]*statepb.MemoryProfile{}
	for _, task := range l.spec.GetTasks() {
		held := l.tasks[task.GetName()]
		if held == nil || held.state.GetProfile() == "" || held.state.GetSaved() || held.learner.User.Count() == 0 {
			continue
		}
		key := held.state.GetProfile()
		before, earlier := latest[key]
		if !earlier {
			before = present(key)
		}
		learner := held.learner
		user, proxy, err := scaled(before, learner.Task.Limit)
		if err != nil {
			user, proxy = new(memory.Digest), new(memory.Digest)
		}
		profile := &statepb.MemoryProfile{
			Key: key, Task: task.GetName(), Command: commandOf(task),
			UserDigest: memory.Blend(user, learner.User).Encode(), ProxyDigest: memory.Blend(proxy, learner.Proxy).Encode(),
			SampleCount: before.GetSampleCount() + learner.User.Count(), OperationCount: before.GetOperationCount() + 1,
			MemoryLimit: learner.Task.Limit, Reserve: learner.Reserve().User,
			LastOperation: operation,
		}
		latest[key] = profile
		saved = append(saved, &commandpb.SavedProfile{Task: task.GetName(), Profile: profile, ExpectedSampleCount: before.GetSampleCount()})
	}
	return saved
}

// maxCommand bounds the command that is saved with a profile, in bytes.
const maxCommand = 200

// commandOf returns the command of a task, for people.
func commandOf(task *statepb.TaskSpec) string {
	command := cmp.Or(task.GetShell(), strings.Join(task.GetArgv(), " "))
	return strings.ToValidUTF8(command[:min(len(command), maxCommand)], "")
}
