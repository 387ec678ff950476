package main

import (
	"strings"
	"testing"

	"weir/cmd/weir/internal/devcluster"
)

func TestBarInPlainLines(t *testing.T) {
	for name, test := range map[string]struct {
		steps []int64
		want  string
	}{
		"first and last are shown":        {[]int64{0, 1, 2, 3}, "work: 0 done\nwork: 3 done\n"},
		"the same is not said twice":      {[]int64{0, 0, 3, 3}, "work: 0 done\nwork: 3 done\n"},
		"what never ends has no last one": {[]int64{1, 2}, "work: 1 done\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			b := newScreen(&out).bar("work", 3)
			for _, done := range test.steps {
				b.update(done, string(rune('0'+done))+" done")
			}
			b.close()
			if out.String() != test.want {
				t.Errorf("it showed %q, want %q", out.String(), test.want)
			}
		})
	}
}

func TestMembersTable(t *testing.T) {
	process := func(pid int) (p devcluster.Process) {
		p.Pid = pid
		return p
	}
	members := []devcluster.Member{
		{Name: "r1", Address: "127.0.0.1:7701", Process: process(1), Log: "/weir/r1/log"},
		{Name: "r2", Address: "127.0.0.1:7702", Process: process(2), Log: "/weir/r2/log"},
		{Name: "n1", Process: process(3), Log: "/weir/n1/log"},
	}
	drawn := membersTable(members,
		func(p devcluster.Process) bool { return p.Pid != 2 },
		func(m *devcluster.Member) bool { return m.Name == "r1" })
	var rows []string
	for line := range strings.Lines(drawn) {
		if fields := strings.Fields(strings.NewReplacer("│", " ").Replace(line)); len(fields) == 5 {
			rows = append(rows, strings.Join(fields, " "))
		}
	}
	want := []string{
		"NAME ADDRESS PID STATE LOG",
		"r1 127.0.0.1:7701 1 up /weir/r1/log",
		"r2 127.0.0.1:7702 - down /weir/r2/log",
		"n1 - 3 starting /weir/n1/log",
	}
	if got := strings.Join(rows, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("it shows\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}
