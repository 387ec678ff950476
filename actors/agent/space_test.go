package agent

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/agent/disktest"
	"weir/actors/agent/journal"
	"weir/messages/actorpb"
)

func TestSpaceSaysHowMuchItLacks(t *testing.T) {
	s := NewSpace("/d", 100)
	for _, test := range []struct{ free, want int64 }{{100, 0}, {99, 1}, {120, 0}, {0, 100}} {
		if got := s.Short(Free{Bytes: test.free}); got != test.want {
			t.Errorf("with %d it lacks %d, want %d", test.free, got, test.want)
		}
	}
	s.Saw(Free{Bytes: 10, Inodes: -1}, nil, nil, nil)
	if got := s.Short(Free{Bytes: 120}); got != 30 {
		t.Errorf("once it was full it lacks %d, want 30", got)
	}
	if got := NewSpace("/d", 0).Short(Free{}); got != 0 {
		t.Errorf("a disk that may fill lacks %d", got)
	}
}

func TestSpace(t *testing.T) {
	const mib = 1 << 20
	type sight struct {
		free             Free
		trouble, journal error
		hang             error
		want             string
	}
	tests := map[string]struct {
		least  int64
		sights []sight
	}{
		"a disk that fills and empties": {least: 64 * mib, sights: []sight{
			{free: Free{64 * mib, -1}},
			{free: Free{64*mib - 1, -1}, want: "63 MiB are free, but new jobs need 64 MiB"},
			{free: Free{70 * mib, -1}, want: "63 MiB are free, but new jobs need 64 MiB"},
			{free: Free{96*mib - 1, -1}, want: "63 MiB are free"},
			{free: Free{96 * mib, -1}},
			{free: Free{70 * mib, -1}},
		}},
		"a disk that takes no more files": {least: mib, sights: []sight{
			{free: Free{mib, leastInodes}},
			{free: Free{mib, 3}, want: "room for 3 more files"},
			{free: Free{2 * mib, leastInodes}, want: "room for 3 more files"},
			{free: Free{2 * mib, 2 * leastInodes}},
		}},
		"a disk that cannot be measured": {least: mib, sights: []sight{
			{trouble: errors.New("stale handle"), want: "stale handle"},
			{free: Free{2 * mib, -1}},
		}},
		"a journal that waits": {least: 0, sights: []sight{
			{journal: journal.ErrFull, want: "disk full"},
			{},
		}},
		"a journal that waited, on a disk that is still too full": {least: 64 * mib, sights: []sight{
			{free: Free{0, -1}, journal: journal.ErrFull, want: journal.ErrFull.Error()},
			{free: Free{mib, -1}, journal: journal.ErrFull, want: journal.ErrFull.Error()},
			{free: Free{70 * mib, -1}, want: "70 MiB are free, but new jobs need 96 MiB (--min-free)"},
			{free: Free{0, -1}, journal: journal.ErrFull, want: "70 MiB are free"},
			{free: Free{96 * mib, -1}, journal: journal.ErrFull, want: journal.ErrFull.Error()},
			{free: Free{96 * mib, -1}},
		}},
		"a disk that has neither": {least: 64 * mib, sights: []sight{
			{free: Free{mib, 1}, want: "1 MiB are free"},
			{free: Free{mib, 1}, trouble: errors.New("stale handle"), want: "stale handle"},
			{free: Free{96 * mib, 1}, want: "room for 1 more files"},
			{free: Free{mib, 1}, want: "room for 1 more files"},
		}},
		"a disk that does not answer, on a disk that is full then": {least: 64 * mib, sights: []sight{
			{free: Free{70 * mib, -1}, hang: errors.New("no answer"), want: "no answer"},
			{free: Free{mib, -1}, hang: errors.New("none"), want: "no answer"},
			{free: Free{70 * mib, -1}},
			{free: Free{mib, -1}, want: "1 MiB are free"},
			{free: Free{mib, -1}, hang: errors.New("no answer"), want: "1 MiB are free"},
			{free: Free{96 * mib, -1}, hang: errors.New("no answer"), want: "no answer"},
		}},
		"anything is enough": {least: 0, sights: []sight{{free: Free{0, 0}}, {trouble: errors.New("stale handle")}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := NewSpace("/state", test.least)
			for i, sight := range test.sights {
				before := s.Closed()
				changed := s.Saw(sight.free, sight.trouble, sight.journal, sight.hang)
				if got := s.Closed(); !strings.Contains(got, sight.want) || (got == "") != (sight.want == "") {
					t.Errorf("sight %d: closed %q, want %q", i, got, sight.want)
				}
				if wantChanged := before != s.Closed(); changed != wantChanged {
					t.Errorf("sight %d: changed %v, want %v", i, changed, wantChanged)
				}
			}
		})
	}
	if _, err := measureFree("/nowhere"); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("measured a folder that is not there: %v", err)
	}
	if free, err := measureFree(t.TempDir()); err != nil || free.Bytes <= 0 {
		t.Errorf("measured %+v, %v", free, err)
	}
}

// registrations keeps what the agent last said of its node.
func (w *world) registrations() func() (closed, caveat string) {
	var closed, caveat string
	w.plane.set(func() {
		w.plane.answer = func(_ string, msg proto.Message) (proto.Message, error) {
			if m, ok := msg.(*actorpb.RegisterAgent); ok {
				closed, caveat = m.GetClosed(), m.GetCaveat()
			}
			return nil, nil
		}
	})
	return func() (string, string) {
		w.plane.mu.Lock()
		defer w.plane.mu.Unlock()
		return closed, caveat
	}
}

// TestAgentOnAFullDisk fills the disk of an agent's state: its jobs go on, their ends
// are kept and told, and others are sent elsewhere until there is space.
func TestAgentOnAFullDisk(t *testing.T) {
	disk := disktest.Small(t, 16<<20)
	inWorldOn(t, disk, func(w *world) {
		w.kill()
		w.cfg.MinFree, w.cfg.Caveat = 4<<20, "no cgroups"
		said := w.registrations()
		w.start()
		w.advance(100 * time.Millisecond)
		w.send(plan(3, 7, granted("ends", 9), granted("aborted", 9), granted("stays", 9)))
		if closed, caveat := said(); closed != "" || caveat != "no cgroups" {
			t.Errorf("said %q, %q before the disk was full", closed, caveat)
		}

		ballast := disktest.Fill(t, disk, 0)
		w.advance(1100 * time.Millisecond)
		if closed, caveat := said(); !strings.Contains(closed, "is full: 0 MiB are free") || caveat != "not accepting new jobs: "+closed+"; no cgroups" {
			t.Errorf("said %q, %q; want that the disk is full", closed, caveat)
		}
		w.send(plan(3, 8, granted("declined", 9), abort("aborted", "user_request", 0)))
		w.exit("ends", 7)
		w.advance(3 * time.Second)
		w.want("aborted:aborted:user_request ends:failed declined:aborted:job_proxy_failed")
		if w.starts("declined") != 0 || len(w.stops("stays")) != 0 {
			t.Errorf("declined started %d times, stays was stopped %v", w.starts("declined"), w.stops("stays"))
		}
		if e := w.result("declined").GetJob().GetError().GetMessage(); !strings.Contains(e, "is full") {
			t.Errorf("the declined job ended with %q, want the reason", e)
		}

		// The agent may be started again.
		w.kill()
		w.start()
		w.advance(100 * time.Millisecond)
		if closed, _ := said(); closed == "" {
			t.Error("an agent that is started on a full disk takes jobs")
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		w.advance(1100 * time.Millisecond)
		if closed, caveat := said(); closed != "" || caveat != "no cgroups" {
			t.Errorf("said %q, %q when there was space again", closed, caveat)
		}
		w.send(plan(3, 9, granted("new", 9)))
		w.exit("new", 0)
		w.exit("stays", 0)
		w.want("aborted:aborted:user_request ends:failed declined:aborted:job_proxy_failed new:completed stays:completed")
		if w.agent.Stats().DiskFull || w.logs.count("not accepting new jobs") != 2 || w.logs.count("accepting new jobs again") != 1 {
			t.Errorf("stats %+v, logs %v", w.agent.Stats(), w.logs.text)
		}
		w.kill()
		if s := w.journal(); len(s.Jobs) != 0 || len(s.Had) != 5 {
			t.Errorf("journal: jobs %v, had %v; want the ends of all", s.Jobs, s.Had)
		}
	})
}

// TestAgentSaysWhatChangesMeanwhile has the disk become full, and free again, while the
// registration that said otherwise has no answer yet.
func TestAgentSaysWhatChangesMeanwhile(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kill()
		w.cfg.MinFree = 1
		w.plane.set(func() { w.plane.slow = 100 * time.Millisecond })
		said := w.registrations()
		w.start()
		for _, free := range []Free{{Bytes: 0, Inodes: -1}, {Bytes: 2, Inodes: -1}} {
			w.advance(50 * time.Millisecond)
			w.system.Root.Send(w.agent.PID(), measured{free: free})
			w.advance(60 * time.Millisecond)
			if closed, _ := said(); (closed == "") != (free.Bytes > 0) {
				t.Errorf("said %q when %d bytes were free", closed, free.Bytes)
			}
		}
		w.advance(500 * time.Millisecond)
		if n := w.asks("RegisterAgent"); n != 4 {
			t.Errorf("registered %d times, want once before, and once with what each sight changed", n)
		}
	})
}
