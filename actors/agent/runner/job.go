package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

const (
	// stopMargin is how long after its grace a job may take to end before its
	// proxy is taken to be broken.
	stopMargin = 30 * time.Second
	// leaveTimeout is how long a released proxy may take to go.
	leaveTimeout = 5 * time.Second
)

// Job is one job, from Start to Release.
type Job struct {
	runner *Runner
	id     string
	events chan Event
	// ended is closed when result is set and told.
	ended chan struct{}
	// left is closed when the job is to go on without this process, followed when
	// nobody listens to its proxy any more.
	left, followed chan struct{}
	// place is where its control group is.
	place proxyproto.Placement
	// user is who its processes are; nil: who the agent is.
	user *proxyproto.User
	// socket is the path by which it reaches its discovery socket.
	socket string
	// tried is closed when start has returned; proxy, identity and begun are set.
	tried    chan struct{}
	proxy    *proxyProcess
	identity proxyproto.Identity
	begun    time.Time

	// discovery takes what the job asks; nil: it could not be opened again.
	discovery *net.UnixListener

	mu   sync.Mutex
	conn *net.UnixConn
	// version is what the proxy speaks; renewsUntil: it understands until when it is renewed.
	version     int
	renewsUntil bool
	started     *proxyproto.Started
	last        Statistics
	result      *Result
	// hung is closed by hangs when a proxy that was killed is there still.
	hung  chan struct{}
	hangs func()
	// probing takes the outcome of the probe that runs; nil: none does.
	probing chan proxyproto.Probed
	// fault is why the proxy is of no use.
	fault error
	// overdue kills the proxy at due, should the job not have ended as it was told.
	overdue *time.Timer
	due     time.Time
}

func newJob(r *Runner, id string) *Job {
	hung := make(chan struct{})
	return &Job{
		hung:     hung,
		hangs:    sync.OnceFunc(func() { close(hung) }),
		runner:   r,
		id:       id,
		place:    cgroup.Job(r.config.Cgroups.Node, id),
		socket:   r.paths.discovery(id),
		version:  proxyproto.Version,
		events:   make(chan Event, eventBuffer),
		ended:    make(chan struct{}),
		left:     make(chan struct{}),
		followed: make(chan struct{}),
		tried:    make(chan struct{}),
	}
}

// ID is the job's id.
func (j *Job) ID() string { return j.id }

// Events tells what happens to the job. The channel is closed after Exited, or by
// Runner.Leave.
func (j *Job) Events() <-chan Event { return j.events }

// Result is the end of the job, nil while it runs.
func (j *Job) Result() *Result {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.result
}

// Signal sends a signal ("SIGINT") to all processes of the job, or to its root
// process only.
func (j *Job) Signal(name string, rootOnly bool) error {
	if unix.SignalNum(name) == 0 {
		return fmt.Errorf("signal job %s: unknown signal %.40q, want one like SIGINT", j.id, name)
	}
	return j.tell(proxyproto.Message{Signal: &proxyproto.Signal{Name: name, RootOnly: rootOnly}})
}

// Stop ends the job: SIGTERM to all processes now, the end of all of them after
// grace; with grace 0 they are killed at once. The first reason counts.
func (j *Job) Stop(reason string, grace time.Duration) error {
	return j.end(grace, proxyproto.Message{Stop: &proxyproto.Stop{Reason: reason, GraceMillis: millis(grace)}})
}

// end tells the proxy to end the job within grace, and sees to it that it does.
func (j *Job) end(grace time.Duration, message proxyproto.Message) error {
	if j.Result() != nil {
		return nil
	}
	if grace < 0 || millis(grace) > proxyproto.MaxMillis {
		return fmt.Errorf("%s job %s: grace %v is negative or too long", message.Name(), j.id, grace)
	}
	j.expect(grace)
	return j.tell(message)
}

// expect kills the proxy of a job that is there still well after its grace, or that of an
// earlier message if that ends before.
func (j *Job) expect(grace time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	due := time.Now().Add(grace + stopMargin)
	switch {
	case j.result != nil, j.overdue != nil && !due.Before(j.due):
		return
	case j.overdue != nil:
		j.overdue.Stop()
	}
	j.due = due
	j.overdue = time.AfterFunc(grace+stopMargin, func() {
		select {
		case <-j.ended:
		case <-j.left:
		default:
			j.runner.config.Logger.Error("job did not stop in time; killing its proxy", "job", j.id, "grace", grace)
			j.killProxy()
		}
	})
}

// expectNothing forgets what was expected, so that nothing holds a job that has ended. mu
// is held.
func (j *Job) expectNothing() {
	if j.overdue != nil {
		j.overdue.Stop()
	}
}

// renew tells the proxy of a lease which ends at that time since the boot of the machine, so
// much from now.
func (j *Job) renew(end, lease time.Duration) error {
	renew := &proxyproto.Renew{LeaseMillis: millis(lease)}
	j.mu.Lock()
	if j.renewsUntil {
		renew.EndMillis = end.Milliseconds()
	}
	j.mu.Unlock()
	return j.tell(proxyproto.Message{Renew: renew})
}

// tellTimeout limits how long a message to a proxy may wait for room in the socket's
// buffer, which it fits unless the proxy has been stopped for long.
const tellTimeout = time.Second

// send writes a line to a proxy.
func send(conn *net.UnixConn, line []byte) error {
	if err := conn.SetWriteDeadline(time.Now().Add(tellTimeout)); err != nil {
		return err
	}
	_, err := conn.Write(line)
	return err
}

// tell sends a message to the proxy.
func (j *Job) tell(message proxyproto.Message) error {
	line, err := message.Line()
	if err != nil {
		return fmt.Errorf("%s job %s: %w", message.Name(), j.id, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.conn == nil {
		return fmt.Errorf("%s job %s: %w", message.Name(), j.id, ErrUnreachable)
	}
	if err := send(j.conn, line); err != nil {
		return fmt.Errorf("%s job %s: %w: %w", message.Name(), j.id, ErrUnreachable, err)
	}
	return nil
}

// start makes the job's folders and starts its proxy. The connection is there
// before the proxy is, so from now on the job can be told anything.
func (j *Job) start(ctx context.Context, spec *proxyproto.Spec, furnish func(workspace string) error) error {
	defer close(j.tried)
	paths := j.runner.paths
	j.user, j.socket = spec.User, socketIn(spec.Environment)
	if err := j.makeFolders(spec); err != nil {
		return err
	}
	if furnish != nil {
		if err := furnish(spec.Workspace); err != nil {
			return err
		}
	}
	if err := ownFolders(spec.Workspace, spec.User); err != nil {
		return err
	}
	if err := j.openDiscovery(); err != nil {
		return err
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if err := os.WriteFile(paths.file(j.id, proxyproto.SpecFile), data, 0o600); err != nil {
		return err
	}
	socket, err := j.listen()
	if err != nil {
		return err
	}
	defer socket.Close()
	conn, err := j.dial()
	if err != nil {
		return err
	}
	if err := j.startProxy(ctx, spec, socket, conn); err != nil {
		return errors.Join(err, conn.Close())
	}
	return nil
}

// makeFolders makes the job's folders. A job that is another user can go through those
// above its own, and sees nothing of them.
func (j *Job) makeFolders(spec *proxyproto.Spec) error {
	paths := j.runner.paths
	above := os.FileMode(0o700)
	if spec.User != nil {
		above = 0o711
		for _, folder := range []string{paths.root, paths.jobs()} {
			if err := os.Chmod(folder, above); err != nil {
				return err
			}
		}
	}
	if err := os.Mkdir(paths.job(j.id), above); err != nil {
		return err
	}
	for _, folder := range []string{spec.Workspace, spec.OutputFolder} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
	}
	// Whatever the umask is.
	return os.Chmod(paths.job(j.id), above)
}

// listen opens the socket for the proxy.
func (j *Job) listen() (*os.File, error) {
	var file *os.File
	err := j.withPath(proxyproto.SocketFile, func(path string) error {
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			return err
		}
		listener.SetUnlinkOnClose(false)
		file, err = listener.File()
		return errors.Join(err, listener.Close(), os.Chmod(path, 0o600))
	})
	return file, err
}

func (j *Job) dial() (*net.UnixConn, error) {
	var conn *net.UnixConn
	err := j.withPath(proxyproto.SocketFile, func(path string) (err error) {
		conn, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		return err
	})
	return conn, err
}

// withPath calls use with a path of a socket in the job's folder that is short enough:
// the address of a socket has 108 bytes, paths may be longer.
func (j *Job) withPath(name string, use func(path string) error) error {
	folder, err := os.Open(j.runner.paths.job(j.id))
	if err != nil {
		return err
	}
	defer folder.Close()
	return use(filepath.Join("/proc/self/fd", strconv.Itoa(int(folder.Fd())), name))
}

// startProxy starts the proxy in a session of its own, so that it outlives the
// agent and its terminal. What it mounts in a namespace of its own goes when it and the
// job have gone.
func (j *Job) startProxy(ctx context.Context, spec *proxyproto.Spec, socket *os.File, conn *net.UnixConn) error {
	log, err := os.OpenFile(j.runner.paths.file(j.id, proxyproto.LogFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	j.begun = time.Now()
	cmd := exec.Command(j.runner.config.ProxyPath, j.runner.paths.job(j.id))
	cmd.Dir = "/"
	cmd.Env = append(proxyEnvironment(), proxyproto.ProxyVariable+"="+j.runner.paths.job(j.id))
	cmd.Stderr = log
	cmd.ExtraFiles = []*os.File{socket}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if spec.AgentMounts != "" {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWNS
	}
	// What came before may have waited for a disk for long.
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := startCalm(cmd); err != nil {
		return err
	}
	j.identity = noProxy
	// It is not waited for yet, so the pid is its own even if it has ended.
	if process, err := proctree.Read(cmd.Process.Pid); err == nil {
		j.identity = process.Identity
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.proxy, j.conn = startedProxy(cmd), conn
	return nil
}

// Release says that the result is safe elsewhere: the proxy goes, the workspace
// is removed, and the output is kept as long as Config.Retain allows. The job
// must have ended. It takes some milliseconds, and may be called twice. As long as a
// process of the job, or its proxy, hangs so that nothing can end it, it fails and names it.
func (j *Job) Release() error {
	if err := j.release(); err != nil {
		return fmt.Errorf("release job %s: %w", j.id, err)
	}
	return nil
}

func (j *Job) release() error {
	if j.runner.Job(j.id) != j {
		// It has been released, or was never started.
		return nil
	}
	if j.Result() == nil {
		return errors.New("still running: stop it first")
	}
	// A proxy that is not there, or not to be reached, needs no telling.
	_ = j.tell(proxyproto.Message{Release: &proxyproto.Release{}})
	if j.awaitProxy(leaveTimeout) != nil {
		j.killProxy()
		if err := j.awaitProxy(leaveTimeout); err != nil {
			return err
		}
	}
	j.disconnect()
	if err := j.endHung(); err != nil {
		return err
	}
	if err := j.runner.paths.removeJob(j.id); err != nil {
		return err
	}
	return j.runner.finish(j)
}

func (j *Job) disconnect() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.conn != nil {
		_ = j.conn.Close()
		j.conn = nil
	}
}

// leave lets the job go on without this process.
func (j *Job) leave() {
	if j.proxy == nil {
		return
	}
	j.mu.Lock()
	j.expectNothing()
	close(j.left)
	j.mu.Unlock()
	j.disconnect()
	j.proxy.leave()
}
