package memory

import "math"

// Task is what is known of a task's memory without any sample.
type Task struct {
	// Limit is memory_limit, in bytes.
	Limit int64
	// Tmpfs is the size of all tmpfs of a job together, in bytes.
	Tmpfs int64
	// ProxyEstimate is what the job proxy is thought to need, in bytes: Streams.Estimate.
	ProxyEstimate int64
	Options       Options
}

// options returns the task's options with the floor that its tmpfs sets.
func (t Task) options() Options { return t.Options.WithTmpfs(t.Tmpfs, t.Limit) }

// Reserve is what is held for a job, in bytes, and the factors by which it was found.
type Reserve struct {
	User, Proxy             int64
	UserFactor, ProxyFactor float64
	ProxyEstimate           int64
}

// Total returns what the job's allocation holds.
func (r Reserve) Total() int64 { return r.User + r.Proxy }

// proxyMargin is by how much more than it was learned a proxy's reserve is: proxies of alike
// jobs use nearly the same, so that nearly half of them would be above what they need.
const proxyMargin = 1.1

// Reserve returns what the next job needs: memory_limit and the job proxy's estimate, each
// times a factor, which is the 95th percentile of its digest within its bounds, for the proxy
// with a margin (J.1.4).
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

// Sample is what one job teaches: the share of memory_limit that it used, and that of its
// proxy's estimate. 0: nothing.
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

// guilty says who of a job has used more than it had: clearly more, by a tenth, where one of
// both has. When neither has, by what was measured last, it is who was nearer to what it had;
// the proxy when they were equally near, but not one that was not measured. Who had the most
// that there is gets no more by being blamed, so the other one is, if it can have more.
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

// What a job proxy holds, in bytes, as measured of the program (J.1.6): by itself, and more for
// what it reads, writes and keeps.
const (
	proxyAlone = 10 << 20
	// readBuffer and writeBuffer are a block of input and one of output, with what the
	// collector leaves of the last ones.
	readBuffer, writeBuffer = 512 << 10, 512 << 10
	// storeBuffer is a connection to an object store.
	storeBuffer = 1 << 20
	// nameSize is what is known of a file that is read, or kept.
	nameSize = 1 << 10
)

// Streams are the inputs and outputs of a job.
type Streams struct {
	// Inputs are those that a map operation names, FromStore: in an object store.
	Inputs    int
	FromStore bool
	// Writes: its standard output is the operation's. Kept are files of its workspace that are
	// kept, one after the other. ToStore: some of it goes to an object store.
	Writes  bool
	Kept    int
	ToStore bool
}

// Estimate returns what the proxy of such a job is thought to need, in bytes.
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
