package spec

import (
	"fmt"
	"slices"
	"strings"

	"weir/messages/statepb"
	"weir/scheduling/memory"
	"weir/scheduling/option"
	"weir/scheduling/resource"
)

// task returns a task of an operation of type vanilla.
func (c *checker) task(name string, t *Task, outer memory.Options) *statepb.TaskSpec {
	c.restarts(t)
	c.readiness(t)
	c.handOver(t)
	c.gang(t)
	cookies := c.sweep(t)
	c.outputs(t)
	if j := &t.Job; j.Spread == nil {
		j.Spread = ptr(t.Gang == nil && (t.Readiness != nil || or(j.PortCount, 0) > 0))
	} else if *j.Spread && t.Gang != nil {
		c.Fault(j, &j.Spread, "jobs with gang_options start on any nodes that have room for all of them: leave it out")
	}
	out := c.job(name, &t.Job, outer)
	option.Complete(t)
	pack(out, t)
	out.Cookies = cookies
	if t.Readiness != nil && out.GetReadiness().GetSocket() {
		out.Readiness = &statepb.Readiness{Socket: true}
	}
	return out
}

// job returns the record of the jobs of a task or a mapper. An option that has no effect
// because another one is missing is a fault.
func (c *checker) job(name string, j *Job, outer memory.Options) *statepb.TaskSpec {
	if j.RootOnly != nil && j.Signal == nil && !c.Bad(j, &j.Signal) {
		c.Fault(j, &j.RootOnly, withoutSignal)
	}
	c.command(j)
	if j.Spread == nil {
		j.Spread = ptr(or(j.PortCount, 0) > 0)
	}
	c.tmpfs(j)
	c.files(j)
	c.isolation(j)
	task := &statepb.TaskSpec{Name: name, Memory: c.memory(j, outer)}
	if j.Command != nil {
		task.Argv, task.Shell = j.Command.argv, j.Command.line
	}
	return task
}

const withoutSignal = "it has no effect without an interruption_signal: add one, such as interruption_signal: SIGTERM, or leave this out"

func (c *checker) command(j *Job) {
	shell := or(j.Shell, false)
	switch {
	case j.Command == nil:
	case j.Command.line != "" && !shell && !c.Bad(j, &j.Shell):
		c.Fault(j, &j.Command, "it is a single text: write a list, such as [%s], or add shell: true to run it with /bin/sh", quoted(strings.Fields(option.Clip(j.Command.line))))
	case j.Command.line == "" && shell:
		c.Fault(j, &j.Shell, "shell is true, but command is a list: write command as a single text, or remove shell")
	}
}

// tmpfs checks the file systems in memory: together they fit into memory_limit, and none is
// inside another.
func (c *checker) tmpfs(j *Job) {
	limit := or(j.MemoryLimit, option.Default(j, &j.MemoryLimit))
	at, alone := any(&j.TmpfsPath), j.TmpfsPath != nil || j.TmpfsSize != nil
	switch {
	case alone && j.Tmpfs != nil:
		c.Fault(j, &j.Tmpfs, "tmpfs_path or tmpfs_size is set too: list all file systems here")
	case j.Tmpfs != nil:
		at = &j.Tmpfs
	case j.TmpfsPath != nil:
		if j.TmpfsSize != nil {
			at = &j.TmpfsSize
		}
		j.Tmpfs = []*tmpfs{{Path: j.TmpfsPath, Size: ptr(or(j.TmpfsSize, limit))}}
	case alone && !c.Bad(j, &j.TmpfsPath):
		c.Fault(j, &j.TmpfsSize, "it has no effect without tmpfs_path: add tmpfs_path, a path in the workspace")
	}
	if sum := tmpfsSum(j); sum > limit && !c.Bad(j, &j.MemoryLimit) {
		c.Fault(j, at, "%s is more than memory_limit, %s, but its content counts as the job's memory: reduce it, or raise memory_limit",
			resource.FormatSize(sum), resource.FormatSize(limit))
	}
	for i, v := range j.Tmpfs {
		for _, other := range j.Tmpfs[:i] {
			if inner, outer := text(v.Path), text(other.Path); inner != "" && outer != "" && meet(inner, outer) {
				c.Fault(j, at, "%q and %q overlap: neither path may be inside the other", outer, inner)
			}
		}
	}
}

// tmpfsSum returns the size of all file systems in memory.
func tmpfsSum(j *Job) int64 {
	sum := int64(0)
	for _, v := range j.Tmpfs {
		sum += or(v.Size, 0)
	}
	return sum
}

// files completes the paths of files in the workspace, and checks that no two overlap.
func (c *checker) files(j *Job) {
	for i, f := range j.Files {
		if f.Source == nil || c.Bad(f, &f.Path) {
			continue
		}
		if _, err := namesIn(text(f.Source), sourceNames); err != nil {
			c.Fault(f, &f.Source, "%v", err)
			continue
		}
		if _, err := namesIn(text(f.Path), sourceNames); err != nil {
			c.Fault(f, &f.Path, "%v", err)
			continue
		}
		if f.Path == nil {
			f.Path = ptr(workspacePath(f.Source.base()))
		}
		if *f.Path == "" {
			c.Fault(f, nil, "%q names a folder: jobs can be given only files, such as an archive of it", option.Clip(text(f.Source)))
			f.Path = nil
			continue
		}
		own, before := text(f.Path), len(c.Faults)
		for _, other := range j.Files[:i] {
			switch theirs := text(other.Path); {
			case other.Source == nil || theirs == "":
			case theirs == own:
				c.Fault(f, nil, "%q is also the path of %q: give one of them another path", own, option.Clip(text(other.Source)))
			case meet(own, theirs):
				c.Fault(f, nil, "%q and %q overlap: a path cannot be both a file and a folder", own, theirs)
			}
		}
		for _, v := range j.Tmpfs {
			if other := text(v.Path); other != "" && meet(own, other) {
				c.Fault(f, nil, "%q and the tmpfs %q overlap: files are on disk, so choose a path outside the tmpfs", own, other)
			}
		}
		if len(c.Faults) > before {
			f.Path = nil
		}
	}
}

func (c *checker) isolation(j *Job) {
	switch {
	case text(j.Isolation) == IsolationStrict && (text(j.User) == "root" || text(j.User) == "0"):
		c.Fault(j, &j.User, "with isolation: strict no job can be root: name another user, or leave it out")
	case text(j.Isolation) == IsolationNone:
		for _, who := range []**account{&j.User, &j.Group} {
			if *who != nil {
				c.Fault(j, who, "it has no effect with isolation: none: leave one of them out")
			}
		}
	}
}

func (c *checker) restarts(t *Task) {
	if t.RestartCode != nil && t.Signal == nil && !c.Bad(&t.Job, &t.Signal) {
		c.Fault(t, &t.RestartCode, withoutSignal)
	}
}

// handOver completes max_surge, the number of instances of a service that are replaced before they
// are asked to stop: 1 for a service with readiness. It also checks min_available.
func (c *checker) handOver(t *Task) {
	service := or(t.RestartCompleted, false) && t.Signal != nil
	switch {
	case t.MaxSurge == nil && service && t.Readiness != nil:
		t.MaxSurge = ptr(int64(1))
	case or(t.MaxSurge, 0) > 0 && !service && !c.Bad(&t.Job, &t.Signal):
		c.Fault(t, &t.MaxSurge, "it has no effect without restart_completed_jobs: true and an interruption_signal: add them, or leave it out")
	case or(t.MinAvailable, 0) > 0 && t.Signal == nil && !c.Bad(&t.Job, &t.Signal):
		c.Fault(t, &t.MinAvailable, "it has no effect without an interruption_signal: add one, or leave it out")
	}
	if t.JobCount != nil && or(t.MinAvailable, 0) > *t.JobCount {
		c.Fault(t, &t.MinAvailable, "%d is more than job_count, %d: that many instances can never be ready", *t.MinAvailable, *t.JobCount)
	}
}

func (c *checker) gang(t *Task) {
	if t.Gang == nil {
		return
	}
	if or(t.RestartCompleted, false) {
		c.Fault(t, &t.Gang, "cannot be combined with restart_completed_jobs, since a gang is done once all its ranks have completed: remove one of the two options")
	}
	jobs := or(t.JobCount, 0)
	if size := or(t.Gang.Size, 0); size > jobs && t.JobCount != nil {
		c.Fault(t.Gang, &t.Gang.Size, "%d is more than job_count, %d", size, jobs)
	} else if size == 0 {
		t.Gang.Size = ptr(jobs)
	}
	if size := *t.Gang.Size; size > MaxGang {
		c.Fault(t, &t.Gang, "a gang of %d jobs: at most %d can start together", size, MaxGang)
	}
}

var (
	// destinationNames are the names that may be in braces in a destination. The last two
	// differ between the jobs of a task.
	destinationNames = []string{"operation_id", "task", "cookie", "job_id"}
	// sourceNames are the names that may be in braces in the source and the path of a file that
	// a job gets.
	sourceNames = []string{"operation_id", "task", "cookie"}
)

// namesIn returns the names in braces in a place. It returns an error that lists the known names
// if one is unknown.
func namesIn(place string, known []string) (names []string, err error) {
	for rest := place; ; {
		_, after, open := strings.Cut(rest, "{")
		if !open {
			return names, nil
		}
		name, next, closed := strings.Cut(after, "}")
		if !closed || !slices.Contains(known, name) {
			return nil, fmt.Errorf("%q: { must be followed by one of %s, and }", option.Clip(place), strings.Join(known, ", "))
		}
		names, rest = append(names, name), next
	}
}

// outputs checks that each kept file has a destination of its own.
func (c *checker) outputs(t *Task) {
	for i, k := range t.Outputs {
		destination := text(k.Destination)
		names, err := namesIn(destination, destinationNames)
		own := slices.Contains(names, "cookie") || slices.Contains(names, "job_id")
		switch {
		case destination == "":
		case err != nil:
			c.Fault(k, &k.Destination, "%v", err)
		case strings.HasSuffix(destination, "/"):
			c.Fault(k, &k.Destination, "%q ends with a slash: write the path that %q gets", option.Clip(destination), text(k.Path))
		case or(t.JobCount, 0) > 1 && !own:
			c.Fault(k, &k.Destination, "%q is the same for all %d jobs: add {cookie} to it", option.Clip(destination), *t.JobCount)
		case slices.ContainsFunc(t.Outputs[:i], func(other *kept) bool { return text(other.Destination) == destination }):
			c.Fault(k, &k.Destination, "%q is used twice: one file would replace the other", option.Clip(destination))
		}
	}
}

// destinations checks that no two tasks keep files at the same destination.
func (c *checker) destinations(o *VanillaOperation, tasks []*statepb.TaskSpec) {
	keeps := map[string]string{}
	for _, task := range tasks {
		for _, kept := range task.GetOutputs() {
			destination := kept.GetDestination()
			if strings.Contains(destination, "{task}") || strings.Contains(destination, "{job_id}") {
				continue
			}
			if other, taken := keeps[destination]; taken && destination != "" && other != task.GetName() {
				c.Fault(o, &o.Tasks, "%s and %s both keep a file at %q, where one would replace the other: add {task} to it", other, task.GetName(), option.Clip(destination))
			}
			keeps[destination] = task.GetName()
		}
	}
}

// readiness checks that exactly one kind of check is set, and that the other options have an effect.
func (c *checker) readiness(t *Task) {
	r := t.Readiness
	if r == nil {
		return
	}
	ways := 0
	for _, way := range []any{&r.HTTP, &r.TCP, &r.Exec, &r.Socket} {
		if c.Given(r, way) != nil {
			ways++
		}
	}
	if ways != 1 {
		c.Fault(t, &t.Readiness, "it has %d of http, tcp, exec, socket: write exactly one of them, such as http: /ready", ways)
		return
	}
	for _, way := range []**bool{&r.TCP, &r.Socket} {
		if *way != nil && !**way {
			c.Fault(r, way, "it is false: leave it out, and write one of http, tcp, exec, socket")
		}
	}
	asksPort, ports := c.Given(r, &r.HTTP) != nil || c.Given(r, &r.TCP) != nil, or(t.PortCount, 0)
	switch {
	case r.Port != nil && !asksPort:
		c.Fault(r, &r.Port, "port applies only to an http or tcp check, and neither is set: remove port")
	case asksPort && ports == 0 && !c.Bad(&t.Job, &t.PortCount):
		c.Fault(r, &r.Port, "the task has no ports: add port_count, and have it listen at $WEIR_HOST:$WEIR_PORT_0")
	case asksPort && or(r.Port, 0) >= ports && ports > 0:
		c.Fault(r, &r.Port, "%d is beyond the task's port_count, %d: ports are counted from 0", or(r.Port, 0), ports)
	}
	if c.Given(r, &r.Socket) == nil {
		return
	}
	for _, way := range []any{&r.Period, &r.Timeout, &r.Failures} {
		if c.Given(r, way) != nil {
			c.Fault(r, way, "it says how an instance is checked, but with socket the instance reports its own state: leave it out")
		}
	}
}

// memory returns the memory reserve settings of the jobs of a task, completed as J.1.2 says: first
// memory_reserve_factor replaces the default and the lower bound, then both are raised to at least
// the size of the tmpfs.
func (c *checker) memory(j *Job, outer memory.Options) *statepb.MemorySpec {
	m := c.proxyDigest(j, &j.ProxyDigest, j.ProxyDigest, outer)
	m.UserDefault, m.UserLower = or(j.DigestDefault, outer.UserDefault), or(j.DigestLower, outer.UserLower)
	if j.ReserveFactor != nil {
		m = m.WithReserveFactor(*j.ReserveFactor)
	}
	m = m.WithTmpfs(tmpfsSum(j), or(j.MemoryLimit, option.Default(j, &j.MemoryLimit)))
	return &statepb.MemorySpec{
		DigestDefaultValue: m.UserDefault, DigestLowerBound: m.UserLower,
		ProxyDefaultValue: m.ProxyDefault, ProxyLowerBound: m.ProxyLower, ProxyUpperBound: m.ProxyUpper,
		UserOverdraftMultiplier: or(j.UserMultiplier, 0), ProxyOverdraftMultiplier: or(j.ProxyMultiplier, 0), Profile: text(j.MemoryProfile),
	}
}

// proxyDigest returns the settings `outer`, with the job proxy's bounds replaced by those that are
// set in `own`. It reports faults at the option `field` of the struct `of`.
func (c *checker) proxyDigest(of, field any, own *proxyDigest, outer memory.Options) memory.Options {
	if own == nil || c.Bad(own, &own.Default) || c.Bad(own, &own.Lower) || c.Bad(own, &own.Upper) {
		return outer
	}
	m := outer
	m.ProxyDefault, m.ProxyLower, m.ProxyUpper = or(own.Default, m.ProxyDefault), or(own.Lower, m.ProxyLower), or(own.Upper, m.ProxyUpper)
	switch {
	case m.ProxyLower > m.ProxyUpper:
		c.Fault(of, field, "lower_bound %v is above upper_bound %v: reduce lower_bound", m.ProxyLower, m.ProxyUpper)
	case m.ProxyDefault < m.ProxyLower || m.ProxyDefault > m.ProxyUpper:
		c.Fault(of, field, "default_value %v is not between lower_bound %v and upper_bound %v: change them; the values if not set are %v, %v and %v", m.ProxyDefault,
			m.ProxyLower, m.ProxyUpper, outer.ProxyDefault, outer.ProxyLower, outer.ProxyUpper)
	}
	return m
}
