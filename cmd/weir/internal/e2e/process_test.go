package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proctree"
)

// patience is how long a test waits for what takes seconds at most on a machine that
// has nothing else to do.
const patience = 60 * time.Second

// glance is how soon a test looks again whether what it waits for has come, at first; rarely, when it
// has waited for long: each look asks replicas that are busy with the other tests.
const glance, rarely = 25 * time.Millisecond, 100 * time.Millisecond

// until waits until check says nothing. What it said last is why the test fails.
func until(t testing.TB, what string, check func() string) {
	t.Helper()
	if missing := settle(patience, check); missing != "" {
		t.Fatalf("%s: not after %v: %s", what, patience, missing)
	}
}

// settle waits until check says nothing, and returns what it said last.
func settle(timeout time.Duration, check func() string) string {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for began := time.Now(); ; {
		missing := check()
		if missing == "" {
			return ""
		}
		select {
		case <-time.After(min(max(time.Since(began)/8, glance), rarely)):
		case <-ctx.Done():
			return missing
		}
	}
}

// launcher starts processes that end with this one, however it ends: Linux ends them
// when the thread that started them does, so that thread does nothing else.
type launcher struct {
	work chan func()
	// program is what it starts; empty: the weir that was built for the tests.
	program string
}

func newLauncher() *launcher {
	l := &launcher{work: make(chan func())}
	go func() {
		// Never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		for work := range l.work {
			work()
		}
	}()
	return l
}

// do calls work on the launcher's thread.
func (l *launcher) do(work func() error) error {
	done := make(chan error)
	l.work <- func() { done <- work() }
	return <-done
}

func (l *launcher) close() { close(l.work) }

// process is a weir that a test started.
type process struct {
	name string
	// log takes what it prints; what it printed begins at start.
	log   string
	start int64
	cmd   *exec.Cmd
	// ended is closed when it has, and err says how.
	ended chan struct{}
	err   error
	// paused: it stands still, until resume.
	paused atomic.Bool
}

// launch starts weir with arguments. What it prints is appended to the log.
func (l *launcher) launch(name, log string, arguments ...string) (*process, error) {
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p := &process{name: name, log: log, ended: make(chan struct{})}
	if p.start, err = file.Seek(0, io.SeekEnd); err != nil {
		return nil, err
	}
	p.cmd = exec.Command(cmp.Or(l.program, program("weir")), arguments...)
	p.cmd.Dir = filepath.Dir(log)
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}
	if err := l.do(p.cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// pause stops the process as it stands.
func (p *process) pause(t testing.TB) {
	t.Helper()
	p.paused.Store(true)
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

// resume lets the process go on.
func (p *process) resume(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.paused.Store(false)
}

// kill ends the process at once and waits until it is gone.
func (p *process) kill() {
	// It may have ended by itself.
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// stop asks the process to end, and ends it if it does not.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if p.paused.Load() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(patience):
		// It ends with its goroutines in the log.
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		<-p.ended
		return fmt.Errorf("%s did not stop within %v of SIGTERM:\n%s", p.name, patience, tail(p.printed(), 400))
	}
}

// exit waits until the process has ended and returns its exit code.
func (p *process) exit(t testing.TB) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("%s still runs after %v\n%s", p.name, patience, p.printed())
	}
	var exit *exec.ExitError
	if errors.As(p.err, &exit) {
		return exit.ExitCode()
	}
	if p.err != nil {
		t.Fatalf("%s: %v", p.name, p.err)
	}
	return 0
}

// printed returns what the process has printed.
func (p *process) printed() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(data[min(p.start, int64(len(data))):])
}

// says waits until the process has printed a text.
func (p *process) says(t testing.TB, text string) {
	t.Helper()
	until(t, fmt.Sprintf("%s says %q", p.name, text), func() string {
		switch printed := p.printed(); {
		case strings.Contains(printed, text):
			return ""
		case p.over():
			t.Fatalf("%s ended (%v) without saying %q:\n%s", p.name, p.err, text, printed)
			return ""
		default:
			return "it said " + tail(printed, 3)
		}
	})
}

// tail returns the last lines of a text.
func tail(text string, count int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}

// reason returns the lines of what weir printed that say why it failed. They need not be the last ones: a
// library may log until the process ends.
func reason(t testing.TB, printed string) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(printed) {
		if strings.HasPrefix(line, "weir: ") {
			lines = append(lines, line)
		}
	}
	if lines == nil {
		t.Errorf("it printed no reason:\n%s", printed)
	}
	return strings.Join(lines, "")
}

// weir runs a verb of weir that ends by itself, and returns what it printed and its
// exit code.
func weir(t testing.TB, arguments ...string) (printed string, code int) {
	t.Helper()
	return weirOf(t, program("weir"), arguments...)
}

// weirOf is like weir, with the weir at a path.
func weirOf(t testing.TB, path string, arguments ...string) (printed string, code int) {
	t.Helper()
	return weirWithin(t, patience, path, arguments...)
}

// weirWithin is weirOf for what may take longer than patience.
func weirWithin(t testing.TB, within time.Duration, path string, arguments ...string) (printed string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, arguments...)
	cmd.Dir = t.TempDir()
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("weir %s: %v\n%s", strings.Join(arguments, " "), errors.Join(err, ctx.Err()), said.String()+out.String())
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 || !slices.Contains(arguments, "json") {
		return said.String() + out.String(), code
	}
	// For programs: that a replica was tried again is said on standard error.
	return out.String(), 0
}

// processesWith returns the ids of the processes whose command line or environment
// has a text.
func processesWith(text string) (pids []string) {
	all, err := proctree.All()
	if err != nil {
		panic(err)
	}
	has := func(word string) bool { return strings.Contains(word, text) }
	for _, process := range all {
		if process.Pid == os.Getpid() {
			continue
		}
		// First: this waits for a process that is between two programs, and shows nothing.
		found := slices.ContainsFunc(proctree.Arguments(process), has)
		// A process that has ended meanwhile has none.
		environment, _ := os.ReadFile(filepath.Join("/proc", fmt.Sprint(process.Pid), "environ"))
		if found || bytes.Contains(environment, []byte(text)) {
			pids = append(pids, fmt.Sprint(process.Pid))
		}
	}
	return pids
}
