package runner

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

// proxyProcess is a job's proxy: a child of this process, or of an earlier agent
// process.
type proxyProcess struct {
	// gone is closed when it has ended.
	gone chan struct{}
	// kill kills the proxy. Once the proxy has ended, end says how.
	kill func() error
	end  func() string
	// leave stops waiting for the proxy's end.
	leave func()
	// program is the file that this process has started it from, and born is when.
	program os.FileInfo
	born    time.Time
}

// startCalm starts a proxy whose timers may be late by proxyproto.TimerSlack.
func startCalm(cmd *exec.Cmd) error {
	// A process inherits the timer slack of the thread that starts it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	usual, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err == nil && unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(proxyproto.TimerSlack), 0, 0, 0) == nil {
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(usual), 0, 0, 0) }()
	}
	return cmd.Start()
}

// secretsFile returns a file in memory, without a name in any folder, from which a proxy reads its
// job's secrets.
func secretsFile(secrets []string) (*os.File, error) {
	descriptor, err := unix.MemfdCreate("weir-secrets", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory for secrets: %w", err)
	}
	file := os.NewFile(uintptr(descriptor), "secrets")
	if _, err := file.WriteString(proxyproto.JoinSecrets(secrets)); err != nil {
		return nil, errors.Join(fmt.Errorf("memory for secrets: %w", err), file.Close())
	}
	return file, nil
}

// startedProxy watches a proxy that is a child of this process. Once it has ended its connection does too, even if
// it had not accepted it: this process holds the socket open.
func startedProxy(cmd *exec.Cmd, program os.FileInfo, conn *net.UnixConn) *proxyProcess {
	p := &proxyProcess{
		program: program,
		born:    time.Now(),
		gone:    make(chan struct{}),
		kill:    cmd.Process.Kill,
		end:     func() string { return cmd.ProcessState.String() },
		leave:   func() {},
	}
	go func() {
		// Wait takes a thread for as long as it waits.
		if handle := openHandle(cmd.Process.Pid); handle != nil {
			_ = awaitEnd(handle) // Wait waits anyway
			_ = handle.Close()   // nothing was written to it
		}
		// The error is not needed: end reads the process state.
		_ = cmd.Wait()
		_ = conn.CloseRead() // fails only if it is closed
		close(p.gone)
	}()
	return p
}

// watchPeriod is how often an adopted proxy is polled where its end cannot be waited for.
const watchPeriod = 100 * time.Millisecond

// adoptedProxy watches a proxy that is not a child. It may have ended already. once is called when it
// has, before gone is closed.
func adoptedProxy(id proxyproto.Identity, once func()) *proxyProcess {
	quit := make(chan struct{})
	handle := openHandle(id.Pid)
	p := &proxyProcess{
		gone: make(chan struct{}),
		kill: func() error { return proctree.Signal(id, unix.SIGKILL) },
		end:  func() string { return "exit status unknown: started by an earlier agent process" },
		leave: sync.OnceFunc(func() {
			close(quit)
			_ = handle.Close() // fails only if it is closed, or nil
		}),
	}
	go func() {
		defer handle.Close()
		for proctree.Alive(id) {
			if awaitEnd(handle) == nil {
				break
			}
			select {
			case <-quit:
				return
			case <-time.After(watchPeriod):
			}
		}
		once()
		close(p.gone)
	}()
	return p
}

// openHandle returns a handle (pidfd) of a process; nil: the process has gone, or the kernel has no handles that wait.
func openHandle(pid int) *os.File {
	descriptor, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(descriptor), "pidfd")
}

// awaitEnd waits, without a thread, until the process of a handle has ended. It returns an error if it cannot wait.
func awaitEnd(handle *os.File) error {
	raw, err := handle.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(descriptor uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(descriptor), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
}

// storeVariables say through which proxies object stores are reached, and which certificates
// to trust. The job does not inherit them.
var storeVariables = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
}

// oneProcessor keeps the Go runtime of a proxy from setting up processors that it does not
// need. The job does not inherit it.
const oneProcessor = "GOMAXPROCS=1"

// proxyEnvironment is the environment of a proxy: oneProcessor, and the storeVariables that
// the agent has.
func proxyEnvironment() []string {
	found := []string{oneProcessor}
	for _, name := range storeVariables {
		if value, set := os.LookupEnv(name); set {
			found = append(found, name+"="+value)
		}
	}
	return found
}
