package main

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// A process' oom_score_adj says how gladly the kernel kills it when the machine is out of
// memory: 1000 is as if it held all memory that there is beside its own. Those of jobs go
// before the node's own, which have 0, and those of jobs above their reserve before all.
const (
	scoreWithin = 100
	scoreAbove  = 500
	scoreMax    = 1000
	// scoreStep is the least change that is worth telling.
	scoreStep = 10
)

// oomScore is the score of a job's processes. machine is all memory that there is.
func oomScore(usage, reserve, machine int64) int {
	if usage <= reserve || machine <= 0 {
		return scoreWithin
	}
	share := min(1, float64(usage-reserve)/float64(machine))
	return scoreAbove + int(share*(scoreMax-scoreAbove))
}

// scorer tells the kernel. Children have the score of their parent when they begin.
type scorer struct {
	reserve, machine int64
	told             int
}

func newScorer(reserve int64) scorer {
	var info unix.Sysinfo_t
	// It cannot fail.
	_ = unix.Sysinfo(&info)
	return scorer{reserve: reserve, machine: int64(info.Totalram) * int64(info.Unit)}
}

// score sets the score of all processes of the job, if it has changed. Without a reserve
// there is nothing to judge by.
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
		// It may have gone, or be another user's that may not be told.
		_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(process.Pid), "oom_score_adj"), []byte(strconv.Itoa(score)), 0)
	}
}
