// Package conformance replays published cases with the scheduler's rules.
//
// A case is data: a cluster, pools, operations, settings and what must come of
// them. TestConformance replays every case of the *.json files in
// testdata/conformance, or in the folder that WEIR_VECTORS names.
package conformance_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// categories say how the cases of each are replayed; nil: the rule is not there yet, and
// they are pending.
var categories = map[string]func(*result, json.RawMessage) error{
	"basic": replayTree, "limits": replayTree, "property": replayTree, "promised_guarantee": replayTree, "errors": replayTree,
	"integral": replayTree, "guarantee_adjustment": replayTree, "estimated_guarantee": replayTree, "gang": replayTree,
	"fifo_reordering": replayTree, "fifo_truncation": replayTree, "volume": replayTree, "best_allocation": replayTree,
	"integral_attributes": replayTree, "inferred_guarantees": replayTree, "priority_guarantees": replayTree,
	"satisfaction": replayTree, "status": replayTree, "pool_limits": replayTree, "starvation": replayTree,
	"effective_settings": replayTree, "scheduling_order": replayTree, "scheduling_priority": replayTree,
	"preemption_lists": replayLists, "packing": replayPacking, "conditional_preemption": refuseConditional, "scenario": replayScenario,
}

// replayed are versions of older revisions whose cases hold all the same: in some
// parts that are not compared, or in how an option was called.
var replayed = map[string]bool{"": true, versionParts: true, "legacy_spec_option": true}

// versionParts is the version of cases that set, and do not expect, what is no more.
const versionParts = "legacy_parts"

// refuseConditional fails: some jobs are preempted in favour of some pools in older
// revisions alone, and cases about it say so.
func refuseConditional(*result, json.RawMessage) error {
	return errors.New("conditional preemption is of older revisions: version must be legacy")
}

func TestConformance(t *testing.T) {
	folder := os.Getenv("WEIR_VECTORS")
	if folder == "" {
		folder = filepath.Join("testdata", "conformance")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err == nil && len(files) == 0 && !filepath.IsAbs(folder) {
		// As it is seen from where go test is called: the root of the project.
		files, err = filepath.Glob(filepath.Join("..", "..", folder, "*.json"))
	}
	if err != nil || len(files) == 0 {
		t.Fatalf("no *.json in %s: %v", folder, err)
	}
	for _, file := range files {
		r, err := replayFile(file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		for _, m := range r.mismatches {
			t.Error(m)
		}
		fmt.Printf("%s: %d cases, %d checks, %d mismatches, %d legacy skipped, %d pending\n",
			filepath.Base(file), r.cases, r.checks, len(r.mismatches), r.legacy, r.pending)
	}
}

// result is what became of the cases of a file.
type result struct {
	cases, checks, legacy, pending int
	mismatches                     []string
}

func replayFile(path string) (result, error) {
	var r result
	content, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	var file struct {
		Meta    json.RawMessage   `json:"meta"`
		Vectors []json.RawMessage `json:"vectors"`
	}
	if err := strict(content, &file); err != nil {
		return r, err
	}
	if len(file.Vectors) == 0 {
		return r, fmt.Errorf("there are no cases")
	}
	for i, vector := range file.Vectors {
		r.cases++
		if err := r.replayCase(vector); err != nil {
			r.mismatches = append(r.mismatches, fmt.Sprintf("case %d of %s: %v", i, filepath.Base(path), err))
		}
	}
	return r, nil
}

func (r *result) replayCase(vector json.RawMessage) error {
	var h head
	if err := json.Unmarshal(vector, &h); err != nil {
		return err
	}
	replay, known := categories[h.Category]
	switch {
	case !replayed[h.Version] && strings.HasPrefix(h.Version, "legacy"):
		r.legacy++
		return nil
	case !known:
		return fmt.Errorf("%s: unknown category %q", h.Name, h.Category)
	case !replayed[h.Version]:
		return fmt.Errorf("%s: unknown version %q", h.Name, h.Version)
	case replay == nil:
		r.pending++
		return nil
	}
	if err := replay(r, vector); err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}
	return nil
}

// replayTree replays a case about a tree.
func replayTree(r *result, vector json.RawMessage) error {
	var c testCase
	if err := strict(vector, &c); err != nil {
		return err
	}
	return c.replay(r)
}

// strict decodes JSON in which every field has to be known.
func strict(content []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
