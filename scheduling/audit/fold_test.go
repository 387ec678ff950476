package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// noon is when tests begin.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// decision is what a user did, some milliseconds after noon.
func decision(user string, outcome Outcome, object string, millis int) Line {
	return Line{Time: noon.Add(time.Duration(millis) * time.Millisecond), Role: "user", User: user, Method: "OperationService/Abort", Object: object, Right: "manage", Outcome: outcome}
}

// brief says what lines say, in few words.
func brief(lines []Line) string {
	var all []string
	for _, line := range lines {
		text := line.User + " " + string(line.Outcome) + " " + line.Object
		if line.Various {
			text += "various"
		}
		if line.Count > 0 {
			text += fmt.Sprintf(" x%d", line.Count)
		}
		all = append(all, strings.Join(strings.Fields(text), " "))
	}
	return strings.Join(all, "; ")
}

func TestFold(t *testing.T) {
	const second = 1000
	type step struct {
		// add, or else a Take at this time, which has to return want.
		add  []Line
		take int
		want string
	}
	repeat := func(n int, line Line) (all []Line) {
		for range n {
			all = append(all, line)
		}
		return all
	}
	tests := map[string][]step{
		"the first of equal ones at once, the others together": {
			{add: repeat(1000, decision("ann", Denied, "a", 0))}, {take: 100, want: "ann denied a"}, {take: 999, want: ""},
			{take: second, want: "ann denied a x999"}, {take: 2 * second, want: ""},
		},
		"one repetition has no count": {
			{add: repeat(2, decision("ann", Denied, "a", 0))}, {take: second, want: "ann denied a; ann denied a"},
		},
		"others are not equal": {
			{add: []Line{decision("ann", Denied, "a", 0), decision("ann", Denied, "b", 1), decision("ann", Allowed, "a", 2), decision("bob", Denied, "a", 3)}},
			{take: second, want: "ann denied a; ann denied b; ann allowed a; bob denied a"},
		},
		"a new window begins with a line": {
			{add: repeat(2, decision("ann", Denied, "a", 0))}, {take: second, want: "ann denied a; ann denied a"},
			{add: repeat(2, decision("ann", Denied, "a", second+1))}, {take: second + 2, want: "ann denied a"},
		},
		"many objects are counted together; changes apart": {
			{add: []Line{
				decision("ann", Denied, "a", 0), decision("ann", Denied, "b", 0), decision("ann", Denied, "c", 0), decision("ann", Denied, "d", 0),
				decision("ann", Denied, "e", 0), decision("ann", Allowed, "a", 0), decision("ann", Denied, "a", 0),
			}},
			{take: second, want: "ann denied a; ann denied b; ann denied various; ann allowed a; ann denied various x2; ann denied a"},
		},
		"who has most loses some when there is no room": {
			{add: []Line{decision("ann", Denied, "a", 0), decision("ann", Denied, "b", 0), decision("bob", Denied, "a", 0), decision("ann", Denied, "c", 0), decision("ann", Denied, "d", 0)}},
			{add: []Line{decision("cid", Allowed, "a", 0), decision("cid", Allowed, "b", 0)}},
			{take: second, want: "ann denied a; bob denied a; cid allowed a; cid allowed b; ann lost x3"},
		},
		"a clock that was set back ends windows": {
			{add: repeat(3, decision("ann", Denied, "a", 0))}, {take: -1, want: "ann denied a; ann denied a x2"},
		},
	}
	for name, steps := range tests {
		limits := Limits{Distinct: 2, Pending: 100}
		if strings.Contains(name, "room") {
			limits = Limits{Distinct: 100, Pending: 4}
		}
		f := NewFold(limits)
		for i, s := range steps {
			for _, line := range s.add {
				f.Add(line)
			}
			if s.add != nil {
				continue
			}
			if got := brief(f.Take(noon.Add(time.Duration(s.take)*time.Millisecond), false)); got != s.want {
				t.Errorf("%s: step %d: %q, want %q", name, i, got, s.want)
			}
		}
		if f.Pending() != 0 {
			t.Errorf("%s: %d lines wait in the end", name, f.Pending())
		}
	}
}

// TestFoldKeepsOthers (T8): whatever a flooding subject does, each decision about others is in a line
// as long as others have no more than their part; and each decision is in a line or counted as lost.
func TestFoldKeepsOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{Distinct: rapid.IntRange(1, 50).Draw(t, "distinct"), Pending: rapid.IntRange(40, 80).Draw(t, "pending")}
		// The accounts: five of others, and two of the one who floods.
		part := limits.Pending / 7
		f := NewFold(limits)
		added, counted := map[string]int64{}, map[string]int64{}
		lost := int64(0)
		now := noon
		take := func(all bool) {
			for _, line := range f.Take(now, all) {
				counted[line.User] += max(line.Count, 1)
				if line.Outcome == Lost {
					lost += line.Count
					if line.User != "mallory" {
						t.Fatalf("lost %d decisions about %s", line.Count, line.User)
					}
				}
			}
		}
		for range rapid.IntRange(1, 10).Draw(t, "rounds") {
			waiting := map[string]int{}
			for i := range rapid.IntRange(0, 400).Draw(t, "calls") {
				user := "mallory"
				if other := fmt.Sprintf("u%d", rapid.IntRange(0, 4).Draw(t, "other")); rapid.IntRange(0, 9).Draw(t, "who") == 0 && waiting[other] < min(part, limits.Distinct) {
					user = other
					waiting[other]++
				}
				outcome := Denied
				if user == "mallory" && rapid.Bool().Draw(t, "allowed") {
					outcome = Allowed
				}
				line := decision(user, outcome, fmt.Sprint(rapid.IntRange(0, 100).Draw(t, "object")), 0)
				line.Time = now.Add(time.Duration(i) * time.Microsecond)
				f.Add(line)
				added[user]++
				if f.Pending() > limits.Pending {
					t.Fatalf("%d lines wait, the limit is %d", f.Pending(), limits.Pending)
				}
			}
			now = now.Add(time.Duration(rapid.IntRange(1, 1500).Draw(t, "pause")) * time.Millisecond)
			take(false)
		}
		take(true)
		for user, n := range added {
			if counted[user] != n {
				t.Fatalf("%d decisions about %s, %d of them counted", n, user, counted[user])
			}
		}
		if f.Lost() != lost {
			t.Fatalf("%d lost, lines tell of %d", f.Lost(), lost)
		}
	})
}

// TestVictims (T8): a log that removes the lines of victims until it has room keeps all lines of an
// account that has no more than its part.
func TestVictims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const room, segmentSize = 1000, 100
		accounts := rapid.IntRange(1, 8).Draw(t, "accounts")
		written := map[string]int64{}
		var log []Segment
		for range rapid.IntRange(1, 200).Draw(t, "writes") {
			account := "a0"
			if rapid.IntRange(0, 3).Draw(t, "flood") == 0 {
				account = fmt.Sprintf("a%d", rapid.IntRange(0, accounts-1).Draw(t, "account"))
			}
			size := int64(rapid.IntRange(1, 50).Draw(t, "size"))
			written[account] += size
			if n := len(log); n == 0 || total(log[n-1:])+size > segmentSize {
				log = append(log, Segment{})
			}
			log[len(log)-1][account] += size
			for total(log) > room {
				i, victim, ok := Victim(log)
				if !ok || log[i][victim] == 0 {
					t.Fatalf("nothing of %q in segment %d", victim, i)
				}
				if whole := held(log, victim); whole*int64(len(written)) < room {
					t.Fatalf("%s with %d of %d bytes loses lines, with %d accounts", victim, whole, room, len(written))
				}
				delete(log[i], victim)
			}
		}
		for account, bytes := range written {
			if bytes*int64(len(written)) <= room && held(log, account) != bytes {
				t.Fatalf("%s wrote %d bytes, %d are left", account, bytes, held(log, account))
			}
		}
	})
	if _, _, ok := Victim(nil); ok {
		t.Error("an empty log has a victim")
	}
}

func total(log []Segment) (sum int64) {
	for _, s := range log {
		for _, bytes := range s {
			sum += bytes
		}
	}
	return sum
}

func held(log []Segment, account string) (sum int64) {
	for _, s := range log {
		sum += s[account]
	}
	return sum
}

func TestLinesAreCut(t *testing.T) {
	long := strings.Repeat("ä", 1000)
	line := Line{User: long, Object: "a" + long, Why: long + "\xff", Groups: "g", Code: "x\xff"}.Cut()
	for _, text := range []string{line.User, line.Object, line.Why} {
		if len(text) > maxWhy+len("…") || !strings.HasSuffix(text, "ä…") {
			t.Errorf("%d bytes: %q", len(text), text)
		}
	}
	if line.Groups != "g" || line.Code != "x?" {
		t.Errorf("groups %q, code %q", line.Groups, line.Code)
	}
	accounts := []string{Line{Role: "user", User: "a", Outcome: Denied}.Account(), Line{Role: "user", User: "a", Outcome: Allowed, Right: "use"}.Account(),
		Line{Role: "operator", User: "a", Outcome: Denied}.Account()}
	if slices.Sort(accounts); len(slices.Compact(accounts)) != 3 || (Line{User: "a", Outcome: Allowed, Right: "read"}).Account() != (Line{User: "a", Outcome: Denied}).Account() {
		t.Error("accounts are not of subjects, or changes have none of their own")
	}
}

// TestDifferentChangesAreNotEqual (T8): each change that was made has a line of its own, however many
// there are in a second; equal ones are counted.
func TestDifferentChangesAreNotEqual(t *testing.T) {
	f := NewFold(Limits{Distinct: 3, Pending: 1000})
	for i := range 100 {
		line := decision("oda", Allowed, "pool ads", i)
		line.Change = fmt.Sprintf("weight %d -> %d", i/2, i/2+1)
		f.Add(line)
	}
	changes := map[string]int64{}
	for _, line := range f.Take(noon.Add(time.Hour), true) {
		changes[line.Change] += max(line.Count, 1)
		if line.Various {
			t.Errorf("%+v", line)
		}
	}
	for i := range 50 {
		if n := changes[fmt.Sprintf("weight %d -> %d", i, i+1)]; n != 2 {
			t.Errorf("change %d was told %d times", i, n)
		}
	}
	// What was refused has changed nothing: it may be counted together.
	for i := range 100 {
		line := decision("eve", Denied, "pool ads", i)
		line.Change = fmt.Sprint("weight ", i)
		f.Add(line)
	}
	if lines := f.Take(noon.Add(2*time.Hour), true); len(lines) > 6 {
		t.Errorf("%d lines of what was refused", len(lines))
	}
}
