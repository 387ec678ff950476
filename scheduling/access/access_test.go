package access

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/scheduling/option"
)

func TestWho(t *testing.T) {
	ann := Who{User: "ann", Groups: []string{"ads", "all"}}
	list := &List{Read: []Subject{"group:ads"}, Use: []Subject{Everyone}, Manage: []Subject{"user:ann", "user:bob"}, Administer: []Subject{"group:ann", "user:ads"}}
	for _, test := range []struct {
		story string
		who   Who
		want  []Right
	}{
		{"by name, by group, as everyone; a group is no user", ann, []Right{Read, Use, Manage}},
		{"by name", Who{User: "bob"}, []Right{Use, Manage}},
		{"a user of the name of a group", Who{User: "ads"}, []Right{Use, Administer}},
		{"a group of the name of a user", Who{User: "x", Groups: []string{"ann"}}, []Right{Use, Administer}},
		{"nobody", Who{}, []Right{Use}},
		{"an operator", Who{User: "oda", Operator: true}, Rights()},
	} {
		var got []Right
		for _, right := range Rights() {
			if list.Gives(right, test.who) {
				got = append(got, right)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.story, got, test.want)
		}
	}
	if none := (*List)(nil); none.Gives(Use, ann) || !Initial().Gives(Use, ann) || Initial().Gives(Read, ann) {
		t.Error("no list gives a right, or the first one does not give use alone")
	}
}

func TestSubjects(t *testing.T) {
	for subject, want := range map[string]string{
		"*": "", "user:ann": "", "group:a-b.c_d": "", "user:" + strings.Repeat("a", 63): "",
		"user:" + strings.Repeat("a", 64): "must be 1 to 63", "user:": "must be 1 to 63", "group:a b": `group "a b": must be`, "user:*": "must be",
		"ann": "must be user:NAME, group:NAME or *", "operator:x": "must be user:NAME", "": "must be user:NAME", "User:ann": "must be user:NAME",
	} {
		_, err := ParseSubject(subject)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", subject, err, want)
		}
	}
	for _, test := range []struct {
		value any
		want  string
	}{
		{[]any{"user:ann", map[string]any{"group": "ads"}, "*"}, "[user:ann group:ads *]"},
		{[]any{"ann"}, `use[0]: subject "ann": must be user:NAME, group:NAME or * (everyone)`},
		{[]any{7.}, "use[0]: is the number 7, but must be user:NAME"}, {[]any{map[string]any{"team": "ads"}}, `subject "team:ads": must be`},
		{[]any{map[string]any{"user": "a", "group": "b"}}, "must be user:NAME"},
	} {
		var list List
		err := option.Read(&list, map[string]any{"use": test.value})
		if got := fmt.Sprint(list.Use); err == nil && got != test.want || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %s, %v, want %s", test.value, got, err, test.want)
		}
	}
	faults := (&List{Use: []Subject{"user:ann", "user:bob", "user:ann"}}).Faults("acl")
	if len(faults) != 1 || faults[0].Path != "acl/use" || !strings.Contains(faults[0].Problem, "user:ann is named twice") {
		t.Errorf("%v", faults)
	}
}

func TestIsAccount(t *testing.T) {
	for text, want := range map[string]bool{
		"ann": true, "_apt": true, "a-b_c9": true, "machine$": true, "0": true, "1001": true, "4294967294": true, strings.Repeat("a", 32): true,
		"": false, "Ann": false, "9lives": false, "a b": false, "a$b": false, "007": false, "+1": false, "-1": false, "4294967295": false, strings.Repeat("a", 33): false,
	} {
		if got := IsAccount(text); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}

func TestDenied(t *testing.T) {
	many := slices.Repeat([]Subject{"user:u"}, 11)
	for _, test := range []struct {
		denied Denied
		want   string
	}{
		{Denied{User: "x", What: "drain nodes"}, `user "x" may not drain nodes: only operators may (certificates with role operator): ask one, or whoever keeps the authority's key for a certificate (weir tls issue --role operator)`},
		{Denied{User: "x", What: "have jobs run as user root", Grant: "--as root"}, `user "x" may not have jobs run as user root: this needs a grant: an operator gives it with: weir account allow user:x --as root`},
		{Denied{User: "x", What: `use pool "a"`, Right: Use, Tree: "t", Pool: "a"}, `user "x" may not use pool "a": this needs the right use on pool "a", which only operators have: it is given by weir pool acl 'a' --tree t --allow user:x=use`},
		{Denied{User: "x", What: "w", Right: Read, Tree: "t", Pool: "a", Holders: many}, `user "x" may not w: this needs the right read on pool "a", which user:u, user:u, user:u, user:u, user:u, user:u, user:u, user:u and 3 more have: it is given by weir pool acl 'a' --tree t --allow user:x=read`},
	} {
		if got := test.denied.Error(); got != test.want {
			t.Errorf("%s\nwant %s", got, test.want)
		}
	}
}
