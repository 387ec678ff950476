package runner

import (
	"errors"
	"testing"
	"time"

	"weir/actors/agent/runner/proxyproto"
)

// TestGivenUpSaysWhy, also of a job that has ended well.
func TestGivenUpSaysWhy(t *testing.T) {
	tests := map[string]struct{ said, want string }{
		"a job that ended well": {"", "processes still running"},
		"a job that failed":     {"weir-jobproxy ended", "weir-jobproxy ended: processes still running"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			j := newJob(&Runner{config: Config{EndTimeout: time.Minute}}, "job")
			result := j.givenUp(&proxyproto.Result{Error: test.said}, errors.New("processes still running"))
			if result.Error != test.want || result.Hang == nil || result.Hang.IdleMillis != time.Minute.Milliseconds() {
				t.Errorf("error %q, hang %v, want %q", result.Error, result.Hang, test.want)
			}
		})
	}
}
