package spec

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"weir/messages/statepb"
)

func TestParseSweeps(t *testing.T) {
	intervals := func(ends ...int32) (all []*statepb.Interval) {
		for i := 0; i < len(ends); i += 2 {
			all = append(all, &statepb.Interval{Begin: ends[i], End: ends[i+1]})
		}
		return all
	}
	for name, test := range map[string]struct {
		lines        string
		set          []string
		wantAttempts int32
		wantCookies  []*statepb.Interval
	}{
		"nothing is said":       {lines: "pids_limit: 9"},
		"attempts":              {lines: "max_attempts: 3", wantAttempts: 3},
		"attempts on the line":  {lines: "max-attempts: 3", set: []string{"tasks.t.max_attempts=5"}, wantAttempts: 5},
		"one cookie":            {lines: "cookies: [1]", wantCookies: intervals(1, 2)},
		"cookies in any order":  {lines: "cookies: [19, 7-9, '3', 0, 4 - 4]", wantCookies: intervals(0, 1, 3, 5, 7, 10, 19, 20)},
		"ranges that touch":     {lines: "cookies: [7-9, 10-12]", wantCookies: intervals(7, 13)},
		"all of them":           {lines: "cookies: [10-19, 0-9]"},
		"cookies on the line":   {lines: "max_attempts: 1", set: []string{"tasks.t.cookies=[3, 7-9]"}, wantAttempts: 1, wantCookies: intervals(3, 4, 7, 10)},
		"those in place of all": {lines: "cookies: [1]", set: []string{"tasks.t.cookies=[2]"}, wantCookies: intervals(2, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := Read([]byte("tasks:\n  t:\n    job_count: 20\n    command: [run]\n    " + test.lines + "\n"))
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range test.set {
				if err := doc.Set(s); err != nil {
					t.Fatal(err)
				}
			}
			op, _, err := doc.Check()
			if err != nil {
				t.Fatal(err)
			}
			got := op.GetTasks()[0]
			if got.GetMaxAttempts() != test.wantAttempts {
				t.Errorf("max_attempts %d, want %d", got.GetMaxAttempts(), test.wantAttempts)
			}
			if diff := cmp.Diff(test.wantCookies, got.GetCookies(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSweepFaults(t *testing.T) {
	checkFaults(t, map[string]faultCase{
		"attempts": {task("max_attempts: 0"), []string{`line 5, column 19: tasks.t.max_attempts: 0 is not a number from 1 to 1000`}},
		"too many attempts": {task("max_attempts: 1001"),
			[]string{`line 5, column 19: tasks.t.max_attempts: 1001 is not a number from 1 to 1000`}},
		"attempts of a gang": {task("max_attempts: 2", "gang_options: {}"),
			[]string{`line 5, column 19: tasks.t.max_attempts: jobs with gang_options are useful only together: when one fails, all of them restart: leave it out`}},
		"a sweep of a service": {task("max_attempts: 2", "cookies: [0]", "restart_completed_jobs: true"), []string{
			`line 5, column 19: tasks.t.max_attempts: restart_completed_jobs reruns a job whenever it ends, so no job is ever done: leave it out`,
			`line 6, column 14: tasks.t.cookies: restart_completed_jobs reruns a job whenever it ends, so no job is ever done: leave it out`,
		}},
		"attempts of jobs that are needed at once": {"is_gang: true\ntasks: {t: {job_count: 1, command: [run], max_attempts: 2}}\n",
			[]string{`line 2, column 57: tasks.t.max_attempts: with is_gang no job of the operation is useful without the others: leave it out`}},
		"attempts of a mapper": {"type: map\nmapper: {command: [cat], max_attempts: 2, cookies: [1]}\n" + inAndOut + "\n", []string{
			`line 2, column 40: mapper.max_attempts: input on which a job fails is cut into smaller parts, down to one record; max_failed_job_count and max_skipped_records limit how much may fail: leave it out`,
			`line 2, column 52: mapper.cookies: the number of jobs follows from the input: leave it out`,
		}},
		"cookies that are none": {jobs("cookies: [2, -1, 1.5, x, 1-0, [1], 0-]"), []string{
			`line 5, column 18: tasks.t.cookies[1]: is the number -1, not a cookie: write a number from 0, or a range such as 7-9`,
			`line 5, column 22: tasks.t.cookies[2]: is the number 1.5, not a cookie: write a number from 0, or a range such as 7-9`,
			`line 5, column 27: tasks.t.cookies[3]: is the text "x", not a cookie: write a number from 0, or a range such as 7-9`,
			`line 5, column 30: tasks.t.cookies[4]: is the text "1-0", not a cookie: write a number from 0, or a range such as 7-9`,
			`line 5, column 35: tasks.t.cookies[5]: is a list, not a cookie: write a number from 0, or a range such as 7-9`,
			`line 5, column 40: tasks.t.cookies[6]: is the text "0-", not a cookie: write a number from 0, or a range such as 7-9`,
		}},
		"cookies beyond the last": {jobs("cookies: [0, 1-3]"), []string{`line 5, column 14: tasks.t.cookies: 3 is not below job_count, 2: cookies are 0 to 1`}},
		"a cookie twice":          {jobs("cookies: [0-1, 1]"), []string{`line 5, column 14: tasks.t.cookies: 1 is listed twice: each job runs once`}},
		"no cookies":              {jobs("cookies: []"), []string{`line 5, column 14: tasks.t.cookies: it is empty: write cookies, such as [3, 7-9], or leave it out for all jobs`}},
	})
}
