package chaosrun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/actors/agent/runner/proctree"
	"weir/chaos/history"
	"weir/chaos/witness"
	"weir/cmd/weir/internal/devcluster"
)

// evidence is what a run observes on the machine itself: processes, control groups, folders
// and logs.
type evidence struct {
	dir    string
	config devcluster.Config
	// Writers write the histories of leftovers, of log lines and of the nemesis.
	history.Writers
	// agents reads the agents' journals; nil while the cluster starts.
	agents *journals
}

func newEvidence(dir string, config devcluster.Config) (*evidence, error) {
	streams, err := history.CreateAll(dir, history.LeftoversFile, history.LogFile, history.NemesisFile)
	return &evidence{dir: dir, config: config, Writers: streams}, err
}

// gonePatience bounds how long ended processes and their leftovers may take to disappear: more than two leases of 5 s.
const gonePatience = 14 * time.Second

// quiet records the witnesses that still run although every operation has ended.
func (e *evidence) quiet(ctx context.Context) error {
	return e.gone(ctx, "quiet", func() ([]string, error) { return Processes(e.dir, witness.Verb) })
}

// stopped records what is left after the cluster has stopped, and log lines that must not
// occur.
func (e *evidence) stopped() error {
	err := e.gone(context.Background(), "stopped", func() ([]string, error) {
		left, err := Processes(e.dir)
		if err != nil {
			return nil, err
		}
		groups, err := ControlGroups(e.config.NodePrefix)
		if err != nil {
			return nil, err
		}
		left = append(left, groups...)
		if _, err := os.Stat(e.config.Dir); !errors.Is(err, fs.ErrNotExist) {
			left = append(left, "folder "+e.config.Dir)
		}
		return left, nil
	})
	if e.agents != nil {
		err = errors.Join(err, e.agents.finish())
	}
	return errors.Join(err, e.readLogs())
}

// gone waits until `look` finds nothing, and records what is still found after gonePatience.
func (e *evidence) gone(ctx context.Context, when string, look func() ([]string, error)) error {
	var left []string
	var err error
	gone := devcluster.Await(ctx, gonePatience, func() bool {
		left, err = look()
		return err != nil || len(left) == 0
	})
	if gone {
		return err
	}
	for _, what := range left {
		if err := e.Writers[history.LeftoversFile].Write(history.Leftover{When: when, What: what}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Processes returns the processes that have all of the words in their command line or environment. Left out are
// this one and those above it: what started a run names the run's folder too.
func Processes(words ...string) ([]string, error) {
	all, err := proctree.All()
	if err != nil {
		return nil, fmt.Errorf("look for processes: %w", err)
	}
	parents := make(map[int]int, len(all))
	for _, process := range all {
		parents[process.Pid] = process.Parent
	}
	own := map[int]bool{}
	for pid := os.Getpid(); pid != 0 && !own[pid]; pid = parents[pid] {
		own[pid] = true
	}
	var found []string
	for _, process := range all {
		if own[process.Pid] {
			continue
		}
		// Read the arguments first: Arguments waits while a process is in the middle of an exec and
		// shows none.
		arguments := proctree.Arguments(process)
		// A process that ends meanwhile has no environment.
		environment, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(process.Pid), "environ"))
		text := strings.Join(arguments, "\x00") + "\x00" + string(environment)
		missing := func(word string) bool { return !strings.Contains(text, word) }
		if !slices.ContainsFunc(words, missing) {
			found = append(found, fmt.Sprintf("process %d: %s", process.Pid, strings.Join(arguments, " ")))
		}
	}
	return found, nil
}

// ControlGroups returns the control groups of nodes whose names begin with prefix.
func ControlGroups(prefix string) ([]string, error) {
	var found []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)):
			// The folder has disappeared meanwhile, or is not readable.
			return nil
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), "weir-"+prefix):
			found = append(found, "control group "+path)
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for control groups: %w", err)
	}
	return found, nil
}

// cries are texts that no log of a process may contain.
var cries = []string{"panic:", "fatal error:", "DATA RACE", "concurrent map"}

// readLogs records the lines with cries in the logs of all members.
func (e *evidence) readLogs() error {
	logs, err := filepath.Glob(filepath.Join(e.config.Preserve, "*", "log"))
	if err != nil {
		return fmt.Errorf("read logs: %w", err)
	}
	var errs []error
	for _, path := range logs {
		member := filepath.Base(filepath.Dir(path))
		err := devcluster.EachLine(path, 0, func(line string) {
			if slices.ContainsFunc(cries, func(cry string) bool { return strings.Contains(line, cry) }) {
				errs = append(errs, e.Writers[history.LogFile].Write(history.LogLine{Member: member, Text: line}))
			}
		})
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("read logs: %w", err)
	}
	return nil
}
