package readiness

import (
	"errors"
	"strings"
	"testing"

	"weir/messages/actorpb"
	"weir/messages/statepb"
)

func TestFinding(t *testing.T) {
	good, bad := error(nil), errors.New("503 Service\nUnavailable  warming up")
	probed := &statepb.Readiness{Tcp: true, Failures: 2}
	for name, test := range map[string]struct {
		task  *statepb.Readiness
		steps []any
		want  string
	}{
		"nothing is known":                             {probed, nil, ""},
		"a probe finds it ready":                       {probed, []any{good}, "ready"},
		"one failure may be chance":                    {probed, []any{good, bad}, "ready"},
		"so may one of a job that was found again":     {probed, []any{bad}, ""},
		"failures in a row are not":                    {probed, []any{good, bad, bad}, "not_ready: 503 Service Unavailable warming up"},
		"a success between them is":                    {probed, []any{good, bad, good, bad}, "ready"},
		"it is ready at once when it is again":         {probed, []any{bad, bad, good}, "ready"},
		"it says that it is not, and a probe finds it": {probed, []any{good, "not_ready", good}, "not_ready: reported by the instance"},
		"it says so no more":                           {probed, []any{good, "not_ready", "ready"}, "ready"},
		"its word alone does not make it ready":        {probed, []any{bad, bad, "ready"}, "not_ready: 503 Service Unavailable warming up"},
		"it leaves, whatever a probe finds":            {probed, []any{"draining", good}, "draining"},
		"where only its word counts":                   {&statepb.Readiness{Socket: true}, []any{"ready"}, "ready"},
		"where nobody asks":                            {nil, []any{"not_ready"}, "not_ready: reported by the instance"},
		"where nobody asks and it is well again":       {nil, []any{"not_ready", "ready"}, "ready"},
	} {
		t.Run(name, func(t *testing.T) {
			f := Finding{task: test.task}
			for _, step := range test.steps {
				if word, said := step.(string); said {
					f.Said(word)
				} else {
					err, _ := step.(error)
					f.Probed(err)
				}
			}
			word, reason := f.Word()
			if got := strings.TrimSuffix(word+": "+reason, ": "); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestReasonsAreShort(t *testing.T) {
	f := Finding{task: &statepb.Readiness{Tcp: true, Failures: 1}}
	f.Probed(errors.New(strings.Repeat("ä", 200)))
	if word, reason := f.Word(); word != actorpb.WordNotReady || len(reason) > maxReason || !strings.HasSuffix(reason, "ä…") {
		t.Errorf("%s: %d bytes %q, want at most %d", word, len(reason), reason, maxReason)
	}
}
