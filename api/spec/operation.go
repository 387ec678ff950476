package spec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
	"weir/scheduling/memory"
)

// The bounds of an operation and its tasks, and what is taken when nothing is
// said (J.4, J.5).
const (
	MaxTitleBytes      = 256
	MaxAliasBytes      = 100
	MaxMutationIDBytes = 128
	// MaxAnnotationsBytes bounds annotations as JSON.
	MaxAnnotationsBytes = 10 << 10

	MaxTasks         = 100
	MaxTaskNameBytes = 64
	// MaxJobs bounds job_count, and the sum over all tasks.
	MaxJobs = 100_000
	// MaxGang bounds the jobs of a gang that have a rank: all start by one log entry.
	MaxGang = 10_000

	DefaultMaxFailedJobCount = 10
	MaxMaxFailedJobCount     = 10_000

	// MinTimeLimit is the least time_limit and job_time_limit: shorter ones would
	// end jobs before they begin.
	MinTimeLimit = time.Second
	// MaxTimeLimit is the longest one.
	MaxTimeLimit = 366 * 24 * time.Hour
)

const (
	fieldType  = "type"
	fieldTasks = "tasks"
)

var operationFields = slices.Concat([]string{
	fieldType, "pool", "title", "alias", "annotations", "time_limit", "max_failed_job_count", "mutation_id", fieldTasks,
	"is_gang", fieldTrees, fieldOptionsPerTree, fieldNoMemoryProfile, fieldProxyDigest,
}, mapFields, optionNames)

// Parsed is a spec that was read and checked.
type Parsed struct {
	// Spec is completed with defaults, but for what pool trees have defaults for.
	Spec *statepb.OperationSpec
	// MutationID is empty when the spec has none.
	MutationID string
}

// Parse reads and checks a spec in YAML or JSON. The error is an *Error.
func Parse(data []byte) (*Parsed, error) {
	doc, err := Read(data)
	if err != nil {
		return nil, err
	}
	return doc.parsed()
}

// ParseStruct reads and checks a spec as the API takes it. The error is an
// *Error whose faults have no places.
func ParseStruct(s *structpb.Struct) (*Parsed, error) {
	doc, err := FromStruct(s)
	if err != nil {
		return nil, err
	}
	return doc.parsed()
}

func (d *Document) parsed() (*Parsed, error) {
	op, mutationID, err := d.Check()
	if err != nil {
		return nil, err
	}
	return &Parsed{Spec: op, MutationID: mutationID}, nil
}

// Check returns the operation that the document describes, completed with
// defaults but for those of pool trees, and its mutation_id. The error is an *Error.
func (d *Document) Check() (op *statepb.OperationSpec, mutationID string, err error) {
	c := &checker{faults: slices.Clone(d.faults)}
	op, mutationID = c.operation(d.root)
	if err := refuse(c.faults); err != nil {
		return nil, "", err
	}
	return op, mutationID, nil
}

func (c *checker) operation(root *value) (*statepb.OperationSpec, string) {
	o := c.options("", root, operationFields, optionAliases...)
	op := &statepb.OperationSpec{
		Type:              o.choice(fieldType, lifecycle.Vanilla, lifecycle.Vanilla, lifecycle.Map),
		Pool:              o.text("pool", MaxTitleBytes),
		Title:             o.text("title", MaxTitleBytes),
		Alias:             o.alias("alias"),
		AnnotationsJson:   o.annotations("annotations"),
		TimeLimit:         o.duration("time_limit"),
		MaxFailedJobCount: int32(o.integer("max_failed_job_count", DefaultMaxFailedJobCount, 0, MaxMaxFailedJobCount)),
		IsGang:            o.truth("is_gang"),
		NoMemoryProfile:   o.truth(fieldNoMemoryProfile),
		PoolTrees:         o.trees(fieldTrees),
		Options:           structOf(o.schedulingOptions()),
	}
	op.OptionsPerTree = c.optionsPerTree(o, op.GetPoolTrees())
	c.together = op.GetIsGang()
	outer := o.proxyDigest(memory.Default())
	if op.GetType() == lifecycle.Map {
		op.Map, op.Tasks = o.mapSpec(), c.mapper(o, outer)
	} else {
		o.refuseMapFields()
		op.Tasks = c.tasks(o, outer)
	}
	o.checkPool(op.GetPool())
	return op, o.text("mutation_id", MaxMutationIDBytes)
}

func (o options) alias(name string) string {
	alias := o.text(name, MaxAliasBytes)
	switch {
	case alias == "":
	case !strings.HasPrefix(alias, "*") || len(alias) == 1:
		o.fault(name, "%q: it must start with * and have a name after it, such as %q", alias, "*"+cmp.Or(strings.Trim(alias, "*"), "nightly"))
	case strings.ContainsFunc(alias, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }):
		o.fault(name, "%q: it must have printable characters only, and no spaces", alias)
	}
	return alias
}

// annotations returns an object as JSON with sorted keys.
func (o options) annotations(name string) string {
	v := o.get(name, object)
	if v == nil || len(v.fields) == 0 {
		return ""
	}
	data, err := json.Marshal(v.plain())
	switch {
	case err != nil:
		o.fault(name, "%v", err)
	case len(data) > MaxAnnotationsBytes:
		o.fault(name, "they have %d bytes as JSON: %d (10 KiB) is the most", len(data), MaxAnnotationsBytes)
	default:
		return string(data)
	}
	return ""
}

// plain returns the value as encoding/json knows it.
func (v *value) plain() any {
	switch v.kind {
	case boolean:
		return v.truth
	case number:
		if v.isWhole {
			return v.whole
		}
		return v.number
	case text:
		return v.text
	case list:
		items := make([]any, len(v.items))
		for i, item := range v.items {
			items[i] = item.plain()
		}
		return items
	case object:
		fields := make(map[string]any, len(v.fields))
		for _, f := range v.fields {
			fields[f.name] = f.value.plain()
		}
		return fields
	}
	return nil
}

// tasks returns the tasks by name.
func (c *checker) tasks(o options, outer memory.Options) []*statepb.TaskSpec {
	v := o.get(fieldTasks, object)
	if v == nil {
		if o.set[fieldTasks] == nil && o.set[fieldMapper] == nil {
			o.fault(fieldTasks, "it is missing: an operation needs at least one task")
		}
		return nil
	}
	if n := len(v.fields); n == 0 || n > MaxTasks {
		o.fault(fieldTasks, "there are %d: from 1 to %d are possible", n, MaxTasks)
		return nil
	}
	var tasks []*statepb.TaskSpec
	var jobs int64
	for _, f := range v.fields {
		path := join(fieldTasks, f.name)
		if err := checkTaskName(f.name); err != nil {
			c.fault(path, f.at, "%v", err)
		}
		if f.value.kind != object {
			c.fault(path, f.value.at, "it is %s: an object with job_count and command is needed", f.value.kind)
			continue
		}
		if f.value.set && !isTask(f.value) {
			c.fault(path, f.at, "%s", noTask(f.name, v))
			continue
		}
		task := c.task(path, f.name, f.value, outer, false)
		jobs += int64(task.GetJobCount())
		tasks = append(tasks, task)
	}
	if jobs > MaxJobs {
		o.fault(fieldTasks, "they have %d jobs together: %d is the most", jobs, MaxJobs)
	}
	slices.SortFunc(tasks, func(a, b *statepb.TaskSpec) int { return strings.Compare(a.GetName(), b.GetName()) })
	o.checkDestinations(tasks)
	return tasks
}

// isTask tells whether an object has what each task needs.
func isTask(v *value) bool {
	has := func(option string) bool {
		return slices.ContainsFunc(v.fields, func(f field) bool { return canonical(f.name) == option })
	}
	return has(fieldJobCount) && has("command")
}

// noTask says that an assignment named a task that is not among those that were read, and
// which one may have been meant.
func noTask(name string, tasks *value) string {
	var known []string
	for _, f := range tasks.fields {
		if !f.value.set {
			known = append(known, f.name)
		}
	}
	said := fmt.Sprintf("there is no task %q", clip(name))
	if near := closest(name, known); near != "" {
		said += fmt.Sprintf("; did you mean %q?", near)
	} else if len(known) > 0 {
		said += "; there are " + clip(strings.Join(known, ", "))
	}
	return said + " (a new one needs " + fieldJobCount + " and command)"
}

func checkTaskName(name string) error {
	letter := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
	}
	if name == "" || len(name) > MaxTaskNameBytes || strings.ContainsFunc(name, func(r rune) bool { return !letter(r) }) {
		return fmt.Errorf("the name of a task has 1 to %d letters, digits, - and _", MaxTaskNameBytes)
	}
	return nil
}
