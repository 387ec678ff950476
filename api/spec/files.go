package spec

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"weir/messages/statepb"
)

// Options that say which files a job finds, and which of its files are kept.
const (
	fieldFilePaths   = "file_paths"
	fieldOutputPaths = "output_paths"
	fieldDiskLimit   = "disk_limit"

	fieldSource      = "source"
	fieldExecutable  = "executable"
	fieldDestination = "destination"
)

const (
	// MaxFiles bounds the files that a job finds.
	MaxFiles = 1000
	// MaxOutputs bounds the files that are kept.
	MaxOutputs = 100
	// MinDiskLimit is the least that a workspace may take on disk.
	MinDiskLimit = 1 << 20
	// MaxDiskLimit is the most.
	MaxDiskLimit = 64 << 40
)

var fileFields = []string{fieldFilePaths, fieldOutputPaths, fieldDiskLimit}

// files takes which files there are when a job begins, and which are kept. The tmpfs
// of the task is known.
func (o options) files(task *statepb.TaskSpec) {
	task.DiskLimit = o.bytes(fieldDiskLimit, 0, MinDiskLimit, MaxDiskLimit)
	for _, item := range o.items(fieldFilePaths, MaxFiles) {
		if file := item.file(); file != nil && item.isFree(file, task) {
			task.Files = append(task.Files, file)
		}
	}
	for _, item := range o.items(fieldOutputPaths, MaxOutputs) {
		if own, ok := item.fields(fieldPath, fieldDestination); ok {
			kept := &statepb.KeptFile{Path: own.workspacePath(fieldPath), Destination: own.place(fieldDestination, "where is it to be kept?")}
			own.checkDestination(kept, task)
			task.Outputs = append(task.Outputs, kept)
		}
	}
}

// file returns a file that is named by its place alone, or with its path in the
// workspace; nil after a fault.
func (i item) file() *statepb.FileSpec {
	before := len(i.c.faults)
	file := &statepb.FileSpec{}
	if i.value.kind == text {
		file.Source = i.value.text
		if err := checkPlace(file.GetSource()); err != nil {
			i.fault("%v", err)
		} else if _, err := namesIn(file.GetSource(), sourceNames); err != nil {
			i.fault("%v", err)
		} else if file.Path = baseOf(file.GetSource()); file.GetPath() == "" {
			i.fault("%q names no file: a folder cannot be given to jobs, an archive of it can", clip(file.GetSource()))
		}
	} else {
		own, ok := i.fields(fieldSource, fieldPath, fieldExecutable)
		if !ok {
			return nil
		}
		file.Source = own.place(fieldSource, "which file is it?")
		if file.Path = baseOf(file.GetSource()); own.set[fieldPath] != nil || file.GetPath() == "" {
			file.Path = own.workspacePath(fieldPath)
			if _, err := namesIn(file.GetPath(), sourceNames); err != nil {
				own.fault(fieldPath, "%v", err)
			}
		}
		if _, err := namesIn(file.GetSource(), sourceNames); err != nil {
			own.fault(fieldSource, "%v", err)
		}
		file.Executable = own.truth(fieldExecutable)
	}
	if len(i.c.faults) > before {
		return nil
	}
	return file
}

// baseOf returns the last name of a path or URL, empty for that of a folder.
func baseOf(place string) string {
	if name := path.Base(place); !strings.HasSuffix(place, "/") && name != ".." && name != "." {
		return name
	}
	return ""
}

// isFree tells whether a file has a path of its own in the workspace.
func (i item) isFree(file *statepb.FileSpec, task *statepb.TaskSpec) bool {
	before := len(i.c.faults)
	for _, other := range task.GetFiles() {
		switch {
		case other.GetPath() == file.GetPath():
			i.fault("%q is the path of %q too: give one of them another path", file.GetPath(), clip(other.GetSource()))
		case isWithin(file.GetPath(), other.GetPath()) || isWithin(other.GetPath(), file.GetPath()):
			i.fault("%q and %q lie one in the other: no path can be a file and a folder", file.GetPath(), other.GetPath())
		}
	}
	for _, v := range task.GetTmpfs() {
		if isWithin(file.GetPath(), v.GetPath()) || isWithin(v.GetPath(), file.GetPath()) {
			i.fault("%q and the tmpfs %q lie one in the other: files are on disk, put it beside the tmpfs", file.GetPath(), v.GetPath())
		}
	}
	return len(i.c.faults) == before
}

var (
	// destinationNames are what may stand between braces in a destination; each job has
	// its own of the last two.
	destinationNames = []string{"operation_id", "task", "cookie", "job_id"}
	// sourceNames are what may stand there in the place and the path of a file that a job
	// finds: one of a job's id is nowhere before the job.
	sourceNames = []string{"operation_id", "task", "cookie"}
)

// namesIn returns what stands between braces in a place, of which all must be known.
func namesIn(place string, known []string) (names []string, err error) {
	for rest := place; ; {
		_, after, open := strings.Cut(rest, "{")
		if !open {
			return names, nil
		}
		name, next, closed := strings.Cut(after, "}")
		if !closed || !slices.Contains(known, name) {
			return nil, fmt.Errorf("%q: after { there is one of %s, and }", clip(place), strings.Join(known, ", "))
		}
		names, rest = append(names, name), next
	}
}

// checkDestination checks that a kept file has a destination of its own.
func (o options) checkDestination(kept *statepb.KeptFile, task *statepb.TaskSpec) {
	destination := kept.GetDestination()
	if destination == "" {
		return
	}
	names, err := namesIn(destination, destinationNames)
	if err != nil {
		o.fault(fieldDestination, "%v", err)
		return
	}
	own := slices.Contains(names, "cookie") || slices.Contains(names, "job_id")
	switch {
	case strings.HasSuffix(destination, "/"):
		o.fault(fieldDestination, "%q ends with a slash: write the path that %q gets", clip(destination), kept.GetPath())
	case task.GetJobCount() > 1 && !own:
		o.fault(fieldDestination, "%q is the same for all %d jobs: add {cookie} to it", clip(destination), task.GetJobCount())
	case slices.ContainsFunc(task.GetOutputs(), func(other *statepb.KeptFile) bool { return other.GetDestination() == destination }):
		o.fault(fieldDestination, "%q is there twice: one would take the place of the other", clip(destination))
	}
}

// checkDestinations checks that no two tasks keep files at one place.
func (o options) checkDestinations(tasks []*statepb.TaskSpec) {
	keeps := map[string]string{}
	for _, task := range tasks {
		for _, kept := range task.GetOutputs() {
			destination := kept.GetDestination()
			if strings.Contains(destination, "{task}") || strings.Contains(destination, "{job_id}") {
				continue
			}
			if other, taken := keeps[destination]; taken && destination != "" && other != task.GetName() {
				o.fault(fieldTasks, "%s and %s both keep a file at %q, and one would take the place of the other: add {task} to it", other, task.GetName(), clip(destination))
			}
			keeps[destination] = task.GetName()
		}
	}
}

func formatFiles(out map[string]any, task *statepb.TaskSpec) {
	if task.GetDiskLimit() != 0 {
		out[fieldDiskLimit] = task.GetDiskLimit()
	}
	var files, outputs []any
	for _, f := range task.GetFiles() {
		files = append(files, map[string]any{fieldSource: f.GetSource(), fieldPath: f.GetPath(), fieldExecutable: f.GetExecutable()})
	}
	for _, f := range task.GetOutputs() {
		outputs = append(outputs, map[string]any{fieldPath: f.GetPath(), fieldDestination: f.GetDestination()})
	}
	if files != nil {
		out[fieldFilePaths] = files
	}
	if outputs != nil {
		out[fieldOutputPaths] = outputs
	}
}
