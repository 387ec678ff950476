package main

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// The oom_score_adj of a process says how readily the kernel kills it when the machine is out of
// memory: 1000 counts as if it also used all memory of the machine. Processes of jobs are killed
// before the node's own, which have 0; jobs above their reserve are killed first.
const (
	scoreWithin = 100
	scoreAbove  = 500
	scoreMax    = 1000
	// scoreStep is the least change that is worth writing.
	scoreStep = 10
)

// oomScore is the score of a job's processes. The parameter `machine` is the memory of the whole
// machine, in bytes.
func oomScore(usage, reserve, machine int64) int {
	if usage <= reserve || machine <= 0 {
		return scoreWithin
	}
	share := min(1, float64(usage-reserve)/float64(machine))
	return scoreAbove + int(share*(scoreMax-scoreAbove))
}

// scorer sets the scores. A child inherits the score of its parent.
type scorer struct {
	reserve, machine int64
	told             int
}

func newScorer(reserve int64) scorer {
	var info unix.Sysinfo_t
	// Sysinfo cannot fail.
	_ = unix.Sysinfo(&info)
	return scorer{reserve: reserve, machine: int64(info.Totalram) * int64(info.Unit)}
}

// score sets the score of all processes of the job, if it has changed noticeably. Without a
// reserve it does nothing.
func (o *scorer) score(inside enclosure, usage int64) {
	if o.reserve <= 0 {
		return
	}
	score := oomScore(usage, o.reserve, o.machine)
	if change := score - o.told; -scoreStep < change && change < scoreStep {
		return
	}
	processes, err := inside.processes()
	if err != nil {
		complain(err)
		return
	}
	o.told = score
	for _, process := range processes {
		// The process may have gone, or belong to another user.
		_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(process.Pid), "oom_score_adj"), []byte(strconv.Itoa(score)), 0)
	}
}
