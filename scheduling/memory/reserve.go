package memory

import "math"

// Task is what is known of a task's memory without any sample.
type Task struct {
	// Limit is memory_limit, in bytes.
	Limit int64
	// Tmpfs is the size of all tmpfs of a job together, in bytes.
	Tmpfs int64
	// ProxyEstimate is what the job proxy is thought to need for its buffers, in bytes.
	ProxyEstimate int64
	Options       Options
}

// options returns the task's options with the floor that its tmpfs sets.
func (t Task) options() Options { return t.Options.WithTmpfs(t.Tmpfs, t.Limit) }

// Reserve is what is held for a job, in bytes, and the factors by which it was found.
type Reserve struct {
	User, Proxy, Footprint  int64
	UserFactor, ProxyFactor float64
	ProxyEstimate           int64
}

// Total returns what the job's allocation holds.
func (r Reserve) Total() int64 { return r.User + r.Proxy + r.Footprint }

// Reserve returns what the next job needs: the footprint of the job proxy, its estimate
// times a factor, and memory_limit times a factor; the factors are the 95th percentiles of
// the two digests within their bounds (J.1.4). What a job proxy uses is learned as a share of
// both its footprint and its estimate, so both are scaled where it needs more than that.
func (t Task) Reserve(user, proxy *Digest) Reserve {
	o := t.options()
	return t.reserve(
		factor(user, o.UserDefault, o.UserLower, UserUpperBound),
		factor(proxy, o.ProxyDefault, o.ProxyLower, o.ProxyUpper))
}

func factor(d *Digest, unknown, lower, upper float64) float64 {
	v, known := d.Quantile(Quantile)
	if !known {
		v = unknown
	}
	return min(max(v, lower), upper)
}

func (t Task) reserve(user, proxy float64) Reserve {
	return Reserve{
		User:       min(t.Limit, max(part(t.Limit, user), t.Tmpfs)),
		Proxy:      part(t.ProxyEstimate, proxy) + part(Footprint, max(0, proxy-1)),
		Footprint:  Footprint,
		UserFactor: user, ProxyFactor: proxy, ProxyEstimate: t.ProxyEstimate,
	}
}

// part returns a factor of bytes, rounded up to whole ones.
func part(bytes int64, factor float64) int64 {
	v := math.Ceil(float64(bytes) * factor)
	if v >= math.MaxInt64/4 {
		return math.MaxInt64 / 4
	}
	return int64(v)
}

// Usage is the most memory that a job's processes and its tmpfs held together, and that its
// proxy held, in bytes; 0: it was not measured.
type Usage struct{ User, Proxy int64 }

// Sample is what one job teaches: the share of memory_limit that it used, and that of the
// job proxy's estimate and footprint. 0: nothing.
type Sample struct{ User, Proxy float64 }

// Sample returns what a job teaches that used this much. overdraft is the reserve of a job
// that was aborted because it used more: it would have used more still, so it counts for the
// larger of what it used and what it had, times 1.1, but not for more than the limit; and so
// does its proxy, if it was at fault (J.1.3).
// nil: it was not.
func (t Task) Sample(used Usage, overdraft *Reserve) Sample {
	var s Sample
	if t.Limit > 0 {
		s.User = float64(used.User) / float64(t.Limit)
	}
	s.Proxy = float64(used.Proxy) / float64(t.ProxyEstimate+Footprint)
	if overdraft == nil {
		return s
	}
	s.User = min(UserUpperBound, overdraftFactor*max(s.User, overdraft.UserFactor))
	if _, proxy := t.guilty(used, *overdraft); proxy {
		s.Proxy = min(t.options().ProxyUpper, overdraftFactor*max(s.Proxy, overdraft.ProxyFactor))
	}
	return s
}

// Absorb adds a sample to a task's digests. What was not measured is left out.
func Absorb(user, proxy *Digest, s Sample) error {
	if s.User > 0 {
		if err := user.Add(s.User); err != nil {
			return err
		}
	}
	if s.Proxy > 0 {
		return proxy.Add(s.Proxy)
	}
	return nil
}

// Overdrafts counts how often the processes of a cookie's jobs, and their proxies, were
// found guilty of an overdraft.
type Overdrafts struct{ User, Proxy int32 }

// Rerun returns the reserve with which a job runs again that was aborted because it used
// more than had, and the overdrafts of its cookie with this one. before are those until then.
// What is guilty gets the most that there is, or the first time a multiple of what it had if
// the options say so; what was guilty before keeps what it had; and the rest gets what the
// digests tell (J.1.5).
func (t Task) Rerun(user, proxy *Digest, used Usage, had Reserve, before Overdrafts) (Reserve, Overdrafts) {
	o := t.options()
	learned := t.Reserve(user, proxy)
	next := Overdrafts{before.User, before.Proxy}
	u, p := learned.UserFactor, learned.ProxyFactor
	if before.User > 0 {
		u = max(u, had.UserFactor)
	}
	if before.Proxy > 0 {
		p = max(p, had.ProxyFactor)
	}
	userGuilty, proxyGuilty := t.guilty(used, had)
	if userGuilty {
		next.User++
		u = max(u, dedicated(had.UserFactor, o.UserMultiplier, UserUpperBound, before.User))
	}
	if proxyGuilty {
		next.Proxy++
		p = max(p, dedicated(had.ProxyFactor, o.ProxyMultiplier, o.ProxyUpper, before.Proxy))
	}
	return t.reserve(u, p), next
}

func dedicated(had, multiplier, upper float64, before int32) float64 {
	if before > 0 || multiplier == 0 {
		return upper
	}
	return min(had*multiplier, upper)
}

// guilty says who of a job has used more than it had. When neither has, by what was measured
// last, it is who was nearer to it; the proxy when they were equally near, but not one that
// was not measured, or would have no more with any factor. Who had the most that there is gets
// no more by being blamed, so the other one is, if it can have more.
func (t Task) guilty(used Usage, had Reserve) (user, proxy bool) {
	userGap, proxyGap := had.User-used.User, had.Proxy+had.Footprint-used.Proxy
	userMost, proxyMost := had.UserFactor >= UserUpperBound, had.ProxyFactor >= t.options().ProxyUpper
	switch {
	case userGap < 0 || proxyGap < 0:
		return userGap < 0, proxyGap < 0
	case used.Proxy == 0 || had.ProxyEstimate == 0 || proxyMost && !userMost:
		return true, false
	case userMost && !proxyMost:
		return false, true
	default:
		return userGap < proxyGap, userGap >= proxyGap
	}
}

// What a job proxy holds for what it reads and writes, in bytes.
const (
	// ReaderBuffer is that of its input: one file is read at a time, block by block, however
	// long its records are.
	ReaderBuffer = 1 << 20
	// WriterBuffer is that of each output.
	WriterBuffer = 1 << 20
)

// Estimate returns what a job proxy needs for its buffers, in bytes, that reads an input or
// does not, and writes this many outputs at a time (J.1.6).
func Estimate(reads bool, outputs int) int64 {
	estimate := int64(outputs) * WriterBuffer
	if reads {
		estimate += ReaderBuffer
	}
	return estimate
}
