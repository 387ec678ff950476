package hearsay

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// newWords keeps each word that is said once, in order, for good.
func newWords() *Known[*wrapperspb.StringValue] {
	return NewKnown(Subject[*wrapperspb.StringValue]{
		Topic: "words", Limit: 10,
		Key:   (*wrapperspb.StringValue).GetValue,
		Group: func(*wrapperspb.StringValue) string { return "all" },
		Sign: func(said *wrapperspb.StringValue, by Speaker, _ uint64) {
			said.Value += " by " + by.Replica
		},
		Replaces: func(_, _ *wrapperspb.StringValue) bool { return false },
		News:     func(_, _ *wrapperspb.StringValue) bool { return true },
		Forget:   func(now time.Time, _ *wrapperspb.StringValue) time.Time { return now.Add(24 * time.Hour) },
		All: func(all []*wrapperspb.StringValue) proto.Message {
			list := &structpb.ListValue{}
			for _, word := range all {
				list.Values = append(list.Values, structpb.NewStringValue(word.GetValue()))
			}
			return list
		},
		Each: func(all []byte) (each []*wrapperspb.StringValue, err error) {
			var list structpb.ListValue
			err = proto.Unmarshal(all, &list)
			for _, value := range list.GetValues() {
				each = append(each, wrapperspb.String(value.GetStringValue()))
			}
			return each, err
		},
	}, time.Now)
}

// counted returns a place with a word, and how often it was asked whether that stays.
func counted() (known *Known[*wrapperspb.StringValue], asked *int) {
	known, asked = newWords(), new(int)
	known.subject.Stays = func(said *wrapperspb.StringValue) bool {
		if said.GetValue() == "here" {
			*asked++
		}
		return true
	}
	known.Add(wrapperspb.String("here"))
	return known, asked
}

// unheeded is for news that nobody looks at.
func unheeded(*wrapperspb.StringValue) {}

// wire keeps what is told, or fails.
type wire struct {
	keys []string
	err  error
}

// Broadcast implements Gossip.
func (w *wire) Broadcast(key string, _ []byte) error {
	w.keys = append(w.keys, key)
	return w.err
}

// TestSpeaker says, hears and learns words, and tells of those that are new alone.
func TestSpeaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
		defer system.Shutdown()
		var log bytes.Buffer
		var news []string
		link, others := &wire{}, newWords()
		known, expired := counted()
		pid := system.Root.Spawn(actor.PropsFromProducer(New(Config[*wrapperspb.StringValue]{
			Self: Speaker{Replica: "r1"}, Gossip: link, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			News: func(said *wrapperspb.StringValue) { news = append(news, said.GetValue()) }, ExpireEvery: time.Minute,
		}, known)))
		said := wrapperspb.String("rain")
		system.Root.Send(pid, Say[*wrapperspb.StringValue]{said})
		system.Root.Send(pid, Say[*wrapperspb.StringValue]{said})
		others.Add(wrapperspb.String("rain by r1"))
		others.Add(wrapperspb.String("snow by r2"))
		system.Root.Send(pid, Heard{Payload: others.LocalState(), Full: true})
		hail, err := proto.Marshal(wrapperspb.String("hail by r3"))
		if err != nil {
			t.Fatal(err)
		}
		system.Root.Send(pid, Heard{Payload: hail})
		system.Root.Send(pid, Learn[*wrapperspb.StringValue]{All: []*wrapperspb.StringValue{wrapperspb.String("rain by r1"), wrapperspb.String("dew")}})
		synctest.Wait()
		if got, want := strings.Join(news, ", "), "rain by r1, snow by r2, hail by r3, dew"; got != want {
			t.Errorf("news %q, want %q", got, want)
		}
		if all := known.All(); len(all) != 5 || len(known.Of("all")) != 5 || known.Get("dew") == nil || known.Get("fog") != nil {
			t.Errorf("known %q, want what is news", all)
		}
		if len(link.keys) != 1 || link.keys[0] != "rain by r1" || said.GetValue() != "rain" {
			t.Errorf("told the others %q, and %q was changed; want what was said here, once, and it unchanged", link.keys, said.GetValue())
		}
		if log.Len() != 0 {
			t.Errorf("logged %s", log.String())
		}
		link.err = errors.New("too large")
		system.Root.Send(pid, Say[*wrapperspb.StringValue]{wrapperspb.String("fog")})
		system.Root.Send(pid, Heard{Payload: []byte{0xff}})
		system.Root.Send(pid, Heard{Payload: []byte{0xff}, Full: true})
		<-time.After(150 * time.Second)
		synctest.Wait()
		if got := strings.Count(log.String(), "topic=words"); got != 3 || !strings.Contains(log.String(), "too large") {
			t.Errorf("logged %s, want what was not sent, and twice what was not understood", log.String())
		}
		if *expired != 2 {
			t.Errorf("after two and a half periods looked %d times at what is over, want 2", *expired)
		}
		if err := system.Root.StopFuture(pid).Wait(); err != nil {
			t.Error(err)
		}
		<-time.After(time.Hour)
		if *expired != 2 {
			t.Error("it forgets on after its end")
		}
	})
}

// TestLargeGroupsGiveWay: a group that has most of the messages loses its oldest, and the others lose none, however old
// theirs are.
func TestLargeGroupsGiveWay(t *testing.T) {
	known := newWords()
	known.subject.Limit = 200
	known.subject.Group = func(said *wrapperspb.StringValue) string { return string([]rune(said.GetValue())[0]) }
	say := func(group string, from, to int) {
		for i := from; i < to; i++ {
			if !known.Add(wrapperspb.String(fmt.Sprint(group, i))) {
				t.Errorf("%s%d is no news", group, i)
			}
			if n := len(known.All()); n > 200 {
				t.Fatalf("%d messages are kept", n)
			}
		}
	}
	say("a", 0, 50)
	say("b", 0, 60)
	say("c", 0, 1000)
	for group, want := range map[string]int{"a": 50, "b": 60, "c": 80} {
		if got := len(known.Of(group)); got < want || group == "c" && got > 90 {
			t.Errorf("group %s has %d messages, want %d", group, got, want)
		}
	}
	if known.Get("c999") == nil || known.Get("c0") != nil {
		t.Error("the latest of the large group are forgotten, or the oldest are there")
	}
	// More groups than there is room for: the oldest go.
	for i := range 1000 {
		known.Add(wrapperspb.String(string(rune(0x4000 + i))))
	}
	if n := len(known.All()); n > 200 || n < 190 || known.Get(string(rune(0x4000+999))) == nil {
		t.Errorf("%d messages are kept", n)
	}
}

// TestTicksOfAFormerLifeAreNotHeard: what is over is forgotten once a period, also after the
// actor has failed.
func TestTicksOfAFormerLifeAreNotHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.DiscardHandler)
		system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
		defer system.Shutdown()
		known, expired := counted()
		pid := system.Root.Spawn(actor.PropsFromProducer(New(Config[*wrapperspb.StringValue]{
			Gossip: &wire{}, Logger: quiet, News: unheeded, ExpireEvery: time.Minute,
		}, known)))
		process, _ := system.ProcessRegistry.Get(pid)
		process.SendSystemMessage(pid, &actor.Restart{})
		<-time.After(150 * time.Second)
		synctest.Wait()
		if *expired != 2 {
			t.Errorf("after two and a half periods looked %d times at what is over, want 2", *expired)
		}
		if err := system.Root.StopFuture(pid).Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestWhatIsSaidLaterCountsMore: also after the actor has failed.
func TestWhatIsSaidLaterCountsMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.DiscardHandler)
		system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
		defer system.Shutdown()
		known := newWords()
		known.subject.Sign = func(said *wrapperspb.StringValue, _ Speaker, sequence uint64) {
			said.Value = fmt.Sprint(sequence, " ", said.GetValue())
		}
		link := &wire{}
		pid := system.Root.Spawn(actor.PropsFromProducer(New(Config[*wrapperspb.StringValue]{Gossip: link, Logger: quiet, News: unheeded, ExpireEvery: time.Hour}, known)))
		say := func(word string) { system.Root.Send(pid, Say[*wrapperspb.StringValue]{wrapperspb.String(word)}) }
		say("rain")
		say("snow")
		synctest.Wait()
		process, _ := system.ProcessRegistry.Get(pid)
		process.SendSystemMessage(pid, &actor.Restart{})
		say("hail")
		synctest.Wait()
		if want := []string{"1 rain", "2 snow", "3 hail"}; !slices.Equal(link.keys, want) {
			t.Errorf("said %q, want %q", link.keys, want)
		}
		if err := system.Root.StopFuture(pid).Wait(); err != nil {
			t.Error(err)
		}
	})
}
