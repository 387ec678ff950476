// Package slicing decides which bytes of the input each job of a map operation reads, and how a
// job's bytes are divided after it has failed.
//
// The input is not read for this: a record belongs to the slice in which it begins, so a border
// may be anywhere, and every byte is in one slice. The package is pure.
package slicing

import "fmt"

// Slice is bytes [Begin, End) of a file: the records that begin there.
type Slice struct {
	File       int32
	Begin, End int64
}

// Bytes returns the total length of the slices.
func Bytes(parts []Slice) (n int64) {
	for _, s := range parts {
		n += s.End - s.Begin
	}
	return n
}

// Size is how much a job reads: exactly one field is set.
type Size struct {
	// BytesPerJob is the maximum number of bytes that a job reads.
	BytesPerJob int64
	// Jobs is the number of jobs. There are fewer jobs only if there are fewer bytes than jobs.
	Jobs int
}

// Limits bound the result.
type Limits struct {
	// Jobs bounds the number of jobs.
	Jobs int
	// Slices bounds the number of slices of a job.
	Slices int
}

// Cut divides files of these sizes, in order, among jobs as evenly as possible, so that small files
// share a job and big ones are cut. An empty file has no slice, and without bytes there are no
// jobs. A job that would have too many slices gets fewer bytes, so there are more jobs.
//
// It returns an error if there would be more jobs than allowed, or if size.Jobs is too small for the
// limit on slices.
func Cut(sizes []int64, size Size, limits Limits) ([][]Slice, error) {
	var total int64
	for _, n := range sizes {
		total += n
	}
	if total == 0 {
		return nil, nil
	}
	count := int64(size.Jobs)
	if size.BytesPerJob > 0 {
		count = (total-1)/size.BytesPerJob + 1
	}
	count = min(count, total)
	if count > int64(limits.Jobs) {
		return nil, fmt.Errorf("the input of %d bytes would be cut into %d jobs, but an operation has at most %d: %s", total, count, limits.Jobs, size.advice(total, limits))
	}
	jobs := deal(sizes, total, count, limits.Slices)
	if size.BytesPerJob == 0 && int64(len(jobs)) > count {
		return nil, fmt.Errorf("job_count %d: a job would read parts of more than %d files: set it to %d or more", size.Jobs, limits.Slices, len(jobs))
	}
	if len(jobs) > limits.Jobs {
		return nil, fmt.Errorf("the input of %d files makes %d jobs of at most %d files each, but an operation has at most %d jobs: join files", len(sizes), len(jobs), limits.Slices, limits.Jobs)
	}
	return jobs, nil
}

// advice says which setting to change.
func (s Size) advice(total int64, limits Limits) string {
	if s.BytesPerJob > 0 {
		return fmt.Sprintf("set data_size_per_job to %d or more", (total-1)/int64(limits.Jobs)+1)
	}
	return fmt.Sprintf("set job_count to %d or less", limits.Jobs)
}

// deal divides the bytes of all files, in order, into `count` shares that differ by at most one
// byte. Each share is for one job, or for several if it spans too many files.
func deal(sizes []int64, total, count int64, most int) [][]Slice {
	share, longer := total/count, total%count
	size := func(job int64) int64 {
		if job < longer {
			return share + 1
		}
		return share
	}
	var jobs [][]Slice
	var open []Slice
	job, left := int64(0), size(0)
	for file, end := range sizes {
		for begin := int64(0); begin < end; {
			n := min(left, end-begin)
			open = append(open, Slice{File: int32(file), Begin: begin, End: begin + n})
			begin, left = begin+n, left-n
			if left == 0 || len(open) == most {
				jobs, open = append(jobs, open), nil
			}
			if left == 0 {
				job++
				left = size(job)
			}
		}
	}
	return jobs
}
