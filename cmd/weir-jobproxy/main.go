package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

// heapLimit, in bytes, makes the collector work harder rather than let the proxy grow. The
// runtime alone takes half of it. With a smaller limit the collector would run all the time.
const heapLimit = 8 << 20

func main() {
	// One processor is enough, and each further one costs memory.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(25)
	debug.SetMemoryLimit(heapLimit)
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == becomeArgument:
		runBecome()
	case len(os.Args) == 2:
		err = run(os.Args[1])
	case len(os.Args) == 4 && os.Args[1] == proxyproto.CheckArgument:
		err = check(os.Args[2], os.Args[3])
	default:
		fmt.Fprintln(os.Stderr, "usage: weir-jobproxy FOLDER\n\nRuns the job whose spec.json is in FOLDER. Only node agents start it.")
		os.Exit(2)
	}
	log().flush()
	if err != nil {
		fmt.Fprintln(os.Stderr, "weir-jobproxy:", err)
		os.Exit(1)
	}
}

func run(folder string) error {
	spec, err := readSpec(folder)
	if err != nil {
		return err
	}
	if spec.HasSecrets {
		if err := readSecrets(spec, os.NewFile(proxyproto.SecretsDescriptor, "secrets")); err != nil {
			return err
		}
	}
	listener, err := inheritedListener()
	if err != nil {
		return err
	}
	if err := keepDescriptors(); err != nil {
		return err
	}
	if err := ownMounts(spec); err != nil {
		return err
	}
	// From here on a restarted agent can find this process. After a power failure there is no
	// process to find, so nothing needs to be synced.
	self, err := proctree.Self()
	if err != nil {
		return err
	}
	if _, err := os.Stderr.Write(self.Identity.LogLine()); err != nil {
		return fmt.Errorf("write the identity of this process: %w", err)
	}
	outside := outside{self: self.Identity}
	if spec.Separated() {
		if outside.proc, err = ownProcesses(); err != nil {
			return fmt.Errorf("separate the job's processes from the node's: %w", err)
		}
	}
	// Orphans of the job become children of the proxy.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the subreaper of the job: %w", err)
	}
	// Ctrl-C in a terminal or a closed session must not end the job. The signals are caught rather
	// than ignored, because the command would inherit ignored signals as ignored.
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGHUP)
	told := make(chan os.Signal, 1)
	signal.Notify(told, unix.SIGTERM)

	h := host{outside: outside, server: newServer(listener), signals: told}
	s := newSupervisor(folder, spec, outside, h.server, told)
	s.claim = inheritedClaim(spec)
	return h.run(s)
}

// readSpec reads the spec of the job that has this folder.
func readSpec(folder string) (*proxyproto.Spec, error) {
	data, err := os.ReadFile(filepath.Join(folder, proxyproto.SpecFile))
	if err != nil {
		return nil, fmt.Errorf("read job spec: %w", err)
	}
	return proxyproto.ParseSpec(data)
}

// readSecrets reads the secrets that the agent has put into memory, and closes the file.
func readSecrets(spec *proxyproto.Spec, file *os.File) error {
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("read secrets: %w", err)
	}
	content := make([]byte, info.Size())
	if n, err := file.ReadAt(content, 0); n < len(content) {
		return fmt.Errorf("read secrets: %w", err)
	}
	spec.Secrets = proxyproto.SplitSecrets(string(content))
	clear(content)
	return nil
}

// inheritedClaim returns the claim to the job's user if that is its own.
func inheritedClaim(spec *proxyproto.Spec) *os.File {
	number := uintptr(proxyproto.SecretsDescriptor)
	if spec.HasSecrets {
		number++
	}
	if spec.User == nil || !spec.User.Own {
		return nil
	}
	return os.NewFile(number, "claim")
}

// forgetSecrets drops the secrets of a job whose command has been started, or never will be.
func forgetSecrets(spec *proxyproto.Spec) {
	spec.Secrets = nil
}

// inheritedListener returns the listener on the socket that the agent opened.
func inheritedListener() (net.Listener, error) {
	file := os.NewFile(proxyproto.ListenerDescriptor, proxyproto.SocketFile)
	listener, err := net.FileListener(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("listen on descriptor %d: %w", proxyproto.ListenerDescriptor, err)
	}
	return listener, nil
}

// keepDescriptors makes sure that jobs do not inherit descriptors that the agent was started
// with and left open, such as a pipe of its shell.
func keepDescriptors() error {
	const first = 3
	if err := unix.CloseRange(first, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err == nil {
		return nil
	}
	// The kernel is older than 5.11.
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list open descriptors: %w", err)
	}
	for _, entry := range open {
		if number, err := strconv.Atoi(entry.Name()); err == nil && number >= first {
			unix.CloseOnExec(number)
		}
	}
	return nil
}
