package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	// killPatience is how long one attempt to end the processes of a job whose
	// proxy has gone may take before it is complained about and repeated.
	killPatience = 10 * time.Second
	// logTail is how much of a dead proxy's log goes into the result, in bytes.
	logTail = 2 << 10
)

// run follows the proxy until the job has ended.
func (j *Job) run() {
	go func() {
		// The state is read from the process when it is needed.
		_ = j.proxy.Wait()
		close(j.proxyGone)
	}()
	result := j.follow()
	j.mu.Lock()
	j.result = result
	j.mu.Unlock()
	j.events <- Exited{JobID: j.id, Result: result}
	close(j.events)
	close(j.ended)
}

// follow listens to the proxy, again if the connection breaks, until it tells
// the result or is gone.
func (j *Job) follow() *Result {
	wait := firstRedial
	for {
		result, err := j.listenOn()
		if result != nil {
			return result
		}
		timer := time.NewTimer(wait)
		select {
		case <-j.proxyGone:
			timer.Stop()
			return j.inquest()
		case <-timer.C:
		}
		wait = min(2*wait, maxRedial)
		j.runner.config.Logger.Warn("connection to proxy lost", "job", j.id, "error", err)
		j.reconnect()
	}
}

func (j *Job) reconnect() {
	j.disconnect()
	// A failure shows when the job is listened to.
	if conn, err := j.dial(); err == nil {
		j.mu.Lock()
		j.conn = conn
		j.mu.Unlock()
	}
}

// listenOn passes on what the proxy says until it tells the result or the
// connection ends.
func (j *Job) listenOn() (*Result, error) {
	j.mu.Lock()
	conn := j.conn
	j.mu.Unlock()
	if conn == nil {
		return nil, ErrUnreachable
	}
	reader := proxyproto.NewReader(conn)
	for {
		message, err := reader.Read()
		if err != nil {
			return nil, err
		}
		switch {
		case message.Hello != nil:
			if message.Hello.Version != proxyproto.Version {
				j.killProxy()
				return nil, fmt.Errorf("proxy speaks version %d, want %d: install weir and weir-jobproxy together", message.Hello.Version, proxyproto.Version)
			}
		case message.Started != nil:
			j.tellStarted(message.Started)
		case message.Sample != nil:
			j.tellSample(message.Sample)
		case message.Exited != nil:
			return message.Exited, nil
		case message.Error != nil:
			j.runner.config.Logger.Warn("proxy refused a message", "job", j.id, "message", message.Error.Message, "error", message.Error.Error)
		default:
			j.runner.config.Logger.Warn("unexpected message from proxy", "job", j.id, "message", message.Name())
		}
	}
}

// tellStarted tells it once: a proxy repeats it on each new connection.
func (j *Job) tellStarted(started *proxyproto.Started) {
	j.mu.Lock()
	first := j.started == nil
	j.started = started
	j.mu.Unlock()
	if first {
		j.events <- Started{JobID: j.id, Pid: started.Pid, Time: started.Time}
	}
}

// tellSample tells it if somebody listens.
func (j *Job) tellSample(sample *proxyproto.Sample) {
	j.mu.Lock()
	j.last = sample.Statistics
	j.mu.Unlock()
	if len(j.events) < cap(j.events)-eventKept {
		j.events <- Sample{JobID: j.id, Memory: sample.MemoryBytes, Statistics: sample.Statistics}
	}
}

// inquest finds the result of a job whose proxy has gone without telling it,
// and ends what is left of the job.
func (j *Job) inquest() *Result {
	result, err := j.readResult()
	if err != nil {
		result = j.proxyFailed(err)
	}
	for {
		err := j.endProcesses()
		if err == nil {
			return result
		}
		j.runner.config.Logger.Error("processes of a job are left", "job", j.id, "error", err)
	}
}

// endProcesses ends the processes of a job whose proxy has gone.
func (j *Job) endProcesses() error {
	return endJob(j.runner.config.Cgroups, j.id, j.runner.paths.job(j.id), noProxy)
}

// readResult reads what the proxy wrote before it went.
func (j *Job) readResult() (*Result, error) {
	data, err := os.ReadFile(j.runner.paths.file(j.id, proxyproto.ResultFile))
	if err != nil {
		return nil, err
	}
	result := new(Result)
	if err := json.Unmarshal(data, result); err != nil {
		return nil, fmt.Errorf("%s: %w", proxyproto.ResultFile, err)
	}
	return result, nil
}

// proxyFailed is the result of a job whose proxy left none.
func (j *Job) proxyFailed(cause error) *Result {
	text := "weir-jobproxy ended: " + j.proxy.ProcessState.String()
	if !errors.Is(cause, fs.ErrNotExist) {
		text += ": " + cause.Error()
	}
	if log, err := os.ReadFile(j.runner.paths.file(j.id, proxyproto.LogFile)); err == nil && len(log) > 0 {
		text += ": " + strings.TrimSpace(string(log[max(0, len(log)-logTail):]))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
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

// noProxy is the identity of a proxy that is not there.
var noProxy = proxyproto.Identity{Pid: -1}

// endJob ends all processes of a job, its proxy too, and removes its group.
// folder is the job's folder, by which its processes can be known.
func endJob(cgroups Cgroups, id, folder string, proxy proxyproto.Identity) error {
	alive := proctree.Alive(proxy)
	if alive {
		// Stopped, it keeps its foster children and starts no more.
		if err := proctree.Signal(proxy, stopSignal); err != nil {
			return err
		}
	} else {
		proxy = noProxy
	}
	group := cgroup.Open(cgroup.Job(cgroups.Node, id))
	if !cgroups.Node.None() {
		if err := group.Kill(killPatience); err != nil {
			return err
		}
	}
	if cgroups.Node.None() || alive {
		err := proctree.Kill(func() ([]proctree.Process, error) { return proctree.Tree(proxy.Pid, folder) }, killPatience)
		if err != nil {
			return err
		}
	}
	if alive {
		err := proctree.Kill(func() ([]proctree.Process, error) {
			if !proctree.Alive(proxy) {
				return nil, nil
			}
			return []proctree.Process{{Identity: proxy}}, nil
		}, killPatience)
		if err != nil {
			return err
		}
	}
	if cgroups.Node.None() {
		return nil
	}
	return group.Remove(killPatience)
}
