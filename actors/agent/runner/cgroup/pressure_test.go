package cgroup

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestPressureFile(t *testing.T) {
	const own, psi = "sys/fs/cgroup/system.slice/weir.service/", "full avg10=1.00\n"
	with := func(files map[string]string, more ...string) map[string]string {
		for i := 0; i < len(more); i += 2 {
			files[more[i]] = more[i+1]
		}
		return files
	}
	tests := map[string]struct {
		files     map[string]string
		want      string
		wantError string
	}{
		"v2": {files: with(pureV2(), own+"memory.pressure", psi), want: own + "memory.pressure"},
		"v2, the agent in a leaf of systemd's": {
			files: with(pureV2(), "proc/self/cgroup", "0::/system.slice/weir.service/"+Leaf+"\n", own+Leaf+"/memory.pressure", psi, own+"memory.pressure", psi),
			want:  own + "memory.pressure",
		},
		"v2, the agent in a leaf of its own": {
			files: with(pureV2(), "proc/self/cgroup", "0::/system.slice/weir.service/weir-n1-agent\n", own+"weir-n1-agent/memory.pressure", psi, own+"memory.pressure", psi),
			want:  own + "memory.pressure",
		},
		"hybrid":                  {files: with(hybrid(), "sys/fs/cgroup/unified/memory.pressure", psi), want: "sys/fs/cgroup/unified/memory.pressure"},
		"hybrid without pressure": {files: hybrid(), wantError: "memory.pressure: no such file"},
		"v1 alone": {
			files:     with(hybrid(), "proc/self/mountinfo", "35 31 0:32 /box /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"),
			wantError: "no v2 hierarchy",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root := fakeTree(t, test.files)
			got, err := PressureFile(root)
			if test.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantError) {
					t.Errorf("PressureFile: %v, want %q", err, test.wantError)
				}
				return
			}
			if err != nil || got != filepath.Join(root, test.want) {
				t.Errorf("PressureFile: %s, %v, want %s", got, err, test.want)
			}
		})
	}
}

func TestMemoryRoom(t *testing.T) {
	v2 := pureV2()
	v2["sys/fs/cgroup/system.slice/memory.current"] = "4294966296\n"
	v2["sys/fs/cgroup/system.slice/memory.stat"] = "file 3000\nshmem 1000\n"
	v1 := hybrid()
	v1["sys/fs/cgroup/memory/memory.usage_in_bytes"] = "2073741824\n"
	v1["sys/fs/cgroup/memory/memory.stat"] = "total_cache 0\ntotal_shmem 0\n"
	unlimited := pureV2()
	unlimited["sys/fs/cgroup/system.slice/memory.max"] = "max\n"
	tests := map[string]struct {
		files map[string]string
		want  Room
	}{
		"v2, with what can be taken back": {v2, Room{4 << 30, 3000}},
		"hybrid, above its limit":         {v1, Room{1 << 30, 0}},
		"no limit":                        {unlimited, Room{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got, err := MemoryRoom(fakeTree(t, test.files)); err != nil || got != test.want {
				t.Errorf("MemoryRoom: %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}
