package spec

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"weir/messages/bounds"
	"weir/messages/statepb"
	"weir/scheduling/access"
	"weir/scheduling/memory"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

// MaxAnnotationsBytes is the size limit of the annotations of an operation as JSON text.
const MaxAnnotationsBytes = bounds.Annotations

// checker reads an operation and checks options that depend on each other.
type checker struct {
	*option.Reading
	// together is set if the jobs of the operation are useful only all at once (is_gang).
	together bool
}

// runs checks an operation of type vanilla and returns it.
func (c *checker) runs(root *option.Value) (*statepb.OperationSpec, *Operation) {
	o := &VanillaOperation{}
	c.Options(o, c.withoutStrays(root), "")
	if root.Get("tasks") == nil && root.Get("mapper") == nil {
		c.Fault(o, &o.Tasks, "it is missing: an operation needs at least one task")
	}
	op := c.operation(&o.Operation)
	c.together = op.GetIsGang()
	outer := c.proxyDigest(&o.Operation, &o.ProxyDigest, o.ProxyDigest, memory.Default())
	jobs := int64(0)
	for _, name := range option.SortedNames(o.Tasks) {
		t := o.Tasks[name]
		if !isTaskName(name) {
			c.FaultOfName(t, "a task name has 1 to %d letters, digits, - and _", MaxTaskNameBytes)
		}
		jobs += or(t.JobCount, 0)
		op.Tasks = append(op.Tasks, c.task(name, t, outer))
	}
	if jobs > MaxJobs {
		c.Fault(o, &o.Tasks, "they have %d jobs in total, the limit is %d", jobs, MaxJobs)
	}
	c.destinations(o, op.GetTasks())
	return op, &o.Operation
}

// withoutStrays returns an operation without its stray tasks, and adds a fault for each of them. A
// task is stray if an assignment created it and it lacks job_count or command. Its name is probably
// mistyped.
func (c *checker) withoutStrays(root *option.Value) *option.Value {
	tasks := root.Get("tasks")
	if tasks == nil || tasks.Kind != option.Object {
		return root
	}
	var known, strays []string
	for _, f := range tasks.Fields {
		stray := f.Value.Assigned && f.Value.Kind == option.Object && (f.Value.Get("job_count") == nil || f.Value.Get("command") == nil)
		if stray {
			strays = append(strays, f.Name)
		} else if !f.Value.Assigned {
			known = append(known, f.Name)
		}
	}
	if len(strays) == 0 {
		return root
	}
	for _, name := range strays {
		said := fmt.Sprintf("there is no task %q", option.Clip(name))
		if near := option.Closest(name, known); near != "" {
			said += fmt.Sprintf("; did you mean %q?", near)
		} else if len(known) > 0 {
			said += "; there are " + option.Clip(strings.Join(known, ", "))
		}
		c.Add("tasks"+c.Separator+option.Clip(name), option.Position{}, "%s (a new one needs job_count and command)", said)
	}
	without := *tasks
	without.Fields = slices.DeleteFunc(slices.Clone(tasks.Fields), func(f option.Entry) bool { return slices.Contains(strays, f.Name) })
	out := *root
	out.Fields = slices.Clone(root.Fields)
	for i := range out.Fields {
		if out.Fields[i].Value == tasks {
			out.Fields[i].Value = &without
		}
	}
	return &out
}

// isTaskName reports whether name is a valid name of a task.
func isTaskName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	return name != "" && len(name) <= MaxTaskNameBytes && strings.Trim(name, letters) == ""
}

// reads checks an operation of type map and returns it.
func (c *checker) reads(root *option.Value) (*statepb.OperationSpec, *Operation) {
	o := &MapOperation{}
	c.Options(o, root, "")
	op := c.operation(&o.Operation)
	outer := c.proxyDigest(&o.Operation, &o.ProxyDigest, o.ProxyDigest, memory.Default())
	in := &o.Input
	c.inputs(in)
	switch {
	case in.DataSizePerJob != nil && in.JobCount != nil:
		c.Fault(in, &in.JobCount, "data_size_per_job is set too: keep only one of them")
	case in.DataSizePerJob == nil && in.JobCount == nil:
		in.DataSizePerJob = ptr(int64(defaultDataSizePerJob))
	}
	if text(in.Format) == FormatBytes {
		for _, size := range []**int64{&in.MaxRecordSize, &in.MaxSkippedRecords} {
			if *size != nil {
				c.Fault(in, size, "not allowed with format: bytes, which has no records: leave it out")
			}
		}
	}
	option.Complete(in)
	op.Map = &statepb.MapSpec{}
	pack(op.GetMap(), in)
	if o.Mapper != nil {
		task := c.job(MapperTask, &o.Mapper.Job, outer)
		option.Complete(o.Mapper)
		pack(task, o.Mapper)
		op.Tasks = []*statepb.TaskSpec{task}
	}
	return op, &o.Operation
}

// operation returns the part of the record that operations of all types have.
func (c *checker) operation(o *Operation) *statepb.OperationSpec {
	op := &statepb.OperationSpec{AnnotationsJson: c.annotations(o), Options: structOf(c.inTree(o, &o.OperationOptions))}
	for i, name := range o.PoolTrees {
		if name != "" && slices.Contains(o.PoolTrees[:i], name) {
			c.FaultOfItem(o, &o.PoolTrees, i, "tree %q is listed twice", option.Clip(string(name)))
		}
	}
	for _, name := range option.SortedNames(o.PerTree) {
		own := o.PerTree[name]
		if o.PoolTrees != nil && !slices.Contains(o.PoolTrees, treeName(name)) {
			c.FaultOfName(own, "the operation is not in this tree: pool_trees names %s", quoted(o.PoolTrees))
			continue
		}
		document := c.inTree(own, &own.OperationOptions)
		if own.Pool != nil {
			document["pool"] = string(*own.Pool)
		}
		if s := structOf(document); s != nil {
			setPerTree(op, name, s)
		}
	}
	if o.ACL != nil {
		c.Adopt(o.ACL, option.NewError(append(access.Twice("read", o.ACL.Read), access.Twice("manage", o.ACL.Manage)...)))
	}
	option.Complete(o)
	pack(op, o)
	op.Vault = vaultOf(o.Vault)
	return op
}

// inTree checks the options of an operation in a tree and returns those that are set. o is
// embedded in the struct `of`.
func (c *checker) inTree(of any, o *pooltree.OperationOptions) map[string]any {
	c.Adopt(of, o.Validate())
	return option.Write(o)
}

// annotations returns the annotations as JSON with sorted keys; empty if there are none.
func (c *checker) annotations(o *Operation) string {
	if o.Annotations == nil || len(o.Annotations.Fields) == 0 {
		return ""
	}
	data, err := json.Marshal(o.Annotations.Exact())
	if err != nil {
		c.Fault(o, &o.Annotations, "%v", err)
	} else if len(data) > MaxAnnotationsBytes {
		c.Fault(o, &o.Annotations, "they have %d bytes as JSON, the limit is %d (10 KiB)", len(data), MaxAnnotationsBytes)
	}
	return string(data)
}

// inputs checks the input and output paths, and that no input is also the output.
func (c *checker) inputs(in *Input) {
	output := text(in.OutputPath)
	if strings.ContainsAny(output, "*?[") {
		c.Fault(in, &in.OutputPath, "%q contains a wildcard (*, ? or [): write the path of the output itself", option.Clip(output))
	}
	for i, path := range in.InputPaths {
		switch {
		case path == "":
		case slices.Contains(in.InputPaths[:i], path):
			c.FaultOfItem(in, &in.InputPaths, i, "%q is listed twice: it would be read twice", option.Clip(string(path)))
		case output != "" && strings.TrimRight(string(path), "/") == strings.TrimRight(output, "/"):
			c.Fault(in, &in.OutputPath, "%q is also an input: write to another place", option.Clip(output))
		}
	}
}
