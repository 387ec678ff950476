package runner

import (
	"log/slog"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proxyproto"
)

// sharedLease is the end of the lease of all jobs, in memory that their proxies read: see proxyproto.Renew. To renew
// it wakes no proxy.
type sharedLease struct {
	// file is for proxies: nobody can write to it, or shorten it.
	file *os.File
	// end counts from the boot of the machine, in nanoseconds.
	end *atomic.Int64
}

// shareLease returns nil if the kernel is too old: before Linux 5.1.
func shareLease(log *slog.Logger) *sharedLease {
	descriptor, err := unix.MemfdCreate("weir-lease", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err == nil {
		file := os.NewFile(uintptr(descriptor), "lease")
		var memory []byte
		if err = file.Truncate(proxyproto.SharedSize); err == nil {
			memory, err = unix.Mmap(descriptor, 0, proxyproto.SharedSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		}
		if err == nil {
			_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
		}
		if err == nil {
			// It stays mapped until this process ends: a renewal may be under way when the runner is closed.
			return &sharedLease{file: file, end: (*atomic.Int64)(unsafe.Pointer(&memory[0]))}
		}
		_ = file.Close() // nothing was written through it
	}
	log.Info("job proxies get each renewal by itself", "cause", err)
	return nil
}

const (
	// growthStep is the change of memory that is noticed, in bytes.
	growthStep = 1 << 20
	// growthTurns is how many times only the memory of all jobs together is looked at: one job may get what another
	// one's file cache loses.
	growthTurns = 8
)

// growth is the memory that was charged, file cache included, to all jobs together and to each, when changes were
// last noticed.
type growth struct {
	all  int64
	jobs map[string]int64
	// turn counts the looks since each job was looked at.
	turn int
}

// MeasureGrown makes the proxies of jobs measure whose memory has changed since a change was last noticed: those of jobs
// at rest measure seldom, and compare with their own last sample. Call it each SamplePeriod, and not by two goroutines at once. While no job's memory changes it
// reads one small file, and every growthTurns times one of each job.
func (r *Runner) MeasureGrown() {
	node := r.config.Cgroups.Node
	if node.None() {
		// Then proxies do not rest.
		return
	}
	all, err := cgroup.Open(node).Charged()
	if err != nil {
		return
	}
	if r.growth.turn++; r.growth.turn < growthTurns && !changed(r.growth.all, all) {
		return
	}
	r.growth.turn, r.growth.all = 0, all
	before := r.growth.jobs
	r.growth.jobs = make(map[string]int64, len(before))
	for _, job := range r.Jobs() {
		charged, err := cgroup.Open(job.place).Charged()
		if err != nil {
			continue // It has not begun, or has ended.
		}
		last, known := before[job.id]
		if known && (!changed(last, charged) || !askRested(job, r.config.SamplePeriod)) {
			r.growth.jobs[job.id] = last
			continue
		}
		r.growth.jobs[job.id] = charged
		if known {
			// Without a connection nobody hears a sample.
			_ = job.tell(proxyproto.Message{Measure: &proxyproto.Measure{}})
		}
	}
}

// askRested reports whether the job's proxy measures less often than in each period and is now to be asked. One that hangs is
// asked once.
func askRested(j *Job, period time.Duration) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	ask := j.follows && !j.asked && time.Since(j.sampled) > 2*period
	j.asked = j.asked || ask
	return ask
}

func changed(before, now int64) bool { return now-before >= growthStep || before-now >= growthStep }
