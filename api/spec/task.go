package spec

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"weir/messages/statepb"
	"weir/scheduling/memory"
)

// The bounds of a task, and what is taken when nothing is said (J.5).
const (
	DefaultCPULimit = 1.0
	// MaxCPULimit is in cores.
	MaxCPULimit = 10_000
	// MinCPULimit is the part of a core that is accounted for at all.
	MinCPULimit = 0.01

	DefaultMemoryLimit = 512 << 20
	MinMemoryLimit     = 1 << 20
	MaxMemoryLimit     = 64 << 40

	// MaxPorts bounds the TCP ports of a job.
	MaxPorts = 100

	MaxGPULimit     = 10_000
	MaxNetworkLimit = 1 << 50

	// MaxStringBytes bounds an argument: Linux takes no longer one.
	MaxStringBytes = 128<<10 - 1
	// MaxArguments and MaxVariables bound the lists of a task.
	MaxArguments = 10_000
	MaxVariables = 1000
	// MaxEnvironmentBytes bounds the environment of a task, a name=value and the
	// zero byte after it for each variable.
	MaxEnvironmentBytes = 128 << 10

	// ReservedPrefix begins the variables that Weir itself gives to a job.
	ReservedPrefix = "WEIR_"
)

const (
	fieldJobCount         = "job_count"
	fieldRestartCompleted = "restart_completed_jobs"
)

var taskFields = slices.Concat([]string{
	fieldJobCount, fieldCookies, fieldMaxAttempts, "command", "shell", "environment", "cpu_limit", "memory_limit", "gpu_limit", "network_limit",
	"job_time_limit", "max_failed_job_count", fieldRestartCompleted,
	fieldSignal, fieldRootOnly, fieldRestartCode, "port_count", fieldReadiness, fieldMaxSurge, fieldMinAvailable, fieldSpread,
}, memoryFields, tmpfsFields, fileFields, isolationFields, []string{fieldGang})

// task returns what jobs of a task are; those of a mapper have an input.
func (c *checker) task(path, name string, v *value, outer memory.Options, mapper bool) *statepb.TaskSpec {
	o := c.options(path, v, taskFields)
	task := &statepb.TaskSpec{
		Name:                 name,
		Environment:          o.environment("environment"),
		CpuLimitHundredths:   o.cores("cpu_limit"),
		GpuLimit:             o.integer("gpu_limit", 0, 0, MaxGPULimit),
		NetworkLimit:         o.integer("network_limit", 0, 0, MaxNetworkLimit),
		JobTimeLimit:         o.duration("job_time_limit"),
		MaxFailedJobCount:    int32(o.integer("max_failed_job_count", 0, 0, MaxMaxFailedJobCount)),
		RestartCompletedJobs: o.truth(fieldRestartCompleted),
		PortCount:            int32(o.integer("port_count", 0, 0, MaxPorts)),
	}
	task.Argv, task.Shell = o.command()
	o.interruption(task)
	task.Readiness = o.readiness(task)
	if !mapper {
		o.handOver(task)
	}
	before := len(c.faults)
	task.MemoryLimit = o.bytes("memory_limit", DefaultMemoryLimit, MinMemoryLimit, MaxMemoryLimit)
	if len(c.faults) == before {
		task.Tmpfs = o.tmpfs(task.GetMemoryLimit())
	}
	o.memory(task, outer)
	o.isolation(task)
	if mapper {
		o.refuseInMapper()
	} else {
		task.JobCount = o.jobCount()
		task.Gang = o.gang(task)
		o.sweep(task)
	}
	task.Spread = o.spread(task)
	o.files(task)
	return task
}

func (o options) jobCount() int32 {
	if o.set[fieldJobCount] == nil {
		o.fault(fieldJobCount, "it is missing: how many jobs are to run?")
	}
	return int32(o.integer(fieldJobCount, 0, 1, MaxJobs))
}

// command returns the program and its arguments, or the line for a shell.
func (o options) command() (argv []string, line string) {
	shell := o.truth("shell")
	v := o.get("command", list, text)
	switch {
	case v == nil && o.set["command"] != nil:
	case v == nil:
		o.fault("command", "it is missing: write a list, the program and its arguments")
	case v.kind == text && strings.TrimSpace(v.text) == "":
		o.fault("command", "it is empty: write a list, the program and its arguments")
	case v.kind == text && !shell:
		o.fault("command", "it is one text: write a list, such as [%s], or add shell: true to run it by /bin/sh",
			strings.Join(quoteAll(strings.Fields(clip(v.text))), ", "))
	case v.kind == text:
		return nil, o.text("command", MaxStringBytes)
	case shell:
		o.fault("shell", "it is true, but command is a list: make command one text, or leave shell out")
	case len(v.items) == 0:
		o.fault("command", "it is empty: write a list, the program and its arguments")
	case len(v.items) > MaxArguments:
		o.fault("command", "it has %d parts: %d is the most", len(v.items), MaxArguments)
	default:
		return o.argv("command", v.items), ""
	}
	return nil, ""
}

func (o options) argv(name string, items []*value) []string {
	argv := make([]string, len(items))
	for i, item := range items {
		path := fmt.Sprintf("%s[%d]", join(o.path, name), i)
		switch {
		case !o.c.plainText(path, item):
		case i == 0 && strings.TrimSpace(item.text) == "":
			o.c.fault(path, item.at, "the program's name is empty")
		default:
			argv[i] = item.text
		}
	}
	return argv
}

// plainText reports whether a value is text that a process can be given.
func (c *checker) plainText(path string, v *value) bool {
	switch {
	case v.kind == number || v.kind == boolean:
		c.fault(path, v.at, "it is %s: put it in quotes, text is needed", v.kind)
	case v.kind != text:
		c.fault(path, v.at, "it is %s: text is needed", v.kind)
	case len(v.text) > MaxStringBytes:
		c.fault(path, v.at, "it has %d bytes: %d is the most that Linux takes", len(v.text), MaxStringBytes)
	case strings.ContainsRune(v.text, 0):
		c.fault(path, v.at, "it has a zero byte, which no process can be given")
	default:
		return true
	}
	return false
}

func (o options) environment(name string) map[string]string {
	v := o.get(name, object)
	if v == nil || len(v.fields) == 0 {
		return nil
	}
	if len(v.fields) > MaxVariables {
		o.fault(name, "it has %d variables: %d is the most", len(v.fields), MaxVariables)
		return nil
	}
	total := 0
	environment := make(map[string]string, len(v.fields))
	for _, f := range v.fields {
		path := join(join(o.path, name), f.name)
		switch {
		case !isVariable(f.name):
			o.c.fault(path, f.at, "the name of a variable has letters, digits and _, and no digit first")
		case strings.HasPrefix(f.name, ReservedPrefix):
			o.c.fault(path, f.at, "names that begin with %s are Weir's own: choose another", ReservedPrefix)
		case o.c.plainText(path, f.value):
			environment[f.name] = f.value.text
		}
		total += len(f.name) + len("=\x00") + len(f.value.text)
	}
	if total > MaxEnvironmentBytes {
		o.fault(name, "it has %d bytes: %d (128 KiB) is the most: put data into files", total, MaxEnvironmentBytes)
	}
	return environment
}

func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// cores returns hundredths of a core, rounded.
func (o options) cores(name string) int64 {
	v := o.get(name, number)
	missing := int64(DefaultCPULimit * 100)
	if v == nil {
		return missing
	}
	switch {
	case v.number < MinCPULimit:
		o.fault(name, "%v cores is too little: %v is the least", v.number, MinCPULimit)
	case v.number > MaxCPULimit:
		o.fault(name, "%v cores is too much: %v is the most", v.number, MaxCPULimit)
	default:
		return int64(math.Round(v.number * 100))
	}
	return missing
}

func quoteAll(words []string) []string {
	for i, w := range words {
		words[i] = fmt.Sprintf("%q", w)
	}
	return words
}
