package state

import (
	"fmt"
	"slices"
	"testing"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// TestBoundedSettings starts and changes operations that set more than their pools let
// hold: who does so is told, again when the start is repeated.
func TestBoundedSettings(t *testing.T) {
	j := newJournal(t)
	j.must(createPool("ads", "", map[string]any{"fair_share_starvation_timeout_lower_bound": "10s", "fair_share_starvation_tolerance_upper_bound": 0.9}), createPool("free", "", nil))
	start := startWith(func(s *statepb.OperationSpec) {
		s.Pool, s.Options = "ads", structOf(map[string]any{"fair_share_starvation_timeout": "2s", "min_share_preemption_timeout": "1s"})
	})
	start.MutationId = "once"
	const hasty, tolerant = `fair_share_starvation_timeout 2s: pool "ads" allows no less than 10s; 10s applies`,
		`fair_share_starvation_tolerance 1: pool "ads" allows no more than 0.9; 0.9 applies`
	for range 2 {
		result, _ := j.apply(start)
		if got := result.GetStartOperation().GetWarnings(); !slices.Equal(got, []string{hasty}) {
			t.Errorf("a start is told %q", got)
		}
	}
	for _, step := range []struct {
		update *commandpb.UpdateOperation
		want   []string
	}{
		{updateOf(start.GetOperationId(), "", nil, map[string]any{"fair_share_starvation_tolerance": 1.0}), []string{hasty, tolerant}},
		{updateOf(start.GetOperationId(), "", to("free"), nil), nil},
		{updateOf(start.GetOperationId(), "", to("ads"), map[string]any{"fair_share_starvation_timeout": "10s"}), []string{tolerant}},
	} {
		result, _ := j.apply(step.update)
		if got := result.GetUpdateOperation().GetWarnings(); !slices.Equal(got, step.want) {
			t.Errorf("an update is told %q, want %q; refused: %v", got, step.want, result.GetRefusal())
		}
	}
}

// TestCreatedPoolIsTold starts operations in pools that do not exist: who names one is told that it is
// created, which may be a typing mistake.
func TestCreatedPoolIsTold(t *testing.T) {
	j := newJournal(t)
	j.must(createPool("hub", "", map[string]any{"create_ephemeral_subpools": true}), treeEdit("", map[string]any{"default_parent_pool": "<Root>"}))
	for i, step := range []struct {
		pool string
		want []string
	}{
		{"adz", []string{`pool "adz" did not exist: it is created for user "bob", below "<Root>", and removed with its last operation`}},
		{"adz", nil}, {"hub", nil}, {"", nil},
	} {
		start := startWith(func(s *statepb.OperationSpec) { s.Pool = step.pool })
		start.OperationId = fmt.Sprint("op", i)
		result, _ := j.apply(start)
		if got := result.GetStartOperation().GetWarnings(); result.GetRefusal() != nil || !slices.Equal(got, step.want) {
			t.Errorf("a start in pool %q is told %q, want %q; refused: %v", step.pool, got, step.want, result.GetRefusal())
		}
	}
}
