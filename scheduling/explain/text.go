package explain

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// percent writes a part of the whole.
func percent(part float64) string { return strconv.FormatFloat(100*part, 'f', 1, 64) + "%" }

// clock writes a time for people and programs: who shows it puts it into local time.
func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// PoolTitle names a pool.
func PoolTitle(name scheduling.PoolName) string { return "pool " + strconv.Quote(string(name)) }

// quantity writes an amount of a resource, and of which, as people have it.
func quantity(k resource.Kind, n int64) string {
	if k == resource.UserSlots {
		return counted(n, "slot")
	}
	return amount(k, n) + " " + k.String()
}

// amount writes how much of a resource there is as people have it.
func amount(k resource.Kind, n int64) string {
	switch k {
	case resource.CPU:
		return resource.Hundredths(n).String()
	case resource.Memory:
		return resource.ShowSize(n)
	default:
		return strconv.FormatInt(n, 10)
	}
}

// inUnits is an amount in cores and bytes.
func inUnits(k resource.Kind, n int64) float64 {
	if k == resource.CPU {
		return resource.Hundredths(n).Cores()
	}
	return float64(n)
}

// plural is one of two words: that for one thing, or that for more.
func plural[N int | int64 | uint64](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// counted writes a number of things.
func counted[N int | int64](n N, thing string) string {
	return fmt.Sprintf("%d %s", n, plural(n, thing, thing+"s"))
}

// times is how often something was.
func times(n uint64) string { return plural(n, "once", fmt.Sprintf("%d times", n)) }

// titleOf names a task, and its jobs that get memory of their own.
func titleOf(t allocation.TaskID) string {
	if t.Group == 0 {
		return fmt.Sprintf("task %s", t.Name)
	}
	return fmt.Sprintf("task %s that ran out of memory before, and gets %s", t.Name, resource.FormatSize(t.Group))
}

func later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

func sooner(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }
