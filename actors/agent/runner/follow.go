package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

const (
	// firstRedial and maxRedial bound the wait before the agent connects again
	// to a proxy that is alive.
	firstRedial = 10 * time.Millisecond
	maxRedial   = time.Second
	// killPatience is how long one attempt to end the processes of a job may take
	// before it fails. Once the proxy has gone, failed attempts are logged and repeated.
	killPatience = 10 * time.Second
	// logTail is how much of a dead proxy's log goes into the result, in bytes.
	logTail = 2 << 10
)

// run follows the proxy until the job has ended, or the runner leaves it.
func (j *Job) run() {
	defer close(j.followed)
	result := j.follow()
	j.closeDiscovery()
	j.mu.Lock()
	j.result = result
	j.expectNothing()
	j.mu.Unlock()
	// With the result none begins any more.
	j.runner.sessions.end(j, "the job has ended")
	if result == nil {
		close(j.events)
		return
	}
	j.events <- Exited{JobID: j.id, Result: result}
	close(j.events)
	close(j.ended)
}

// follow listens to the proxy, reconnecting if needed, until it reports the result
// or is gone. It returns nil when the runner leaves the job.
func (j *Job) follow() *Result {
	wait, ends := firstRedial, false
	for {
		result, err := j.listenOn()
		if result != nil {
			return result
		}
		// Maybe the proxy is ending: then its claim has gone with the connection, while processes of the job may be left.
		j.keepUser()
		// From now on it tells whether the proxy lives that somebody listens on its socket.
		j.takeSockets().close()
		// The proxy kills their commands, and none begins without a connection.
		j.runner.sessions.end(j, "the connection to the job's proxy was lost")
		timer := time.NewTimer(wait)
		select {
		case <-j.left:
			timer.Stop()
			return nil
		case <-j.proxy.gone:
			timer.Stop()
			return j.inquest()
		case <-j.hung:
			timer.Stop()
			return j.inquest()
		case <-timer.C:
		}
		wait = min(2*wait, maxRedial)
		j.runner.config.Logger.Warn("connection to job proxy lost", "job", j.id, "error", err)
		j.reconnect()
		if !ends && j.proxyEnds() {
			// It ends with all processes of the job, of which one may hang.
			ends = true
			j.killProxy()
		}
	}
}

// proxyEnds reports whether the proxy has begun to end.
func (j *Job) proxyEnds() bool {
	process, err := proctree.Read(j.identity.Pid)
	return err == nil && process.Identity == j.identity && process.Ending
}

func (j *Job) reconnect() {
	conn, err := j.dial()
	j.disconnect()
	if err != nil {
		// listenOn will find no connection and report that.
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case <-j.left:
		_ = conn.Close()
	default:
		j.conn = conn
	}
}

// listenOn passes on the proxy's messages until it reports the result or the
// connection ends.
func (j *Job) listenOn() (*Result, error) {
	j.mu.Lock()
	conn := j.conn
	j.mu.Unlock()
	if conn == nil {
		return nil, ErrUnreachable
	}
	reader := proxyproto.NewTolerantReader(conn)
	for {
		message, err := reader.Read()
		if errors.Is(err, proxyproto.ErrBadMessage) {
			j.runner.config.Logger.Warn("unreadable message from job proxy", "job", j.id, "error", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		switch {
		case message.Hello != nil:
			if err := j.checkHello(message.Hello); err != nil {
				return nil, err
			}
		case message.Started != nil:
			j.tellStarted(message.Started)
		case message.Sample != nil:
			j.tellSample(message.Sample)
		case message.Exited != nil:
			return message.Exited, nil
		case message.Probed != nil:
			j.tellProbed(*message.Probed)
		case message.Executed != nil:
			j.runner.sessions.executed(j, *message.Executed)
		case message.Error != nil && message.Error.Message == "probe":
			j.tellProbed(proxyproto.Probed{Error: message.Error.Error})
		case message.Error != nil:
			if message.Error.Message == "renew" {
				// It may not follow what is shared: from now on it is sent each renewal.
				j.mu.Lock()
				j.shares, j.follows = false, false
				j.mu.Unlock()
			}
			j.runner.config.Logger.Warn("job proxy rejected a message", "job", j.id, "message", message.Error.Message, "error", message.Error.Error)
		default:
			j.runner.config.Logger.Warn("unexpected message from job proxy", "job", j.id, "message", message.Name())
		}
	}
}

// checkHello kills a proxy of another job, or of a version that this agent does not
// speak: its messages could not be relied on.
func (j *Job) checkHello(hello *proxyproto.Hello) error {
	var err error
	switch {
	case hello.Version < proxyproto.Oldest || hello.Version > proxyproto.Version:
		err = fmt.Errorf("job proxy speaks protocol version %d, but this agent speaks %d to %d: before an upgrade, let the jobs end under an agent that speaks it",
			hello.Version, proxyproto.Oldest, proxyproto.Version)
	case hello.JobID != j.id:
		err = fmt.Errorf("proxy belongs to job %.60q", hello.JobID)
	default:
		j.mu.Lock()
		j.version, j.renewsUntil, j.execs, j.stays, j.shares = hello.Version, hello.RenewsUntil, hello.Execs, hello.Stays, hello.Shares
		j.mu.Unlock()
		return nil
	}
	j.mu.Lock()
	j.fault = err
	j.mu.Unlock()
	j.killProxy()
	return err
}

// tellStarted sends one Started event: a proxy repeats its message on each connection.
func (j *Job) tellStarted(started *proxyproto.Started) {
	j.mu.Lock()
	first := j.started == nil
	j.started = started
	j.mu.Unlock()
	if first {
		j.events <- Started{JobID: j.id, Pid: started.Pid, Time: started.Time, Cgroup: j.place.Unified}
	}
}

// tellSample sends a Sample event, unless the receiver has fallen behind.
func (j *Job) tellSample(sample *proxyproto.Sample) {
	j.mu.Lock()
	j.last, j.sampled, j.asked = sample.Statistics, time.Now(), false
	j.mu.Unlock()
	if len(j.events) < cap(j.events)-eventKept {
		j.events <- Sample{JobID: j.id, Memory: sample.MemoryBytes, ProxyMemory: sample.ProxyMemoryBytes, Statistics: sample.Statistics}
	}
}

// inquest finds the result of a job whose proxy has gone without reporting it, or
// hangs, and ends the job's remaining processes.
func (j *Job) inquest() *Result {
	result, err := j.readResult()
	if err != nil {
		result = j.proxyFailed(err)
	}
	for deadline := time.Now().Add(j.runner.config.EndTimeout); ; {
		err := j.endProcesses()
		if err == nil {
			return result
		}
		j.runner.config.Logger.Error("processes of a job still running", "job", j.id, "error", err)
		if time.Now().After(deadline) {
			return j.givenUp(result, err)
		}
	}
}

// endProcesses ends the processes of a job whose proxy has gone, or hangs.
func (j *Job) endProcesses() error {
	if err := endInside(j.place, j.runner.paths.job(j.id), j.identity); err != nil {
		return err
	}
	return removeGroup(j.place)
}

// readResult reads the result that the proxy wrote before it ended.
func (j *Job) readResult() (*Result, error) {
	data, err := os.ReadFile(j.runner.paths.file(j.id, proxyproto.ResultFile))
	if err != nil {
		return nil, err
	}
	result := new(Result)
	if err := json.Unmarshal(data, result); err != nil {
		return nil, fmt.Errorf("%s: %w", proxyproto.ResultFile, err)
	}
	if result.JobID != j.id {
		return nil, fmt.Errorf("%s: belongs to job %.60q", proxyproto.ResultFile, result.JobID)
	}
	return result, nil
}

// proxyFailed is the result of a job whose proxy left none.
func (j *Job) proxyFailed(cause error) *Result {
	text := "weir-jobproxy was killed but has not exited"
	select {
	case <-j.proxy.gone:
		text = "weir-jobproxy ended: " + j.proxy.end()
	default:
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fault != nil {
		text += ": " + j.fault.Error()
	}
	if !errors.Is(cause, fs.ErrNotExist) {
		text += ": " + cause.Error()
	}
	log, err := os.ReadFile(j.runner.paths.file(j.id, proxyproto.LogFile))
	if _, log, _ = proxyproto.CutIdentity(log); err == nil && len(log) > 0 {
		text += ": " + strings.TrimSpace(string(log[max(0, len(log)-logTail):]))
	}
	now := time.Now()
	result := &Result{
		JobID:          j.id,
		Outcome:        proxyproto.OutcomeProxyFailed,
		Error:          text,
		ExitCode:       -1,
		StartTime:      j.begun.UTC(),
		EndTime:        now.UTC(),
		DurationMicros: now.Sub(j.begun).Microseconds(),
		Statistics:     j.last,
	}
	if j.started != nil {
		result.Pid = j.started.Pid
	}
	return result
}

// noProxy is the identity of a missing proxy; it matches no process.
var noProxy = proxyproto.Identity{Pid: -1}

// endJob ends all processes of a job, including its proxy, and removes the job's group at `place`.
// `folder` is the job's folder, which its processes have in their environment.
func endJob(place proxyproto.Placement, folder string, proxy proxyproto.Identity) error {
	// A stopped proxy remains the parent of its job's orphans and starts no more processes.
	if err := proctree.Signal(proxy, stopSignal); err != nil {
		return err
	}
	if err := endInside(place, folder, proxy); err != nil {
		return err
	}
	err := proctree.Kill(func() ([]proctree.Process, error) {
		if !proctree.Alive(proxy) {
			return nil, nil
		}
		return []proctree.Process{{Identity: proxy}}, nil
	}, killPatience)
	if err != nil {
		return err
	}
	// The proxy may have been about to start a process when it was stopped.
	if err := endInside(place, folder, proxy); err != nil {
		return err
	}
	return removeGroup(place)
}

// endInside ends all processes of a job except its proxy.
func endInside(place proxyproto.Placement, folder string, proxy proxyproto.Identity) error {
	if !place.None() {
		if err := cgroup.Open(place).Kill(killPatience); err != nil {
			return err
		}
	}
	root := noProxy.Pid
	if proctree.Alive(proxy) {
		root = proxy.Pid
	} else if !place.None() {
		return nil
	}
	return proctree.Kill(func() ([]proctree.Process, error) {
		all, err := proctree.Tree(root, folder)
		return slices.DeleteFunc(all, func(p proctree.Process) bool { return p.Identity == proxy }), err
	}, killPatience)
}

// removeGroup removes the group of a job that has no process left.
func removeGroup(place proxyproto.Placement) error {
	if place.None() {
		return nil
	}
	return cgroup.Open(place).Remove(killPatience)
}
