package identity

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		text    string
		want    Identity
		wantErr string
	}{
		"replica":              {text: "weir://c1/replica/r-1", want: Identity{"c1", Replica, "r-1"}},
		"operator with dots":   {text: "weir://c1/operator/ann.lee", want: Identity{"c1", Operator, "ann.lee"}},
		"other scheme":         {text: "spiffe://c1/replica/r1", wantErr: "must be weir://"},
		"no name":              {text: "weir://c1/replica", wantErr: "must be weir://"},
		"empty name":           {text: "weir://c1/replica/", wantErr: `replica name ""`},
		"unknown role":         {text: "weir://c1/root/r1", wantErr: "must be one of replica"},
		"path in name":         {text: "weir://c1/agent/../x", wantErr: "must be weir://"},
		"name of dots":         {text: "weir://c1/agent/..", wantErr: `agent name ".."`},
		"control character":    {text: "weir://c1/agent/a\nb", wantErr: "agent name"},
		"too long a name":      {text: "weir://c1/agent/" + strings.Repeat("a", 64), wantErr: "1 to 63"},
		"malformed cluster id": {text: "weir://-/agent/a", wantErr: "cluster id"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(test.text)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("Parse(%q) = %v, %v; want an error with %q", test.text, got, err, test.wantErr)
				}
				return
			}
			if err != nil || got != test.want {
				t.Fatalf("Parse(%q) = %v, %v; want %v", test.text, got, err, test.want)
			}
		})
	}
}

func TestParseUndoesString(t *testing.T) {
	word := rapid.StringMatching(`[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		id := Identity{
			Cluster: word.Draw(t, "cluster"),
			Role:    rapid.SampledFrom(Roles()).Draw(t, "role"),
			Name:    word.Draw(t, "name"),
		}
		if got, err := Parse(id.String()); err != nil || got != id {
			t.Fatalf("Parse(%q) = %v, %v", id, got, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("weir://c1/replica/r1")
	f.Add("weir:///replica/")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := Parse(text)
		if err == nil && id.String() != text {
			t.Fatalf("Parse(%q) = %q", text, id)
		}
	})
}
