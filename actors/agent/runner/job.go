package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

const (
	// stopMargin is how long after its grace a job may take to end before its
	// proxy is considered broken and killed.
	stopMargin = 30 * time.Second
	// leaveTimeout is how long a released or killed proxy may take to exit.
	leaveTimeout = 5 * time.Second
)

// Job is one job, from Start to Release.
type Job struct {
	runner *Runner
	id     string
	events chan Event
	// ended is closed when result is set and Exited is sent.
	ended chan struct{}
	// left is closed when the job is to go on without this process. followed is closed when run has
	// returned, after which nothing listens to the job's proxy.
	left, followed chan struct{}
	// `place` is where the job's control group is.
	place proxyproto.Placement
	// user is the user its processes run as; nil: the agent's.
	user *proxyproto.User
	// claim keeps other jobs from getting the user if that is the job's own; nil: the proxy of an
	// adopted job keeps them. For such a job it is guarded by mu until the proxy is gone.
	claim *os.File
	// socket is the path of its discovery socket as the job sees it.
	socket string
	// separated says that this process started it with namespaces of its own. Its folder and sockets are then for
	// the next job; mu guards the sockets once start has returned.
	separated bool
	sockets   sockets
	// tried is closed when start has returned, and proxy, identity and begun are set.
	tried    chan struct{}
	proxy    *proxyProcess
	identity proxyproto.Identity
	begun    time.Time

	// cleared says that Release has removed its folders, and that its proxy has exited or is no longer its own.
	cleared bool

	// discovery accepts the job's queries; nil: it could not be reopened.
	discovery net.Listener

	mu   sync.Mutex
	conn *net.UnixConn
	// version is the protocol version of the proxy; renewsUntil, execs, stays and shares are set if the proxy understands
	// Renew.EndMillis, Exec, Release.Stay and Renew.Shared.
	version                           int
	renewsUntil, execs, stays, shares bool
	// follows says that the proxy has the lease that this process shares.
	follows bool
	// sampled is when the last sample came. asked says that one was asked for since.
	sampled time.Time
	asked   bool
	// rested says that the proxy is no longer this job's, but waits for another, or runs it.
	rested  bool
	started *proxyproto.Started
	last    Statistics
	result  *Result
	// hung is closed by hangs when a proxy still exists long after it was killed.
	hung  chan struct{}
	hangs func()
	// probing gets the outcome of the running probe; nil: none is running.
	probing chan proxyproto.Probed
	// fault is why the proxy was rejected; nil: it was not.
	fault error
	// overdue is the timer that kills the proxy at the time due, if the job has not ended as
	// requested.
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

// Events is the channel of the job's events. It is closed after Exited, or by
// Runner.Leave.
func (j *Job) Events() <-chan Event { return j.events }

// Result is the result of the job, nil while it runs.
func (j *Job) Result() *Result {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.result
}

// Stop ends the job: its processes get SIGTERM now and SIGKILL after grace; with
// grace 0 they are killed at once. If Stop is called several times, the first reason counts.
func (j *Job) Stop(reason string, grace time.Duration) error {
	return j.end(grace, proxyproto.Message{Stop: &proxyproto.Stop{Reason: reason, GraceMillis: millis(grace)}})
}

// end sends a message that makes the proxy end the job within grace, and kills the proxy if it
// fails to do so.
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

// expect schedules the kill of the proxy for stopMargin after grace, in case the job has not
// ended by then. A kill that an earlier message scheduled for an earlier time stays.
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

// expectNothing cancels the scheduled kill, so that no timer holds a job that has ended. mu
// is held.
func (j *Job) expectNothing() {
	if j.overdue != nil {
		j.overdue.Stop()
	}
}

// renew extends the job's lease to the given duration from now. `end` is the new end of the lease,
// as the time since the boot of the machine.
func (j *Job) renew(end, lease time.Duration) error {
	renew, shared := &proxyproto.Renew{LeaseMillis: millis(lease)}, []*os.File(nil)
	j.mu.Lock()
	if j.renewsUntil {
		renew.EndMillis = end.Milliseconds()
	}
	if j.shares && j.runner.shared != nil {
		renew.Shared, shared = true, []*os.File{j.runner.shared.file}
	}
	conn, follows := j.conn, j.follows
	j.mu.Unlock()
	if follows {
		return nil
	}
	err := j.tell(proxyproto.Message{Renew: renew}, shared...)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.follows = err == nil && renew.Shared && j.shares && j.conn == conn
	return err
}

// tellTimeout limits how long a message to a proxy may wait for room in the socket's
// buffer. There is room unless the proxy has read nothing for a long time.
const tellTimeout = time.Second

// send writes a line to a proxy, with files.
func send(conn *net.UnixConn, line []byte, files ...*os.File) error {
	if err := conn.SetWriteDeadline(time.Now().Add(tellTimeout)); err != nil {
		return err
	}
	if len(files) > 0 {
		descriptors := make([]int, len(files))
		for i, file := range files {
			descriptors[i] = int(file.Fd())
		}
		n, _, err := conn.WriteMsgUnix(line, unix.UnixRights(descriptors...), nil)
		if err != nil || n == len(line) {
			return err
		}
		line = line[n:]
	}
	_, err := conn.Write(line)
	return err
}

// tell sends a message to the proxy, with files.
func (j *Job) tell(message proxyproto.Message, files ...*os.File) error {
	line, err := message.Line()
	if err != nil {
		return fmt.Errorf("%s job %s: %w", message.Name(), j.id, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.conn == nil {
		return fmt.Errorf("%s job %s: %w", message.Name(), j.id, ErrUnreachable)
	}
	if err := send(j.conn, line, files...); err != nil {
		return fmt.Errorf("%s job %s: %w: %w", message.Name(), j.id, ErrUnreachable, err)
	}
	return nil
}

// start makes the job's folders and starts its proxy. The connection is made
// before the proxy starts, so messages can be sent as soon as start returns.
func (j *Job) start(ctx context.Context, spec *proxyproto.Spec, furnish func(workspace string) error) error {
	defer close(j.tried)
	paths := j.runner.paths
	j.socket = socketIn(spec.Environment)
	waiting, err := j.makeFolders(spec)
	if err != nil {
		return err
	}
	if waiting != nil {
		defer func() {
			if j.proxy != waiting.proxyProcess {
				waiting.dismiss()
			}
		}()
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
	if err := overwrite(paths.file(j.id, proxyproto.SpecFile), data); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if waiting != nil {
		// After other jobs it would need more memory for data than is reserved for it.
		if plain := spec.Feed == nil && len(spec.Outputs) == 0; plain && waiting.run(j, spec) == nil {
			return nil
		}
		// It would take the connection to the one that is started instead.
		if err := waiting.stop(); err != nil {
			return err
		}
	}
	if err := j.listen(); err != nil {
		return err
	}
	conn, err := j.dial()
	if err != nil {
		return err
	}
	if err := j.startProxy(ctx, spec, conn); err != nil {
		return errors.Join(err, conn.Close())
	}
	if !j.separated {
		// Nobody gets its folder.
		j.takeSockets().close()
	}
	return nil
}

// makeFolders makes the job's folders. A job that runs as another user without mounts of its own
// can traverse the folders above its own, but not list them. It returns the proxy that waits in the folder, if any.
func (j *Job) makeFolders(spec *proxyproto.Spec) (waiting *warm, err error) {
	paths := j.runner.paths
	above := os.FileMode(0o700)
	if spec.User != nil && !spec.Separated() {
		above = 0o711
		for _, folder := range []string{paths.root, paths.jobs()} {
			if err := os.Chmod(folder, above); err != nil {
				return nil, err
			}
		}
	}
	j.separated = spec.Separated()
	if j.separated {
		if one, taken := j.runner.spares.take(paths.job(j.id), spec.OutputFolder, j.socket, j.runner.isProgram); taken {
			j.sockets = one.sockets
			return one.proxy, nil
		}
	}
	if err := os.Mkdir(paths.job(j.id), above); err != nil {
		return nil, err
	}
	for _, folder := range []string{spec.Workspace, spec.OutputFolder} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return nil, err
		}
	}
	// Set the mode again: the umask may have reduced it.
	return nil, os.Chmod(paths.job(j.id), above)
}

// startProxy starts the proxy in a session of its own, so that it outlives the
// agent and its terminal. What it mounts is in a namespace of its own, which vanishes
// with the proxy and the job.
func (j *Job) startProxy(ctx context.Context, spec *proxyproto.Spec, conn *net.UnixConn) error {
	// A proxy that could not be woken may have left a line.
	log, err := os.OpenFile(j.runner.paths.file(j.id, proxyproto.LogFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	program, err := os.Stat(j.runner.config.ProxyPath)
	if err != nil {
		return err
	}
	j.begun = time.Now()
	cmd := exec.Command(j.runner.config.ProxyPath, j.runner.paths.job(j.id))
	cmd.Dir = "/"
	cmd.Env = append(proxyEnvironment(), proxyproto.ProxyVariable+"="+j.runner.paths.job(j.id))
	cmd.Stderr = log
	cmd.ExtraFiles = []*os.File{j.sockets.control}
	if spec.HasSecrets {
		secrets, err := secretsFile(spec.Secrets)
		if err != nil {
			return err
		}
		defer secrets.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, secrets)
	}
	if j.claim != nil {
		// The proxy only holds it open.
		cmd.ExtraFiles = append(cmd.ExtraFiles, j.claim)
	}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if spec.AgentMounts != "" {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWNS
	}
	if spec.Separated() {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWPID
	}
	// The steps before may have waited long for a disk.
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := startCalm(cmd); err != nil {
		return err
	}
	j.identity = noProxy
	// The proxy has not been waited for yet, so the pid is its own even if it has ended.
	if process, err := proctree.Read(cmd.Process.Pid); err == nil {
		j.identity = process.Identity
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.proxy, j.conn = startedProxy(cmd, program, conn), conn
	return nil
}
