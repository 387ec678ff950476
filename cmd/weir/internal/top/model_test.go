package top

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestWhyItWaits (W3) finds out why an operation waits in two keys: the view of operations, and Enter.
func TestWhyItWaits(t *testing.T) {
	d := newDesk(t, Config{}, 100, 24)
	d.press("2")
	d.has("runs; 14 wait: pool researc", "train resnet runs; 14 wait: pool research is below its fair share and waits for 2 jobs of pool adhoc\nto leave")
	d.press("enter")
	d.has("Runs; 14 wait: "+contendedReason, "evaluate", "exited with code 3", "leaves within 40s")
	d.press("enter")
	d.has("stdout of job 0 of task train", "epoch 2 loss 0.71")
	d.press("o")
	d.has("stderr of job 0 of task train")
	d.press("esc", "esc", "x")
	d.has("why: operation", "2 of 3 nodes are full")
	d.press("esc", "1", "end", "enter")
	d.has("Operations of pool research in progress · 1")
	d.press("q")
	if !d.quit {
		t.Error("q does not quit")
	}
}

// TestCursorStaysWithItsRow (W3) shows that what is selected stays selected when the list changes.
func TestCursorStaysWithItsRow(t *testing.T) {
	d := newDesk(t, Config{}, 100, 24)
	d.press("2", "down", "down")
	d.has("▸ nightly etl")
	d.cluster = func(q Question) (Answer, error) {
		a, err := contended(q)
		if q.About == aboutOperations {
			a.Operations = append([]Operation{{ID: id(9), Title: "newest"}}, a.Operations...)
		}
		return a, err
	}
	d.after(4 * time.Second)
	d.has("newest", "▸ nightly etl")
	d.press("s")
	d.has("▸ nightly etl")
	d.press("/", "s", "w", "e", "e", "p")
	d.has("1 of 6 match /sweep", "▸ sweep 12")
	d.press("esc")
	d.has("· 6", "▸ sweep 12")
}

// TestArrowsSort (W3) sorts by each column that the screen has room for, there and back; s also by the others.
func TestArrowsSort(t *testing.T) {
	d := newDesk(t, Config{}, 60, 24)
	sorted := func() string {
		for _, word := range strings.Fields(strings.Split(d.screen(), "\n")[3]) {
			if strings.ContainsAny(word, "▲▼") {
				return word
			}
		}
		return ""
	}
	press := func(key string, times int) (titles []string) {
		for range times {
			d.press(key)
			titles = append(titles, sorted())
		}
		return titles
	}
	there := []string{"POOL▲", "STATE▲", "USAGE▼", "FAIR▼", ""}
	if got := press("right", 5); !slices.Equal(got, there) {
		t.Errorf("right sorts by %q, want %q", got, there)
	}
	back := []string{"FAIR▼", "USAGE▼", "STATE▲", "POOL▲", ""}
	if got := press("left", 5); !slices.Equal(got, back) {
		t.Errorf("left sorts by %q, want %q", got, back)
	}
	d.has("▸ adhoc")
	if got, want := press("s", 3), []string{"POOL▲", "STATE▲", ""}; !slices.Equal(got, want) {
		t.Errorf("s sorts by %q, want %q: SINCE has no room", got, want)
	}
	// They sort, and neither open nor leave a page.
	d.press("2", "enter", "left")
	d.has("Jobs of operation")
	d.press("enter", "left", "right")
	d.has("stdout of job")
}

// TestConnectionIsLost (W3) shows since when nothing answers, marks what is stale, and catches up.
func TestConnectionIsLost(t *testing.T) {
	d := newDesk(t, Config{}, 100, 24)
	d.press("2")
	d.after(3 * time.Second)
	d.lacks("No answer", "STALE")
	// Calls hang.
	d.silent = true
	d.after(10 * time.Second)
	d.has("No answer since 12:00:02 (", "STALE, as of 12:00:02", "train resnet")
	if head, _, _ := strings.Cut(d.screen(), "\n"); !strings.Contains(head, "STALE") || strings.Contains(head, "problem") {
		t.Errorf("the first line shows old figures as those of now: %s", head)
	}
	if open := len(d.waiting); open > 4 {
		t.Errorf("%d calls are open: %+v", open, d.waiting)
	}
	// They fail.
	d.cluster = func(Question) (Answer, error) { return Answer{}, errAway }
	waiting := d.waiting
	d.silent, d.waiting = false, nil
	for _, q := range waiting {
		d.send(d.answer(q))
	}
	d.after(20 * time.Second)
	d.has("No answer since 12:00:02 (", "connection refused", "STALE, as of 12:00:02")
	d.press("3", "2")
	d.has("train resnet")
	// It is back.
	d.cluster = contended
	d.after(4 * time.Second)
	d.lacks("No answer", "STALE", "as of")
	// Calls hang for long before they fail: it catches up as soon as one does not.
	d.silent, d.waiting = true, nil
	d.after(time.Minute)
	d.has("STALE")
	waiting = d.waiting
	d.silent, d.waiting = false, nil
	for _, q := range waiting {
		d.send(Answer{Question: q, Time: d.now, Err: errAway, Unreachable: true})
	}
	d.after(4 * time.Second)
	d.lacks("No answer", "STALE", "as of")
}

// TestRefusals (W3) shows what the cluster refuses on the page that asked, and that it is reached.
func TestRefusals(t *testing.T) {
	d := newDesk(t, Config{}, 100, 24)
	d.cluster = func(q Question) (Answer, error) {
		if q.About == aboutNodeJobs {
			return Answer{}, errors.New("get node: node \"n1\" not found")
		}
		return contended(q)
	}
	d.press("3", "enter")
	d.has("node \"n1\" not found")
	d.lacks("No answer")
}

// TestListsComeInParts (W3) shows a list as it arrives, with one call at a time, and asks for it again only
// after four times as long as it took.
func TestListsComeInParts(t *testing.T) {
	d := newDesk(t, Config{Interval: time.Second}, 100, 24)
	const parts, each = 10, 1000
	d.cluster = func(q Question) (Answer, error) {
		if q.About != aboutOperations {
			return contended(q)
		}
		part := 0
		if q.After != "" {
			_, _ = fmt.Sscan(q.After, &part)
		}
		var a Answer
		for i := range each {
			a.Operations = append(a.Operations, Operation{ID: id(part*each + i), Title: fmt.Sprintf("op %d", part*each+i), State: "running", Start: noon})
		}
		a.More, a.After = part+1 < parts, fmt.Sprint(part+1)
		return a, nil
	}
	d.silent = true
	d.press("2")
	asked := 0
	for part := range parts {
		i := slices.IndexFunc(d.waiting, func(q Question) bool { return q.About == aboutOperations })
		if i < 0 {
			t.Fatalf("part %d is not asked for", part)
		}
		q := d.waiting[i]
		d.waiting = nil
		d.after(time.Second)
		d.waiting = slices.DeleteFunc(d.waiting, func(q Question) bool { return q.About != aboutOperations })
		if len(d.waiting) > 0 {
			t.Fatalf("two calls at a time: %+v", d.waiting)
		}
		d.send(d.answer(q))
		asked++
		d.has(fmt.Sprintf("· %s", grouped(asked*each)))
	}
	before := len(d.asked)
	d.after(35 * time.Second)
	again := slices.ContainsFunc(d.asked[before:], func(q Question) bool { return q.About == aboutOperations })
	if again {
		t.Error("a list that took 10 s is asked for again within 40 s")
	}
	d.after(10 * time.Second)
	if !slices.ContainsFunc(d.asked[before:], func(q Question) bool { return q.About == aboutOperations && q.After == "" }) {
		t.Error("the list is not asked for again")
	}
}

// TestOutputIsFollowed (W3) shows new output as it is written, unless one has scrolled back.
func TestOutputIsFollowed(t *testing.T) {
	d := newDesk(t, Config{}, 80, 20)
	written := ""
	d.cluster = func(q Question) (Answer, error) {
		if q.About != aboutOutput {
			return contended(q)
		}
		return Answer{Text: []byte(written[q.Offset:]), Offset: int64(len(written))}, nil
	}
	d.press("2", "enter", "enter")
	for i := range 100 {
		written += fmt.Sprintf("line %d\n", i)
	}
	written += "half"
	d.after(3 * time.Second)
	d.has("line 99", "half")
	written += " a line\nprogress 1%\rprogress 99%\nred \x1b[31m text\n"
	d.after(3 * time.Second)
	d.has("half a line", "progress 99%", "red \uFFFD[31m text")
	d.lacks("progress 1%")
	d.press("home")
	d.has("line 0")
	written += "later\n"
	d.after(3 * time.Second)
	d.lacks("later")
	d.press("end")
	d.has("later")
}

// TestHang breaks the lines of explanations.
func TestHang(t *testing.T) {
	for line, want := range map[string]string{
		"a line that is broken":   "a line that|is broken",
		"  - a fact that is long": "  - a fact|    that is|    long",
		"short":                   "short",
		"":                        "",
	} {
		if got := strings.Join(hang(line, 12), "|"); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestTreeOption (W3) asks for the pools of one tree, or of all.
func TestTreeOption(t *testing.T) {
	for _, tree := range []string{"", "gpu"} {
		d := newDesk(t, Config{Tree: tree}, 100, 24)
		if !slices.ContainsFunc(d.asked, func(q Question) bool { return q.About == aboutPools && q.Tree == tree }) {
			t.Errorf("tree %q: asked %+v", tree, d.asked)
		}
	}
}

// TestEventsThatAreGone (W3) goes on with what happens when events between are kept no longer, and shows
// each event once.
func TestEventsThatAreGone(t *testing.T) {
	d := newDesk(t, Config{}, 100, 24)
	d.press("4")
	d.has("Events · 3")
	gone := d.now
	d.cluster = func(q Question) (Answer, error) {
		switch {
		case q.About != aboutEvents:
			return contended(q)
		case q.Index > 0 && q.Index < 500:
			return Answer{}, errors.New("events before 500 are gone (events_gone)")
		case q.Index == 0 && q.Since.Before(gone):
			t.Errorf("reads again from %v", q.Since)
		}
		a := Answer{Index: 501}
		if q.Index == 0 {
			a.Events = []Event{{Index: 500, Time: d.now, Kind: "leader_changed", Text: "replica r1 leads"}}
		}
		return a, nil
	}
	d.send(Tick(d.now.Add(2 * time.Second)))
	d.has("events_gone")
	d.after(8 * time.Second)
	d.has("Events · 4", "replica r1 leads")
	d.lacks("events_gone")
}

// TestAnyKeys (W3) presses any keys on screens of any size: each screen has its size, nothing panics, and
// without --write nothing is changed.
func TestAnyKeys(t *testing.T) {
	keys := []string{"1", "2", "3", "4", "tab", "shift+tab", "enter", "esc", "up", "down", "left", "right", "pgup", "pgdown", "home", "end", "/", "s", "S", "x", "e", "a", "o", "A", "I", "D", "y", "r", "?",
		"backspace", "space", "z", "ü", "ctrl+u", "f5"}
	rapid.Check(t, func(r *rapid.T) {
		write := rapid.Bool().Draw(r, "write")
		d := newDesk(r, Config{Write: write}, 100, 24)
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			switch rapid.IntRange(0, 9).Draw(r, "what") {
			case 0:
				d.send(Resize{rapid.IntRange(1, 250).Draw(r, "width"), rapid.IntRange(1, 60).Draw(r, "height")})
			case 1:
				d.after(time.Duration(rapid.IntRange(1, 6).Draw(r, "time")) * 500 * time.Millisecond)
			default:
				d.press(rapid.SampledFrom(keys).Draw(r, "key"))
			}
			d.screen()
		}
		if !write && d.made != nil {
			r.Fatalf("made %v", d.made)
		}
	})
}

// TestHostileTexts (W3) shows texts of users without letting them control the terminal.
func TestHostileTexts(t *testing.T) {
	d := newDesk(t, Config{}, 100, 24)
	d.cluster = func(q Question) (Answer, error) {
		a, err := contended(q)
		if q.About == aboutOperations {
			a.Operations[0].Title, a.Operations[0].User = "\x1b]0;owned\x07\x1b[2J<b>", "日本語日本語日本語"
		}
		return a, err
	}
	d.press("2")
	if view := d.model.View(); strings.Contains(view, "\x1b]0") || strings.Contains(view, "\x1b[2J") {
		t.Errorf("the screen has what a title says: %q", view)
	}
	d.has("<b>", "日本語")
	d.press("enter")
	d.screen()
	// A question names what it is about.
	d = newDesk(t, Config{Write: true}, 100, 24)
	d.cluster = func(q Question) (Answer, error) {
		a, err := contended(q)
		if q.About == aboutOperations {
			a.Operations[0].Title = "\x1b]0;owned\x07\x1b[2J<b>"
		}
		a.Loss.Users = []string{"\x1b[2Jann"}
		return a, err
	}
	d.press("2", "A")
	d.has("Abort operation", "<b>")
	if view := d.model.View(); strings.Contains(view, "\x1b]0") || strings.Contains(view, "\x1b[2J") {
		t.Errorf("the question has what a title says: %q", view)
	}
}

// BenchmarkUpdate (W3) is a key and its screen in a cluster of 10,000 nodes and 100,000 operations: the mean
// of moving, sorting and filtering.
func BenchmarkUpdate(b *testing.B) {
	m := New(Config{Interval: time.Hour}, noon)
	m.Update(Resize{200, 60})
	nodes := make([]Node, 10_000)
	for i := range nodes {
		nodes[i] = Node{ID: fmt.Sprintf("n%05d", i), State: "online", CPU: float64(i % 16), CPUTotal: 16, MemoryTotal: 1 << 35}
	}
	operations := make([]Operation, 100_000)
	for i := range operations {
		operations[i] = Operation{ID: id(i), Title: fmt.Sprintf("operation %d", i*7919%100_000), User: "ann", Pool: "research", State: "running", Progress: Progress{Total: 10, Running: 3, Pending: int64(i % 5)}, Start: noon}
	}
	for name, test := range map[string]struct {
		tab  string
		keys []string
	}{
		"move/operations":   {"2", []string{"down", "pgdown", "up", "end", "home"}},
		"sort/operations":   {"2", []string{"s"}},
		"filter/operations": {"2", []string{"/", "9", "9", "esc"}},
		"move/nodes":        {"3", []string{"down", "pgdown", "up", "end", "home"}},
		"sort/nodes":        {"3", []string{"s"}},
		"filter/nodes":      {"3", []string{"/", "9", "9", "esc"}},
	} {
		b.Run(name, func(b *testing.B) {
			m.Update(Key(test.tab))
			page := m.top().number()
			about := map[string]about{"2": aboutOperations, "3": aboutNodes}[test.tab]
			m.Update(Answer{Question: Question{About: about, page: page}, Time: noon, Operations: operations, Nodes: nodes})
			for b.Loop() {
				for _, key := range test.keys {
					m.Update(Key(key))
					_ = m.View()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(test.keys)), "µs/key")
		})
	}
}
