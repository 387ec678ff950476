// Package conformance replays published cases with the scheduler's rules.
//
// A case is data: a cluster, pools, operations, settings and what must come of
// them. TestConformance replays every case of the *.json files in
// testdata/conformance, or in the folder that WEIR_VECTORS names.
package conformance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// categories are those that are replayed.
var categories = map[string]bool{
	"basic": true, "limits": true, "property": true, "promised_guarantee": true, "errors": true,
	"integral": true, "guarantee_adjustment": true, "estimated_guarantee": true, "gang": true,
	"fifo_reordering": true, "fifo_truncation": true, "volume": true, "best_allocation": true,
	"integral_attributes": true, "inferred_guarantees": true, "priority_guarantees": true,
	"satisfaction": true, "status": true, "pool_limits": true,
}

// pending are categories of rules that are not there yet.
var pending = map[string]bool{
	"starvation": true, "preemption_lists": true, "conditional_preemption": true, "effective_settings": true,
	"scheduling_order": true, "scheduling_priority": true, "scenario": true, "packing": true,
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
	var head struct{ Name, Category, Version string }
	if err := json.Unmarshal(vector, &head); err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(head.Version, "legacy"):
		r.legacy++
		return nil
	case pending[head.Category]:
		r.pending++
		return nil
	case !categories[head.Category]:
		return fmt.Errorf("%s: unknown category %q", head.Name, head.Category)
	}
	var c testCase
	if err := strict(vector, &c); err != nil {
		return fmt.Errorf("%s: %w", head.Name, err)
	}
	if c.Version != "" {
		return fmt.Errorf("%s: unknown version %q", c.Name, c.Version)
	}
	return c.replay(r)
}

// strict decodes JSON in which every field has to be known.
func strict(content []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
