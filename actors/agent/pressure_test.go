package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMachinePressure(t *testing.T) {
	const gib = 1 << 30
	tests := map[string]struct {
		machine Machine
		want    string
	}{
		"much is left":                            {Machine{Total: 100 * gib, Available: 50 * gib}, ""},
		"a fiftieth is left":                      {Machine{Total: 100 * gib, Available: 2 * gib}, ""},
		"less than a fiftieth":                    {Machine{Total: 100 * gib, Available: 2*gib - 1}, "has 2048.0 MiB of 102400.0 MiB memory available"},
		"less than a fiftieth, of the group's":    {Machine{Total: 100 * gib, Available: gib, Stalled: 90, Of: ofGroup, Group: true}, "the node's control group has 1024.0 MiB of 102400.0 MiB memory available"},
		"processes wait, though much is left":     {Machine{Total: 100 * gib, Available: 10 * gib, Stalled: 90}, ""},
		"processes wait, and little is left":      {Machine{Total: 100 * gib, Available: 9 * gib, Stalled: 10, Of: ofGroup}, "processes of the node's control group stalled on memory for 10 %"},
		"processes wait a little, little is left": {Machine{Total: 100 * gib, Available: 9 * gib, Stalled: 9.9}, ""},
		"a machine that could not be measured":    {Machine{}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := test.machine.Pressure()
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("Pressure() = %q, want %q", got, test.want)
			}
		})
	}
}

func TestMeasureMachine(t *testing.T) {
	const (
		meminfo = "MemTotal:       1000 kB\nMemFree:         10 kB\nMemAvailable:    100 kB\n"
		psi     = "some avg10=50.00 avg60=0.10 avg300=0.00 total=2784926\nfull avg10=12.50 avg60=0.00 avg300=0.00 total=1142497\n"
		calm    = "some avg10=0.00 avg60=0.10 avg300=0.00 total=2784926\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=1142497\n"
		own     = "sys/fs/cgroup/weir.service/"
	)
	machine := func(meminfo, pressure string) map[string]string {
		return map[string]string{"proc/meminfo": meminfo, "proc/pressure/memory": pressure, "proc/self/cgroup": "", "proc/self/mountinfo": ""}
	}
	// group is a machine whose agent is in a group of its own with that pressure.
	group := func(pressure, limit string) map[string]string {
		files := machine(meminfo, psi)
		files["proc/self/cgroup"], files["proc/self/mountinfo"] = "0::/weir.service\n", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
		files[own+"memory.pressure"] = pressure
		files[own+"memory.max"], files[own+"memory.current"], files[own+"memory.stat"] = limit, "98000\n", "file 2000\nshmem 0\n"
		return files
	}
	tests := map[string]struct {
		files     map[string]string
		want      Machine
		wantLog   string
		wantError string
	}{
		"the machine's pressure":              {files: machine(meminfo, psi), want: Machine{1000 << 10, 100 << 10, 12.5, ofMachine, false}, wantLog: "the whole machine"},
		"a kernel without pressure":           {files: machine(meminfo, ""), want: Machine{1000 << 10, 100 << 10, 0, "", false}, wantLog: "no memory pressure information"},
		"the group's, and others wait":        {files: group(calm, "max\n"), want: Machine{1000 << 10, 100 << 10, 0.5, ofGroup, false}, wantLog: "the node's control group"},
		"the group's, without a limit":        {files: group(psi, "max\n"), want: Machine{1000 << 10, 100 << 10, 12.5, ofGroup, false}, wantLog: own + "memory.pressure"},
		"the group's, which has nothing left": {files: group(psi, "100000\n"), want: Machine{100000, 4000, 12.5, ofGroup, true}, wantLog: "the node's control group"},
		"the group's, which has much left":    {files: group(psi, "1000000000\n"), want: Machine{1000 << 10, 100 << 10, 12.5, ofGroup, false}, wantLog: "the node's control group"},
		"no available memory":                 {files: machine("MemTotal: 1 kB\n", psi), wantError: "no line MemAvailable"},
		"a figure that is none":               {files: machine("MemTotal: much kB\nMemAvailable: 1 kB\n", psi), wantError: `"MemTotal: much kB\n" is not an amount`},
		"a pressure that is none":             {files: machine(meminfo, "full avg60=1\n"), wantError: "is not a pressure value"},
		"a pressure beyond all bound":         {files: machine(meminfo, "full avg10=NaN\n"), wantError: "is not a pressure value"},
		"a pressure file of another":          {files: machine(meminfo, "some avg10=1.0\n"), wantError: "no line full"},
		"a group's pressure that is none":     {files: group("full avg60=1\n", "max\n"), wantError: "measure pressure of the node's control group"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range test.files {
				path := filepath.Join(root, file)
				if text == "" && strings.HasPrefix(file, "proc/pressure") {
					continue
				}
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			source := findPressure(root)
			var said strings.Builder
			source.tell(slog.New(slog.NewTextHandler(&said, nil)), "n1")
			if !strings.Contains(said.String(), test.wantLog) {
				t.Errorf("log %s, want %q", said.String(), test.wantLog)
			}
			got, err := source.measure()
			if test.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantError) {
					t.Fatalf("error %v, want %q", err, test.wantError)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("measure() = %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

func TestThisMachineCanBeMeasured(t *testing.T) {
	source := findPressure("/")
	got, err := source.measure()
	if err != nil || got.Total <= 0 || got.Available <= 0 || got.Available > got.Total {
		t.Errorf("measure() = %+v, %v", got, err)
	}
}
