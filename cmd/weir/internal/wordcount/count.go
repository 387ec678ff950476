package wordcount

import (
	"bufio"
	_ "embed" // For the job's script.
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"
)

//go:embed count.sh
var script string

// task is the name of the operation's one task.
const task = "count"

// held makes the last job wait until the file $GATE exists.
const held = `[ "$WEIR_JOB_COOKIE" -lt $((WEIR_TASK_JOB_COUNT - 1)) ] || until [ -e "$GATE" ]; do sleep 0.05; done
`

// Spec returns the description of an operation that counts the words of the folder source with
// this many jobs. If gate is not empty, the last job waits until that file exists.
func Spec(source string, jobs int, gate string) (*structpb.Struct, error) {
	command, environment := script, map[string]any{"SOURCE": source}
	if gate != "" {
		command, environment["GATE"] = held+script, gate
	}
	return structpb.NewStruct(map[string]any{
		"type":  "vanilla",
		"title": "count words in " + source,
		"tasks": map[string]any{task: map[string]any{
			"job_count":      jobs,
			"shell":          true,
			"command":        command,
			"environment":    environment,
			"cpu_limit":      1,
			"memory_limit":   "128MiB",
			"job_time_limit": "10m",
		}},
	})
}

// Counts has the number of words in each file. A file is named by its path relative to the source,
// with slashes and a leading ./
type Counts map[string]int64

// Words returns the sum over all files.
func (c Counts) Words() int64 {
	var sum int64
	for _, n := range c {
		sum += n
	}
	return sum
}

// CountDirectly counts the words of all regular files below source in this process. It returns
// an error if there are none.
func CountDirectly(source string) (Counts, error) {
	counts := make(Counts)
	err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		n, err := countFile(path)
		counts["./"+filepath.ToSlash(name)] = n
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count words of %s: %w", source, err)
	}
	if len(counts) == 0 {
		return nil, fmt.Errorf("count words of %s: no files in it", source)
	}
	return counts, nil
}

func countFile(path string) (int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	return countWords(bufio.NewReader(file))
}

// countWords counts the runs of letters.
func countWords(r io.ByteReader) (int64, error) {
	var words int64
	inside := false
	for {
		b, err := r.ReadByte()
		if errors.Is(err, io.EOF) {
			return words, nil
		}
		if err != nil {
			return words, err
		}
		letter := b|0x20 >= 'a' && b|0x20 <= 'z'
		if letter && !inside {
			words++
		}
		inside = letter
	}
}

// maxShown bounds the differences that are listed one by one.
const maxShown = 10

// merge adds up the outputs of jobs, by cookie, and returns what is wrong with them.
func merge(outputs map[int]string) (Counts, []string) {
	counts := make(Counts)
	owner := make(map[string]int)
	var wrong []string
	for cookie, text := range outputs {
		for line := range strings.Lines(text) {
			number, file, _ := strings.Cut(strings.TrimSpace(line), " ")
			n, err := strconv.ParseInt(number, 10, 64)
			if err != nil || file == "" {
				wrong = append(wrong, fmt.Sprintf("job %d wrote %q, which is not a count and a file name", cookie, line))
				continue
			}
			if other, twice := owner[file]; twice {
				wrong = append(wrong, fmt.Sprintf("%s was counted twice, by jobs %d and %d", file, min(cookie, other), max(cookie, other)))
				continue
			}
			owner[file], counts[file] = cookie, n
		}
	}
	slices.Sort(wrong)
	return counts, wrong
}

// compare lists the differences between two counts.
func compare(direct, counted Counts) []string {
	var wrong []string
	for file, n := range direct {
		switch m, ok := counted[file]; {
		case !ok:
			wrong = append(wrong, file+" was not counted by any job")
		case m != n:
			wrong = append(wrong, fmt.Sprintf("%s has %d words, the job counted %d", file, n, m))
		}
	}
	for file := range counted {
		if _, ok := direct[file]; !ok {
			wrong = append(wrong, file+" was counted by a job but does not exist")
		}
	}
	slices.Sort(wrong)
	return wrong
}

// shorten keeps a list of differences readable.
func shorten(wrong []string) []string {
	if len(wrong) <= maxShown {
		return wrong
	}
	return append(slices.Clone(wrong[:maxShown]), fmt.Sprintf("and %d more", len(wrong)-maxShown))
}
