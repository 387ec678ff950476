package agent

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// GPUs assigns the GPUs of a node to its jobs. They are numbered from 0, and each belongs to
// one job at a time.
type GPUs struct {
	count int
	// holders are the jobs by GPU number. A job that was started when the agent had more GPUs
	// may hold a number beyond count.
	holders map[int]string
}

// NewGPUs returns `count` GPUs, all free.
func NewGPUs(count int64) *GPUs { return &GPUs{count: int(count), holders: map[int]string{}} }

// Assign assigns `count` GPUs to a job: first those that it already has, then the free ones with
// the lowest numbers.
func (g *GPUs) Assign(job string, count int64) ([]int, error) {
	has := g.of(job)
	for number := 0; number < g.count && int64(len(has)) < count; number++ {
		if _, taken := g.holders[number]; !taken {
			has = append(has, number)
		}
	}
	if int64(len(has)) < count {
		return nil, fmt.Errorf("job needs %d GPUs, but of the node's %d only %d can be assigned to it", count, g.count, len(has))
	}
	g.Hold(job, has)
	return has, nil
}

// Hold records that a job of an earlier agent process has these GPUs.
func (g *GPUs) Hold(job string, numbers []int) {
	for _, number := range numbers {
		g.holders[number] = job
	}
}

// Free frees a job's GPUs.
func (g *GPUs) Free(job string) {
	for _, number := range g.of(job) {
		delete(g.holders, number)
	}
}

func (g *GPUs) of(job string) []int {
	var numbers []int
	for number, holder := range g.holders {
		if holder == job {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// gpuList formats numbers for WEIR_GPUS, for example 0,2.
func gpuList(numbers []int) string {
	texts := make([]string, len(numbers))
	for i, number := range numbers {
		texts[i] = strconv.Itoa(number)
	}
	return strings.Join(texts, ",")
}
