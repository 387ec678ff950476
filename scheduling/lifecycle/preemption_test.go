package lifecycle_test

import (
	"testing"

	"weir/scheduling/lifecycle"
)

func TestPreemptionKinds(t *testing.T) {
	cases := map[string]struct {
		kind      lifecycle.PreemptionKind
		wantAbort lifecycle.AbortReason
	}{
		"none":                     {lifecycle.NotPreempted, lifecycle.NotAborted},
		"preemption":               {lifecycle.Preemption, lifecycle.AbortPreemption},
		"aggressive_preemption":    {lifecycle.AggressivePreemption, lifecycle.AbortPreemption},
		"graceful_preemption":      {lifecycle.GracefulPreemption, lifecycle.AbortPreemption},
		"resource_limits_violated": {lifecycle.ResourceLimitsViolated, lifecycle.AbortPreemption},
		"resource_overcommit":      {lifecycle.ResourceOvercommit, lifecycle.AbortNodeResourceOvercommit},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := lifecycle.ParsePreemptionKind(name)
			if err != nil || got != tc.kind || tc.kind.String() != name {
				t.Errorf("%q is %v, %v; %v is written %q", name, got, err, tc.kind, tc.kind.String())
			}
			if reason := tc.kind.AbortReason(); reason != tc.wantAbort {
				t.Errorf("abort reason %v, want %v", reason, tc.wantAbort)
			}
		})
	}
	if got := lifecycle.PreemptionKind(99).String(); got != "lifecycle.PreemptionKind(99)" {
		t.Errorf("an unknown kind is written %q", got)
	}
	for _, name := range []string{"", "Preemption", "user_request"} {
		if _, err := lifecycle.ParsePreemptionKind(name); err == nil {
			t.Errorf("ParsePreemptionKind(%q) takes it", name)
		}
	}
}
