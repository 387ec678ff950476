package proctree

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"time"

	"weir/actors/agent/runner/proxyproto"
)

const (
	// execPatience is how long to wait, for all processes together, until those in the middle of an
	// execve have their new program, which may be on a slow disk.
	execPatience = 10 * time.Second
	// execWait is the pause before a process in an execve is read again.
	execWait = 100 * time.Microsecond
)

// startCode is the field of "stat" that says where the program of a process begins, counted from
// the state: field 26 of the manual page. It is 0 until the program is loaded.
const startCode = 23

// given describes data that a process was given with its program: the file of /proc that shows the
// data, and the field of "stat" that says where the data begins, counted from the state. The next
// field says where the data ends.
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

// marked reports whether the process was started with proxyproto.TreeVariable or
// proxyproto.ProxyVariable set to `mark`. During an execve it reads the environment again, until
// the deadline.
func marked(process Process, mark string, deadline time.Time) bool {
	return slices.ContainsFunc(environment.of(process, deadline), func(variable string) bool {
		return variable == proxyproto.TreeVariable+"="+mark || variable == proxyproto.ProxyVariable+"="+mark
	})
}

// of reads the data that the process was given. During an execve the data reads as empty for a
// moment. So until the deadline an empty value is accepted only if "stat" shows that the process
// was given nothing.
func (g given) of(process Process, deadline time.Time) []string {
	if process.Kernel || process.Gone {
		return nil
	}
	for ; ; time.Sleep(execWait) {
		// The last attempt begins after the deadline, however long the attempt before took.
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

// readGiven reads a file of /proc that is the same for all threads. Once the first thread has
// ended, its file is empty, even while other threads are alive.
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

// waitsForProgram reports whether a process whose file read as empty may be in the middle of an
// execve: it is alive, and "stat" does not show that it was given nothing.
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
