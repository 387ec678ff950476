package memory

import "math"

// Task holds what is known of a task's memory before any sample.
type Task struct {
	// Limit is memory_limit, in bytes.
	Limit int64
	// Tmpfs is the size of all tmpfs of a job together, in bytes.
	Tmpfs int64
	// ProxyEstimate is the job proxy's estimated need, in bytes: see Streams.Estimate.
	ProxyEstimate int64
	Options       Options
}

// options returns the task's options with the floor that its tmpfs sets.
func (t Task) options() Options { return t.Options.WithTmpfs(t.Tmpfs, t.Limit) }

// Reserve is the memory that is reserved for a job, in bytes, and the factors from which it was
// computed.
type Reserve struct {
	User, Proxy             int64
	UserFactor, ProxyFactor float64
	ProxyEstimate           int64
}

// Total returns the memory that the job's allocation holds.
func (r Reserve) Total() int64 { return r.User + r.Proxy }

// proxyMargin multiplies the learned factor of a proxy. Proxies of similar jobs use nearly the same
// amount, so without a margin nearly half of them would exceed their reserve.
const proxyMargin = 1.1

// Reserve returns the reserve of the next job: memory_limit and the job proxy's estimate, each
// times a factor. The factor is the 95th percentile of the digest, within its bounds. For the proxy,
// it includes a margin (J.1.4).
func (t Task) Reserve(user, proxy *Digest) Reserve {
	o := t.options()
	return t.reserve(
		factor(user, 1, o.UserDefault, o.UserLower, UserUpperBound),
		factor(proxy, proxyMargin, o.ProxyDefault, o.ProxyLower, o.ProxyUpper))
}

func factor(d *Digest, margin, unknown, lower, upper float64) float64 {
	v, known := d.Quantile(Quantile)
	if v *= margin; !known {
		v = unknown
	}
	return min(max(v, lower), upper)
}

func (t Task) reserve(user, proxy float64) Reserve {
	return Reserve{
		User: min(t.Limit, max(part(t.Limit, user), t.Tmpfs)), Proxy: part(t.ProxyEstimate, proxy),
		UserFactor: user, ProxyFactor: proxy, ProxyEstimate: t.ProxyEstimate,
	}
}

// part returns bytes times factor, rounded up.
func part(bytes int64, factor float64) int64 {
	v := math.Ceil(float64(bytes) * factor)
	if v >= math.MaxInt64/4 {
		return math.MaxInt64 / 4
	}
	return int64(v)
}

// Usage is the peak memory of a job's processes and tmpfs together, and of its proxy, in bytes. A 0
// means that it was not measured.
type Usage struct{ User, Proxy int64 }

// Sample is what is learned from one job: the memory of its processes as a part of memory_limit, and
// that of its proxy as a part of the estimate. A 0 means that there is no sample.
type Sample struct{ User, Proxy float64 }

// Sample returns the sample of a job with this usage. The parameter overdraft is the reserve of a job
// that was aborted because it used more, and nil for others. Such a job would have used even more, so
// it counts as the larger of its usage and its reserve, times 1.1, capped at the limit. The same holds
// for its proxy, if that was guilty (J.1.3).
func (t Task) Sample(used Usage, overdraft *Reserve) Sample {
	var s Sample
	if t.Limit > 0 {
		s.User = float64(used.User) / float64(t.Limit)
	}
	if t.ProxyEstimate > 0 {
		s.Proxy = float64(used.Proxy) / float64(t.ProxyEstimate)
	}
	if overdraft == nil {
		return s
	}
	s.User = min(UserUpperBound, overdraftFactor*max(s.User, overdraft.UserFactor))
	if _, proxy := t.guilty(used, *overdraft); proxy {
		s.Proxy = min(t.options().ProxyUpper, overdraftFactor*max(s.Proxy, overdraft.ProxyFactor))
	}
	return s
}

// Absorb adds a sample to a task's digests, except for parts that were not measured.
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

// Overdrafts counts the overdrafts caused by the processes of a cookie's jobs, and by their
// proxies.
type Overdrafts struct{ User, Proxy int32 }

// Rerun returns the reserve with which a job runs again after it was aborted because it used more
// than `had`, its reserve. It also returns the overdrafts of its cookie including this one. The
// parameter `before` holds the earlier overdrafts. A part (processes or proxy) that is guilty gets
// the upper bound or, the first time, a multiple of what it had, if the options set one. A part
// that was guilty before keeps at least what it had. Any other part gets the learned reserve
// (J.1.5).
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

// guilty decides whether the job's processes, its proxy, or both caused an overdraft. A part is
// guilty if it used over a tenth more than its reserve. If neither did, the part that came nearer
// to its reserve is guilty, or the proxy if both came equally near. The latter rule has two
// exceptions: a proxy that was not measured is never guilty, and neither is a part whose reserve is at
// its upper bound while the other's is not.
func (t Task) guilty(used Usage, had Reserve) (user, proxy bool) {
	above := func(used, had int64) bool { return float64(used) > overdraftFactor*float64(had) }
	userGap, proxyGap := had.User-used.User, had.Proxy-used.Proxy
	userMost, proxyMost := had.UserFactor >= UserUpperBound, had.ProxyFactor >= t.options().ProxyUpper
	user, proxy = above(used.User, had.User), above(used.Proxy, had.Proxy)
	switch {
	case user || proxy:
		return user, proxy
	case used.Proxy == 0 || proxyMost && !userMost:
		return true, false
	case userMost && !proxyMost:
		return false, true
	default:
		return userGap < proxyGap, userGap >= proxyGap
	}
}

// The memory of a job proxy, in bytes, as measured (J.1.6): a base, and more for what it reads,
// writes and keeps.
const (
	proxyAlone = 10 << 20
	// readBuffer and writeBuffer are a block of input and one of output, with garbage from the
	// previous ones that is not collected yet.
	readBuffer, writeBuffer = 512 << 10, 512 << 10
	// storeBuffer is for a connection to an object store.
	storeBuffer = 1 << 20
	// nameSize is for the metadata of a file that is read or kept.
	nameSize = 1 << 10
)

// Streams are the inputs and outputs of a job.
type Streams struct {
	// Inputs is the number of input files of a map operation. FromStore means that these files are
	// in an object store.
	Inputs    int
	FromStore bool
	// Writes means that the job's standard output is the operation's output. Kept is the number of
	// workspace files that are kept, one after the other. ToStore means that some output goes to
	// an object store.
	Writes  bool
	Kept    int
	ToStore bool
}

// Estimate returns the estimated memory of the proxy of such a job, in bytes.
func (s Streams) Estimate() int64 {
	estimate := int64(proxyAlone) + int64(s.Inputs+s.Kept)*nameSize
	for _, part := range []struct {
		has  bool
		size int64
	}{
		{s.Inputs > 0, readBuffer}, {s.Inputs > 0 && s.FromStore, storeBuffer},
		{s.Writes, writeBuffer}, {(s.Writes || s.Kept > 0) && s.ToStore, storeBuffer},
	} {
		if part.has {
			estimate += part.size
		}
	}
	return estimate
}
