package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/actors/agent/runner/proxyproto"
)

// firstProbing is the first version of the protocol that has Probe.
const firstProbing = 5

// probePatience is how long after a probe's timeout its outcome may arrive.
const probePatience = 10 * time.Second

// errProbing is returned for a probe while another probe of the job is running.
var errProbing = errors.New("a probe is already running")

// Probe runs a program as one of the job's processes: as the job's user, in its workspace,
// groups and namespaces, with its environment and no more rights. It returns nil if the program
// exits with 0 in time. Otherwise the error says how the program ended, with the end of its output.
// After `timeout` the program is killed. One probe of a job runs at a time. The outcome does not
// affect the job, but the probe's memory counts as the job's.
func (j *Job) Probe(ctx context.Context, argv []string, timeout time.Duration) error {
	done := make(chan proxyproto.Probed, 1)
	j.mu.Lock()
	version, busy := j.version, j.probing != nil
	if version >= firstProbing && !busy {
		j.probing = done
	}
	j.mu.Unlock()
	switch {
	case version < firstProbing:
		return fmt.Errorf("probe job %s: its proxy is too old to run probes", j.id)
	case busy:
		return fmt.Errorf("probe job %s: %w", j.id, errProbing)
	}
	defer func() {
		j.mu.Lock()
		j.probing = nil
		j.mu.Unlock()
	}()
	if err := j.tell(proxyproto.Message{Probe: &proxyproto.Probe{Argv: argv, TimeoutMillis: millis(timeout)}}); err != nil {
		return err
	}
	late := time.NewTimer(timeout + probePatience)
	defer late.Stop()
	select {
	case probed := <-done:
		if probed.Error != "" {
			return errors.New(probed.Error)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-j.followed:
		return errors.New("the job has ended")
	case <-late.C:
		return errors.New("job proxy not responding")
	}
}

// tellProbed passes on the outcome of a probe.
func (j *Job) tellProbed(probed proxyproto.Probed) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.probing != nil {
		select {
		case j.probing <- probed:
		default:
		}
	}
}
