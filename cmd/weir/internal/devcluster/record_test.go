package devcluster

import (
	"net"
	"slices"
	"strings"
	"testing"
)

func TestConditionOfACluster(t *testing.T) {
	process := func(pid int) Process {
		p := Process{}
		p.Pid = pid
		return p
	}
	for name, test := range map[string]struct {
		record Record
		alive  []int
		want   condition
	}{
		"owner lives":                    {Record{Owner: process(1), Members: []Member{{Process: process(2)}}}, []int{1, 2}, owned},
		"owner lives, its children died": {Record{Owner: process(1), Members: []Member{{Process: process(2)}}}, []int{1}, owned},
		"owner died, a child lives":      {Record{Owner: process(1), Members: []Member{{Process: process(2)}}}, []int{2}, stale},
		"all died":                       {Record{Owner: process(1)}, nil, stale},
		"detached and well":              {Record{Owner: process(1), Detached: true, Members: []Member{{}, {Process: process(2)}}}, []int{2}, detached},
		"detached by who still lives":    {Record{Owner: process(1), Detached: true, Members: []Member{{Process: process(2)}}}, []int{1}, stale},
		"detached, then all died":        {Record{Owner: process(1), Detached: true, Members: []Member{{Process: process(2)}}}, nil, stale},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.record.condition(func(p Process) bool { return slices.Contains(test.alive, p.Pid) })
			if got != test.want {
				t.Errorf("condition %d, want %d", got, test.want)
			}
		})
	}
}

func TestProcessOfAnotherLife(t *testing.T) {
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	younger, otherBoot := self, self
	younger.StartTicks++
	otherBoot.Boot = "another"
	for name, test := range map[string]struct {
		process Process
		want    bool
	}{
		"itself":                 {self, true},
		"the pid, started later": {younger, false},
		"of another boot":        {otherBoot, false},
		"none":                   {Process{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.process.Alive(); got != test.want {
				t.Errorf("alive %v, want %v", got, test.want)
			}
		})
	}
}

func TestFreePorts(t *testing.T) {
	ports, err := freeRanges(5, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ports)
	if len(slices.Compact(ports)) != 5 {
		t.Errorf("ports %v", ports)
	}
}

func TestJobRanges(t *testing.T) {
	held, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	ranges, err := freeRanges(8, jobPorts, []int{firstPort + 7})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ranges)
	for i, first := range ranges {
		if i > 0 && first < ranges[i-1]+jobPorts || first <= firstPort+7 || first+jobPorts > 1<<16 {
			t.Errorf("ranges %v: those of %d have others' ports in them", ranges, first)
		}
	}
	if len(ranges) != 8 {
		t.Errorf("%d ranges, want 8", len(ranges))
	}
	if areFree(held.Addr().(*net.TCPAddr).Port-jobPorts/2, jobPorts) {
		t.Error("a range is called free that has a listener in it")
	}
	if _, err := freeRanges(10_000, jobPorts, nil); err == nil || !strings.Contains(err.Error(), "need 10000") {
		t.Errorf("more than there are: %v", err)
	}
}

func TestShareOut(t *testing.T) {
	for name, test := range map[string]struct {
		cores  float64
		memory int64
		agents int
		want   Share
	}{
		"large machine":    {64, 256 << 30, 4, Share{CPU: 16, Memory: 64 << 30, Slots: 16}},
		"small machine":    {2, 8 << 30, 4, Share{CPU: 4, Memory: 2 << 30, Slots: 4}},
		"part of a core":   {0.5, 1 << 30, 2, Share{CPU: 4, Memory: 512 << 20, Slots: 4}},
		"whole mebibytes":  {8, 1<<30 + 1, 1, Share{CPU: 8, Memory: 1 << 30, Slots: 8}},
		"no agents at all": {8, 1 << 30, 0, Share{CPU: 8, Memory: 1 << 30, Slots: 8}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ShareOut(test.cores, test.memory, test.agents); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	config := Default()
	complete(&config)
	config.Dir, config.Insecure, config.DataRoots = "/weir", false, []string{"/a", "/b,c"}
	members := plan(&config, []int{7701, 7702, 7703}, []int{21000, 21300, 21100, 21200})
	lines := make(map[string]string)
	for _, m := range members {
		lines[m.Name] = strings.Join(m.Arguments, " ") + " "
	}
	peers := "r1=127.0.0.1:7701,r2=127.0.0.1:7702,r3=127.0.0.1:7703"
	for name, want := range map[string][]string{
		"r2": {"server --id r2 --data-root /a,\"/b,c\" --listen 127.0.0.1:7702 --advertise 127.0.0.1:7702 --peers " + peers + " ", "--data /weir/dev/r2/data ", "--credentials /weir/dev/r2/credentials ", "--timing default "},
		"n1": {"agent --name n1 --replicas " + peers + " ", "--cpu 4 --memory 512MiB --user-slots 4 ", "--host 127.0.0.1 --ports 21000-21099 ", "--data /weir/dev/n1/data ", "--credentials /weir/dev/n1/credentials "},
	} {
		for _, part := range want {
			if !strings.Contains(lines[name], part) {
				t.Errorf("%s: %q is not in %q", name, part, lines[name])
			}
		}
	}
	config.Insecure = true
	for _, m := range plan(&config, []int{7701, 7702, 7703}, []int{21000, 21300, 21100, 21200}) {
		line := strings.Join(m.Arguments, " ")
		if !strings.Contains(line, "--insecure-plaintext") || strings.Contains(line, "--credentials") {
			t.Errorf("in plaintext: %q", line)
		}
	}
}

func TestProgress(t *testing.T) {
	members := []Member{{Name: "r1", Kind: Replica}, {Name: "r2", Kind: Replica}, {Name: "r3", Kind: Replica}, {Name: "n1", Kind: Agent}, {Name: "n2", Kind: Agent}}
	for name, test := range map[string]struct {
		ready    []string
		view     View
		want     string
		wantDone bool
	}{
		"just started":       {nil, View{}, "replicas up 0/3, leader none yet, agents registered 0/2", false},
		"replicas came up":   {[]string{"r1", "r3"}, View{}, "replicas up 2/3, leader none yet, agents registered 0/2", false},
		"no leader":          {[]string{"r1", "r2", "r3"}, View{Online: []string{"n1", "n2"}}, "replicas up 3/3, leader none yet, agents registered 2/2", false},
		"an agent is missed": {[]string{"r1", "r2", "r3"}, View{Leader: "r2", Online: []string{"n2"}}, "replicas up 3/3, leader r2, agents registered 1/2", false},
		"strangers are not":  {[]string{"r1", "r2", "r3"}, View{Leader: "r2", Online: []string{"n2", "x"}}, "replicas up 3/3, leader r2, agents registered 1/2", false},
		"all there":          {[]string{"r1", "r2", "r3"}, View{Leader: "r2", Online: []string{"n2", "n1"}}, "replicas up 3/3, leader r2, agents registered 2/2", true},
	} {
		t.Run(name, func(t *testing.T) {
			got := progress(members, func(m *Member) bool { return slices.Contains(test.ready, m.Name) }, test.view)
			if got.String() != test.want || got.Done() != test.wantDone {
				t.Errorf("%s, done %v; want %s, done %v", got, got.Done(), test.want, test.wantDone)
			}
		})
	}
}
