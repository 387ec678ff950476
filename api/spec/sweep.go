package spec

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"weir/messages/statepb"
)

// Options of a task whose jobs stand each for itself (J.5.4).
const (
	fieldMaxAttempts = "max_attempts"
	fieldCookies     = "cookies"
)

// MaxMaxAttempts bounds how often a job may fail.
const MaxMaxAttempts = 1000

// sweep takes how often a job may fail before it is given up, and which jobs there are. It is a
// fault where jobs are of no use alone.
func (o options) sweep(task *statepb.TaskSpec) {
	task.MaxAttempts = int32(o.integer(fieldMaxAttempts, 0, 1, MaxMaxAttempts))
	task.Cookies = o.cookies(task.GetJobCount())
	why := ""
	switch {
	case o.c.together:
		why = "with is_gang no job of the operation is of use without the others"
	case o.set[fieldGang] != nil:
		why = "jobs with " + fieldGang + " are of use only together: when one fails all of them begin anew"
	case task.GetRestartCompletedJobs():
		why = "with " + fieldRestartCompleted + " jobs are never done, and run again whenever they end"
	default:
		return
	}
	for _, name := range []string{fieldMaxAttempts, fieldCookies} {
		if o.set[name] != nil {
			o.fault(name, "%s: leave it out", why)
		}
	}
}

// cookies returns the jobs that are named, one by one or as ranges; none for all of them.
func (o options) cookies(jobs int32) (all []*statepb.Interval) {
	v := o.get(fieldCookies, list)
	if v == nil {
		return nil
	}
	if len(v.items) == 0 {
		o.fault(fieldCookies, "it is empty: write cookies, such as [3, 7-9], or leave it out for all jobs")
		return nil
	}
	before := len(o.c.faults)
	for i, item := range v.items {
		path := fmt.Sprintf("%s[%d]", join(o.path, fieldCookies), i)
		r, ok := cookieRange(item)
		switch {
		case item.kind != number && item.kind != text:
			o.c.fault(path, item.at, "it is %s: a cookie is needed, such as 3, or a range, such as 7-9", item.kind)
		case !ok:
			o.c.fault(path, item.at, "%s is no cookie: write a number from 0, or a range such as 7-9", item.written())
		case r.GetEnd() > jobs && jobs > 0:
			o.c.fault(path, item.at, "%s is not below %s, %d: cookies are 0 to %d", item.written(), fieldJobCount, jobs, jobs-1)
		default:
			all = append(all, r)
		}
	}
	if len(o.c.faults) > before {
		return nil
	}
	return o.joined(all, jobs)
}

// cookieRange reads a cookie, or the first and the last one of several.
func cookieRange(v *value) (*statepb.Interval, bool) {
	if v.kind == number {
		if !v.isWhole || v.whole < 0 || v.whole >= MaxJobs {
			return nil, false
		}
		return &statepb.Interval{Begin: int32(v.whole), End: int32(v.whole) + 1}, true
	}
	if v.kind != text {
		return nil, false
	}
	begin, end, ranged := strings.Cut(v.text, "-")
	if !ranged {
		end = begin
	}
	first, err := strconv.ParseUint(strings.TrimSpace(begin), 10, 31)
	last, wrong := strconv.ParseUint(strings.TrimSpace(end), 10, 31)
	if err != nil || wrong != nil || last < first || last == math.MaxInt32 {
		return nil, false
	}
	return &statepb.Interval{Begin: int32(first), End: int32(last) + 1}, true
}

// joined returns ranges in ascending order, those that touch as one; none when they are all
// jobs. A cookie that is there twice is a fault.
func (o options) joined(all []*statepb.Interval, jobs int32) (out []*statepb.Interval) {
	slices.SortFunc(all, func(a, b *statepb.Interval) int { return cmp.Compare(a.GetBegin(), b.GetBegin()) })
	for _, r := range all {
		last := len(out) - 1
		switch {
		case last < 0 || r.GetBegin() > out[last].GetEnd():
			out = append(out, r)
		case r.GetBegin() < out[last].GetEnd():
			o.fault(fieldCookies, "%d is there twice: each job runs once", r.GetBegin())
			return nil
		default:
			out[last].End = r.GetEnd()
		}
	}
	if len(out) == 1 && out[0].GetBegin() == 0 && out[0].GetEnd() == jobs {
		return nil
	}
	return out
}

func formatSweep(out map[string]any, task *statepb.TaskSpec) {
	if task.GetMaxAttempts() > 0 {
		out[fieldMaxAttempts] = task.GetMaxAttempts()
	}
	var items []any
	for _, r := range task.GetCookies() {
		if r.GetEnd() == r.GetBegin()+1 {
			items = append(items, r.GetBegin())
		} else {
			items = append(items, fmt.Sprintf("%d-%d", r.GetBegin(), r.GetEnd()-1))
		}
	}
	if items != nil {
		out[fieldCookies] = items
	}
}
