package spec

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"weir/messages/statepb"
	"weir/scheduling/option"
)

// cookieSet holds cookies of a task as ascending ranges that do not touch.
type cookieSet struct{ ranges []*statepb.Interval }

// ReadOption implements option.Reader. It reads a list of cookies and ranges such as 7-9.
func (s *cookieSet) ReadOption(v *option.Value) error {
	switch {
	case v.Kind != option.List:
		return fmt.Errorf("is %s, not a list", v)
	case len(v.Items) == 0:
		return errors.New("it is empty: write cookies, such as [3, 7-9], or leave it out for all jobs")
	}
	var faults []option.Fault
	for i, item := range v.Items {
		r, ok := cookieRange(item)
		if !ok {
			faults = append(faults, option.Fault{
				Path: fmt.Sprintf("[%d]", i), Position: item.At, Problem: fmt.Sprintf("is %s, not a cookie: write a number from 0, or a range such as 7-9", item),
			})
		}
		s.ranges = append(s.ranges, r)
	}
	if len(faults) > 0 {
		return &option.Error{Faults: faults}
	}
	return s.join()
}

// join sorts the ranges and merges those that touch. A duplicate cookie is an error.
func (s *cookieSet) join() error {
	slices.SortFunc(s.ranges, func(a, b *statepb.Interval) int { return cmp.Compare(a.GetBegin(), b.GetBegin()) })
	var out []*statepb.Interval
	for _, r := range s.ranges {
		last := len(out) - 1
		switch {
		case last < 0 || r.GetBegin() > out[last].GetEnd():
			out = append(out, r)
		case r.GetBegin() < out[last].GetEnd():
			return fmt.Errorf("%d is listed twice: each job runs once", r.GetBegin())
		default:
			out[last].End = r.GetEnd()
		}
	}
	s.ranges = out
	return nil
}

// WriteOption implements option.Writer.
func (s *cookieSet) WriteOption() any {
	items := make([]any, len(s.ranges))
	for i, r := range s.ranges {
		if r.GetEnd() == r.GetBegin()+1 {
			items[i] = float64(r.GetBegin())
		} else {
			items[i] = fmt.Sprintf("%d-%d", r.GetBegin(), r.GetEnd()-1)
		}
	}
	return items
}

// cookieRange reads a cookie, or a range such as 7-9. It reports whether v is one.
func cookieRange(v *option.Value) (*statepb.Interval, bool) {
	if v.Kind == option.Number {
		if !v.IsWhole || v.Whole < 0 || v.Whole >= MaxJobs {
			return nil, false
		}
		return &statepb.Interval{Begin: int32(v.Whole), End: int32(v.Whole) + 1}, true
	}
	begin, end, ranged := strings.Cut(v.Text, "-")
	if !ranged {
		end = begin
	}
	first, err := strconv.ParseUint(strings.TrimSpace(begin), 10, 31)
	last, wrong := strconv.ParseUint(strings.TrimSpace(end), 10, 31)
	if v.Kind != option.Text || err != nil || wrong != nil || last < first || last == math.MaxInt32 {
		return nil, false
	}
	return &statepb.Interval{Begin: int32(first), End: int32(last) + 1}, true
}

// sweep checks max_attempts and cookies, and returns the cookies that run; nil for all (J.5.4).
// Both options are faults for jobs that are not independent of each other.
func (c *checker) sweep(t *Task) []*statepb.Interval {
	why := ""
	switch {
	case c.together:
		why = "with is_gang no job of the operation is useful without the others"
	case c.Given(t, &t.Gang) != nil:
		why = "jobs with gang_options are useful only together: when one fails, all of them restart"
	case or(t.RestartCompleted, false):
		why = "restart_completed_jobs reruns a job whenever it ends, so no job is ever done"
	}
	for _, field := range []any{&t.MaxAttempts, &t.Cookies} {
		if why != "" && c.Given(t, field) != nil {
			c.Fault(t, field, "%s: leave it out", why)
		}
	}
	if t.Cookies == nil || t.JobCount == nil {
		return nil
	}
	ranges, jobs := t.Cookies.ranges, int32(*t.JobCount)
	if last := ranges[len(ranges)-1]; last.GetEnd() > jobs {
		c.Fault(t, &t.Cookies, "%d is not below job_count, %d: cookies are 0 to %d", last.GetEnd()-1, jobs, jobs-1)
	}
	if len(ranges) == 1 && ranges[0].GetBegin() == 0 && ranges[0].GetEnd() == jobs {
		return nil
	}
	return ranges
}
