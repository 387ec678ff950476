package conformance_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestRunner sees that cases are compared, and that nothing unknown is passed over.
func TestRunner(t *testing.T) {
	const simple = `"name": "c", "total_resources": {"cpu": 100}, "tolerance": {"abs": 1e-7},
		"pools": [{"id": "p", "parent": "<Root>", "mode": "fair_share"}],
		"operations": [{"id": "o", "parent": "p", "demand": {"cpu": 50}, "usage": {"cpu": 0}}]`
	cases := map[string]struct {
		give           string
		want           result
		wantMismatches []string
		wantErr        string
	}{
		"right": {
			give: `{"category": "basic", ` + simple + `, "expect": {"elements": {"o": {"fair_share": {"total": [null, 0.5, 0, 0, 0]}}}}}`,
			want: result{checks: 4}},
		"wrong": {
			give:           `{"category": "basic", ` + simple + `, "expect": {"elements": {"p": {"demand_share": [0, 0.6, 0, null, null]}}}}`,
			want:           result{checks: 3},
			wantMismatches: []string{"case c map[]: element p: demand_share.cpu: got 0.5, want 0.6"}},
		"with both settings": {
			give: `{"category": "basic", "options_matrix": {"improved_fit_factor": [false, true]}, ` + simple + `, "expect": {"elements": {"o": {"limits_share": [0, 1, 0, 0, 0]}}}}`,
			want: result{checks: 10}},
		"legacy":              {give: `{"category": "basic", "version": "legacy (old)", "what": 1}`, want: result{legacy: 1}},
		"pending":             {give: `{"category": "packing", "what": 1}`, want: result{pending: 1}},
		"an unknown category": {give: `{"category": "magic"}`, wantErr: `unknown category "magic"`},
		"an unknown version":  {give: `{"category": "basic", "version": "next"}`, wantErr: `unknown version "next"`},
		"an unknown field":    {give: `{"category": "basic", "what": 1}`, wantErr: `unknown field "what"`},
		"an unknown option":   {give: `{"category": "basic", "options": {"what": true}}`, wantErr: `unknown option "what"`},
		"an unknown element": {
			give: `{"category": "basic", ` + simple + `, "expect": {"elements": {"q": {}}}}`, wantErr: `unknown element "q"`},
		"an unknown attribute": {
			give: `{"category": "basic", ` + simple + `, "expect": {"elements": {"p": {"mood": 1}}}}`, wantErr: "p.mood: unknown field"},
		"an unknown property": {
			give: `{"category": "property", ` + simple + `, "expect": {"properties": [{"kind": "pretty"}]}}`, wantErr: "unknown property"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got result
			err := got.replayCase(json.RawMessage(tc.give))
			if err == nil != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("error %v, want %q", err, tc.wantErr)
			}
			if err == nil && (got.checks != tc.want.checks || got.legacy != tc.want.legacy || got.pending != tc.want.pending) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if strings.Join(got.mismatches, "\n") != strings.Join(tc.wantMismatches, "\n") {
				t.Errorf("mismatches %q, want %q", got.mismatches, tc.wantMismatches)
			}
		})
	}
}
