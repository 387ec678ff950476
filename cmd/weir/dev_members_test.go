package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weir/cmd/weir/internal/devcluster"
)

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
	seen := seeMembers(members,
		func(p devcluster.Process) bool { return p.Pid != 2 },
		func(m *devcluster.Member) bool { return m.Name == "r1" })
	drawn := membersTable(seen)
	want := "NAME  ADDRESS         PID  STATE     LOG\n" +
		"r1    127.0.0.1:7701    1  up        /weir/r1/log\n" +
		"r2    127.0.0.1:7702    -  down      /weir/r2/log\n" +
		"n1    -                 3  starting  /weir/n1/log\n"
	if drawn != want {
		t.Errorf("it shows\n%s\nwant\n%s", drawn, want)
	}
	message, err := devStatusMessage(seen, "r1")
	if err != nil {
		t.Fatal(err)
	}
	data, err := encode(message, formatJSON)
	if err != nil {
		t.Fatal(err)
	}
	var told struct {
		Leader  string
		Members []struct {
			Name, State string
			Pid         int
		}
	}
	if err := json.Unmarshal(data, &told); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(told); got != "{r1 [{r1 up 1} {r2 down 0} {n1 starting 3}]}" {
		t.Errorf("programs are told %s", got)
	}
}

// TestHintsOfOtherFolders can be typed as they are.
func TestHintsOfOtherFolders(t *testing.T) {
	secure := &devcluster.Record{Access: devcluster.Access{Addresses: []string{"127.0.0.1:1", "127.0.0.1:2"}, Credentials: "/other/dev/operator"}}
	plain := &devcluster.Record{Access: devcluster.Access{Addresses: []string{"127.0.0.1:1"}}}
	for name, test := range map[string]struct {
		record         *devcluster.Record
		dir            string
		want, wantDown string
	}{
		"the usual one": {secure, ".weir", "need no flags", "weir dev down"},
		"another":       {secure, "/other", "export WEIR_ADDRESSES=127.0.0.1:1,127.0.0.1:2 WEIR_CREDENTIALS=/other/dev/operator", "weir dev down --dir /other"},
		"in plaintext":  {plain, "/other", "export WEIR_ADDRESSES=127.0.0.1:1 WEIR_INSECURE_PLAINTEXT=true", "weir dev down --dir /other"},
		"elsewhere":     {secure, "/other/.weir", "need no flags", "weir dev down --dir /other/.weir"},
	} {
		t.Run(name, func(t *testing.T) {
			if hint := findHint(test.record, test.dir); !strings.HasSuffix(hint, test.want) && !strings.Contains(hint, test.want+";") {
				t.Errorf("it says %q, want %q", hint, test.want)
			}
			if down := downCommand(test.dir); down != test.wantDown {
				t.Errorf("it is stopped by %q, want %q", down, test.wantDown)
			}
		})
	}
}
