package discovery

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/messages/actorpb"
	"weir/messages/discoveryjson"
)

// many returns live jobs in the order in which replicas list them, a among them.
func many(count int) []*actorpb.Instance {
	all := []*actorpb.Instance{job("a", "live")}
	for i := range count - 1 {
		all = append(all, job(fmt.Sprintf("b%04d", i), "live"))
	}
	return all
}

// next reads a line, and returns how long it is.
func (c client) next(t *testing.T) (answer discoveryjson.Answer, size int) {
	t.Helper()
	line, err := c.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &answer)
	}
	if err != nil {
		t.Fatalf("heard %.100q: %v", line, err)
	}
	return answer, len(line)
}

// TestWatchOfChanges is told all jobs once, and then no more than what has changed, however
// many there are.
func TestWatchOfChanges(t *testing.T) {
	o := openOffice(t)
	all := many(1000)
	o.say("op", "v1", false, all...)
	c, plain := o.connect(t), o.connect(t)
	c.say(t, `{"ask":"watch","changes":true}`)
	plain.say(t, `{"ask":"watch"}`)
	plain.hear(t)
	plain.hear(t)
	if first, _ := c.next(t); first.Notice == nil {
		t.Errorf("first %+v, want the notice", first)
	}
	told, whole := c.next(t)
	if told.Peers == nil || len(told.Peers.Instances) != 1000 || told.Peers.Revision != 1 || whole < 50_000 {
		t.Fatalf("%d bytes, peers %.200v", whole, told.Peers)
	}
	known := told.Peers
	for _, step := range []struct {
		story string
		job   *actorpb.Instance
		want  string
	}{
		{"one is draining", job("b0500", "draining"), "draining"},
		{"another one is in its place", job("b0500x", "live"), "live"},
	} {
		all = slices.Clone(all)
		all[501] = step.job
		o.say("op", step.story, false, all...)
		answer, size := c.next(t)
		if answer.Changes == nil || size > 1000 {
			t.Fatalf("%s: %d bytes, %.200v", step.story, size, answer)
		}
		var ok bool
		if known, ok = answer.Changes.After(known); !ok || len(known.Instances) != 1000 || known.Instances[501].Job != step.job.GetJobId() || known.Instances[501].State != step.want {
			t.Errorf("%s: told %+v", step.story, answer.Changes)
		}
		// Who has not asked for changes is told all each time.
		if answer, size := plain.next(t); answer.Peers == nil || answer.Peers.Revision != 0 || size < 50_000 {
			t.Errorf("%s: who knows no changes is told %.200v", step.story, answer)
		}
	}
	c.say(t, `{"ask":"watch","changes":true}`)
	c.hear(t)
	if again := c.hear(t).Peers; again == nil || again.Revision != 1 || len(again.Instances) != 1000 {
		t.Errorf("asked again it is told %.200v, want all", again)
	}
	o.say("op", "the end", true, all...)
	if end := c.hear(t).Changes; end == nil || !end.Over || len(end.Instances) != 0 {
		t.Errorf("at the end it is told %+v", end)
	}
}

// TestChangesTellAll lets jobs come, change and go: whoever hears all changes knows the same
// as who is told all, and who has missed one finds out.
func TestChangesTellAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		directory := NewDirectory(nil)
		directory.feeds["op"] = &feed{changed: make(chan struct{})}
		watch := watch{desk: NewDesk(Asker{Job: "a", Operation: "op"}, directory), changes: true}
		states := make([]string, 5)
		var known *discoveryjson.Peers
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) {
				states[rapid.IntRange(0, len(states)-1).Draw(t, "which")] = rapid.SampledFrom([]string{"", "live", "draining", "gone"}).Draw(t, "state")
			},
			"tell": func(t *rapid.T) {
				view := View{Instances: &actorpb.Instances{OperationId: "op"}}
				for i, state := range states {
					if state != "" {
						view.Instances.Instances = append(view.Instances.Instances, job(fmt.Sprint(i), state))
					}
				}
				answer := watch.tell(view)
				if rapid.IntRange(0, 3).Draw(t, "lost") == 0 {
					return
				}
				if answer.Peers != nil {
					known = answer.Peers
				} else if after, ok := answer.Changes.After(known); ok {
					known = after
				} else {
					// It asks anew.
					watch.begin(true)
					known = nil
					return
				}
				want := peers(view, "a")
				want.Revision = watch.revision
				if got, want := fmt.Sprintf("%+v", *known), fmt.Sprintf("%+v", *want); got != want {
					t.Fatalf("knows %s, want %s", got, want)
				}
			},
		})
	})
}
