package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestLastWordsAreNotLate: what a command wrote is read although the agent stood still when the command ended.
func TestLastWordsAreNotLate(t *testing.T) {
	for name, terminal := range map[string]bool{"pipe": false, "terminal": true} {
		t.Run(name, func(t *testing.T) {
			s := newSession(SessionKey{}, nil)
			theirs, err := s.streams(Command{Terminal: terminal})
			if err != nil {
				t.Fatal(err)
			}
			mine, of := s.terminal, theirs[0]
			if !terminal {
				mine, of = s.stdout, theirs[1]
				defer s.stdin.Close()
				defer s.stderr.Close()
			}
			for _, file := range theirs {
				defer file.Close()
			}
			if _, err := of.WriteString("the last words"); err != nil {
				t.Fatal(err)
			}
			if err := mine.SetReadDeadline(time.Now().Add(-time.Hour)); err != nil {
				t.Fatal(err)
			}
			s.end, s.reading = &SessionEnd{ExitCode: 3}, 1
			s.read(mine, false)
			part, err := s.take(t.Context(), 0, 100)
			if err != nil || len(part.Pieces) != 1 || string(part.Pieces[0].Data) != "the last words" || part.End == nil {
				t.Errorf("read %+v, %v", part, err)
			}
		})
	}
}

// TestSessionsOfWhatIsGone: a job that has ended gets no session, and one whose proxy is not there leaves no file open.
func TestSessionsOfWhatIsGone(t *testing.T) {
	var all sessions
	if s, err := all.enter(SessionKey{Job: "job"}, &Job{result: &Result{}}); s != nil || !errors.Is(err, ErrNotRunning) {
		t.Errorf("of a job that has ended: %v, %v", s, err)
	}
	s := newSession(SessionKey{Job: "job"}, &Job{})
	if err := s.open(Command{Argv: []string{"true"}}); !errors.Is(err, ErrUnreachable) {
		t.Fatal(err)
	}
	s.hangUp()
	ended := newSession(SessionKey{Job: "job"}, &Job{})
	ended.hangUp()
	if err := ended.open(Command{Argv: []string{"true"}}); !errors.Is(err, ErrNoSession) || ended.stdin != nil {
		t.Errorf("of a session that was ended before its command began: %v", err)
	}
	for name, file := range map[string]*os.File{"stdin": s.stdin, "stdout": s.stdout, "stderr": s.stderr} {
		if err := file.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s was left open: %v", name, err)
		}
	}
}

// TestRoomForOtherUsers: one user has half of the sessions of a node at most.
func TestRoomForOtherUsers(t *testing.T) {
	var all sessions
	enter := func(user string, i int) error {
		s, err := all.enter(SessionKey{Job: fmt.Sprint(i), Session: "s", User: user}, &Job{})
		if s != nil {
			t.Cleanup(func() { all.leave(s) })
		}
		return err
	}
	for i := range mostOfUser {
		if err := enter("user ann", i); err != nil {
			t.Fatal(err)
		}
	}
	if err := enter("user ann", mostOfUser); !errors.Is(err, ErrTooManySessions) || !strings.Contains(err.Error(), "16 of user ann on this node") {
		t.Errorf("one more of ann: %v", err)
	}
	if err := enter("user bob", 0); err != nil {
		t.Errorf("one of bob: %v", err)
	}
}

// TestRoomForReaders: few requests wait for the output of a session.
func TestRoomForReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(SessionKey{}, &Job{})
		waiting, stop := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		for range mostReaders {
			readers.Go(func() { _, _ = s.take(waiting, 0, 1) }) // there is no output
		}
		synctest.Wait()
		if _, err := s.take(waiting, 0, 1); !errors.Is(err, ErrTooManySessions) {
			t.Errorf("one more reader: %v", err)
		}
		stop()
		readers.Wait()
		if _, err := s.take(waiting, 0, 1); err != nil {
			t.Errorf("a reader after the others: %v", err)
		}
	})
}
