package spec

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"weir/messages/statepb"
)

// Options that say how far a job is kept apart from its node, and from other jobs.
const (
	fieldIsolation      = "isolation"
	fieldCPUEnforcement = "cpu_enforcement"
	fieldPidsLimit      = "pids_limit"
	fieldUser           = "user"
	fieldGroup          = "group"
)

// How far a job is kept apart from its node.
const (
	// IsolationNone: its groups alone.
	IsolationNone = "none"
	// IsolationDefault: mounts of its own, and no way to more privileges.
	IsolationDefault = "default"
	// IsolationStrict: also processes of its own, and a root that it cannot write to.
	IsolationStrict = "strict"
)

// What cpu_limit means to the kernel.
const (
	// CPUQuota: never more.
	CPUQuota = "quota"
	// CPUWeight: as a share when others want the cores too.
	CPUWeight = "weight"
)

// MaxPidsLimit is how many processes Linux has at most.
const MaxPidsLimit = 1 << 22

var isolationFields = []string{fieldIsolation, fieldCPUEnforcement, fieldPidsLimit, fieldUser, fieldGroup}

func (o options) isolation(task *statepb.TaskSpec) {
	task.Isolation = o.choice(fieldIsolation, IsolationDefault, IsolationNone, IsolationDefault, IsolationStrict)
	task.CpuEnforcement = o.choice(fieldCPUEnforcement, CPUQuota, CPUQuota, CPUWeight)
	task.PidsLimit = int32(o.integer(fieldPidsLimit, 0, 1, MaxPidsLimit))
	task.User, task.Group = o.account(fieldUser), o.account(fieldGroup)
	if task.GetIsolation() == IsolationStrict && (task.GetUser() == "root" || task.GetUser() == "0") {
		o.fault(fieldUser, "with %s: %s no job is root: name another, or leave it out", fieldIsolation, IsolationStrict)
	}
	if task.GetIsolation() != IsolationNone {
		return
	}
	for _, name := range []string{fieldUser, fieldGroup} {
		if o.set[name] != nil {
			o.fault(name, "it has no effect with %s: %s: leave one of them out", fieldIsolation, IsolationNone)
		}
	}
}

// choice returns an option that is one of several words, the first when it is missing.
func (o options) choice(name, missing string, words ...string) string {
	v := o.get(name, text)
	switch {
	case v == nil:
		return missing
	case !slices.Contains(words, v.text):
		o.fault(name, "%q is not known: write one of %s", clip(v.text), strings.Join(words, ", "))
		return missing
	}
	return v.text
}

var accountName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,30}[a-z0-9_$-]?$`)

// account returns a user or a group, by name or number.
func (o options) account(name string) string {
	v := o.get(name, text, number)
	if v == nil {
		return ""
	}
	written := v.text
	if v.kind == number {
		written = strconv.FormatFloat(v.number, 'f', -1, 64)
	}
	id, err := strconv.ParseUint(written, 10, 32)
	switch {
	case err == nil && id < math.MaxUint32:
		return strconv.FormatUint(id, 10)
	case v.kind == number || !accountName.MatchString(written):
		o.fault(name, "%q is no %s: write a name of small letters, digits, - and _, or a number from 0 to %d", clip(written), name, uint32(math.MaxUint32-1))
		return ""
	}
	return written
}

func formatIsolation(out map[string]any, task *statepb.TaskSpec) {
	for name, word := range map[string]string{
		fieldIsolation: task.GetIsolation(), fieldCPUEnforcement: task.GetCpuEnforcement(), fieldUser: task.GetUser(), fieldGroup: task.GetGroup(),
	} {
		if word != "" {
			out[name] = word
		}
	}
	if task.GetPidsLimit() != 0 {
		out[fieldPidsLimit] = task.GetPidsLimit()
	}
}

// Options of a task whose jobs are of use only together (J.5).
const (
	fieldGang     = "gang_options"
	fieldGangSize = "size"
)

// gang returns how a task runs as a gang, nil when it does not.
func (o options) gang(task *statepb.TaskSpec) *statepb.GangSpec {
	v := o.get(fieldGang, object)
	if v == nil {
		return nil
	}
	own := o.c.options(join(o.path, fieldGang), v, []string{fieldGangSize})
	if task.GetRestartCompletedJobs() {
		o.fault(fieldGang, "it cannot be with %s: a gang is done when all its ranks are: leave one of them out", fieldRestartCompleted)
	}
	missing := int64(task.GetJobCount())
	size := own.integer(fieldGangSize, missing, 1, max(1, missing))
	if size > MaxGang {
		o.fault(fieldGang, "a gang of %d jobs: at most %d can start together", size, MaxGang)
	}
	return &statepb.GangSpec{Size: int32(size)}
}
