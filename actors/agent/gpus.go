package agent

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// GPUs gives the GPUs of a node to its jobs. Each has a number, from 0 on, and is one
// job's at a time.
type GPUs struct {
	count int
	// holders are the jobs that have them, by number. Jobs of an agent that had more of
	// them may hold others.
	holders map[int]string
}

// NewGPUs returns the GPUs of a node that has so many, all of them free.
func NewGPUs(count int64) *GPUs { return &GPUs{count: int(count), holders: map[int]string{}} }

// Assign gives a job so many, those with the lowest numbers that are free. What it has
// already is given to it again.
func (g *GPUs) Assign(job string, count int64) ([]int, error) {
	has := g.of(job)
	for number := 0; number < g.count && int64(len(has)) < count; number++ {
		if _, taken := g.holders[number]; !taken {
			has = append(has, number)
		}
	}
	if int64(len(has)) < count {
		return nil, fmt.Errorf("job needs %d GPUs: the node has %d, %d free", count, g.count, len(has))
	}
	g.Hold(job, has)
	return has, nil
}

// Hold says that a job of an earlier process of the agent has these.
func (g *GPUs) Hold(job string, numbers []int) {
	for _, number := range numbers {
		g.holders[number] = job
	}
}

// Free takes a job's GPUs back.
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

// gpuList writes numbers as WEIR_GPUS has them: 0,2.
func gpuList(numbers []int) string {
	texts := make([]string, len(numbers))
	for i, number := range numbers {
		texts[i] = strconv.Itoa(number)
	}
	return strings.Join(texts, ",")
}
