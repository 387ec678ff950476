package runner

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

// proxyProcess is a job's proxy: a child of this process, or one that an earlier
// life of the agent has left.
type proxyProcess struct {
	// gone is closed when it has ended.
	gone chan struct{}
	// kill kills it, and end says how it ended, once it has.
	kill func() error
	end  func() string
	// leave stops waiting for it.
	leave func()
}

// startCalm starts a proxy whose timers may be late by proxyproto.TimerSlack.
func startCalm(cmd *exec.Cmd) error {
	// The thread's slack becomes that of the process which it starts.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	usual, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err == nil && unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(proxyproto.TimerSlack), 0, 0, 0) == nil {
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(usual), 0, 0, 0) }()
	}
	return cmd.Start()
}

// startedProxy waits for a child.
func startedProxy(cmd *exec.Cmd) *proxyProcess {
	p := &proxyProcess{
		gone:  make(chan struct{}),
		kill:  cmd.Process.Kill,
		end:   func() string { return cmd.ProcessState.String() },
		leave: func() {},
	}
	go func() {
		// The state is read from the process when it is needed.
		_ = cmd.Wait()
		close(p.gone)
	}()
	return p
}

// watchPeriod is how often an adopted proxy is looked at.
const watchPeriod = 100 * time.Millisecond

// adoptedProxy watches a process that is not a child. It may have ended already.
func adoptedProxy(id proxyproto.Identity) *proxyProcess {
	quit := make(chan struct{})
	p := &proxyProcess{
		gone:  make(chan struct{}),
		kill:  func() error { return proctree.Signal(id, unix.SIGKILL) },
		end:   func() string { return "exit status unknown: started by an earlier agent process" },
		leave: sync.OnceFunc(func() { close(quit) }),
	}
	go func() {
		for proctree.Alive(id) {
			select {
			case <-quit:
				return
			case <-time.After(watchPeriod):
			}
		}
		close(p.gone)
	}()
	return p
}

// storeVariables say how object stores are reached, and whose certificates they have. No
// job sees them.
var storeVariables = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
}

// oneProcessor keeps the runtime of a proxy from starting with more, which it would only
// give back. No job sees it.
const oneProcessor = "GOMAXPROCS=1"

// proxyEnvironment is what a proxy gets, of the agent's environment the stores' variables.
func proxyEnvironment() []string {
	found := []string{oneProcessor}
	for _, name := range storeVariables {
		if value, set := os.LookupEnv(name); set {
			found = append(found, name+"="+value)
		}
	}
	return found
}
