package proctree

import (
	"bytes"
	"os"
	"strings"
	"time"

	"weir/actors/agent/runner/proxyproto"
)

const (
	// execPatience is how long processes that are between two programs are waited for, all
	// together: their programs may be on a slow disk.
	execPatience = 10 * time.Second
	// execWait is the time between two looks at it.
	execWait = 100 * time.Microsecond
)

// startCode is the field of "stat" that says where the program of a process begins, counted
// from the state: field 26 of the manual page. It is 0 until all of the program is there.
const startCode = 23

// given is something that a process was given with its program: the file of /proc that
// shows it, and the field of "stat" that says where it begins, counted from the state. The
// next field says where it ends.
type given struct {
	file  string
	begin int
}

var (
	// arguments are fields 48 and 49 of the manual page (arg_start, arg_end).
	arguments = given{file: "cmdline", begin: 45}
	// environment are fields 50 and 51 (env_start, env_end).
	environment = given{file: "environ", begin: 47}
)

// Arguments is the command line of a process, nil if it cannot be read.
func Arguments(process Process) []string {
	return arguments.of(process, time.Now().Add(execPatience))
}

// marked says whether the process was started with proxyproto.TreeVariable or
// proxyproto.ProxyVariable set to mark. It is waited for until the deadline.
func marked(process Process, mark string, deadline time.Time) bool {
	for _, variable := range environment.of(process, deadline) {
		if variable == proxyproto.TreeVariable+"="+mark || variable == proxyproto.ProxyVariable+"="+mark {
			return true
		}
	}
	return false
}

// of reads what the process was given. All that it was given reads as empty for a moment
// while it goes from one program to the next (execve), so nothing is taken for empty that
// /proc does not show to be, until the deadline.
func (g given) of(process Process, deadline time.Time) []string {
	if process.Kernel || process.Gone {
		return nil
	}
	for ; ; time.Sleep(execWait) {
		// The last look begins after the deadline, however long the one before took.
		last := time.Now().After(deadline)
		data, err := process.readGiven(g.file)
		if err != nil {
			return nil
		}
		if len(data) > 0 {
			return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
		}
		if !process.waitsForProgram(g) || last {
			return nil
		}
	}
}

// readGiven reads a file of /proc about what all threads share. The first of them shows
// nothing of it once it has ended, though others live.
func (p Process) readGiven(file string) ([]byte, error) {
	if !p.Headless {
		return os.ReadFile(procPath(p.Pid, file))
	}
	threads, err := os.ReadDir(procPath(p.Pid, "task"))
	if err != nil {
		return nil, err
	}
	for _, thread := range threads {
		// A thread may have ended meanwhile.
		if data, err := os.ReadFile(procPath(p.Pid, "task/"+thread.Name()+"/"+file)); err == nil && len(data) > 0 {
			return data, nil
		}
	}
	return nil, nil
}

// waitsForProgram says whether a process of which nothing could be read may be between
// two programs: it lives on, and was not given nothing.
func (p Process) waitsForProgram(g given) bool {
	data, err := os.ReadFile(procPath(p.Pid, "stat"))
	if err != nil {
		return false
	}
	now, err := parseStat(data)
	if err != nil || now.Gone || now.Headless || now.Ending || now.Identity != p.Identity {
		return false
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) <= g.begin+1 {
		return false
	}
	return fields[startCode] == "0" || fields[g.begin] != fields[g.begin+1]
}
