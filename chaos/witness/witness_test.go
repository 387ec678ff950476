package witness

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/chaos/history"
)

// job is what Weir tells an attempt.
func job(name, cookie string) func(string) string {
	variables := map[string]string{
		"WEIR_OPERATION_ID": "o", "WEIR_TASK_NAME": "a/b", "WEIR_JOB_COOKIE": cookie, "WEIR_JOB_ID": name,
	}
	return func(variable string) string { return variables[variable] }
}

func prepared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := Prepare(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func whats(t *testing.T, dir, job string) []string {
	t.Helper()
	run, err := history.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, s := range run.Sights {
		if s.Job == job {
			list = append(list, s.What)
		}
	}
	return list
}

func TestWitnessWritesItsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := prepared(t)
		if err := Run(t.Context(), dir, 2*tickPeriod+tickPeriod/2, job("j", "3")); err != nil {
			t.Fatal(err)
		}
		if got, want := whats(t, dir, "j"), []string{history.Begin, history.Tick, history.Tick, history.End}; !slices.Equal(got, want) {
			t.Errorf("it wrote %v, want %v", got, want)
		}
	})
}

func TestSecondAttemptFindsTheLock(t *testing.T) {
	dir := prepared(t)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- Run(ctx, dir, time.Hour, job("j1", "0")) }()
	for deadline := time.Now().Add(time.Minute); !slices.Contains(whats(t, dir, "j1"), history.Begin); {
		if time.Now().After(deadline) {
			t.Fatal("the first attempt does not begin")
		}
	}
	if err := Run(t.Context(), dir, 0, job("j2", "0")); err != nil {
		t.Fatal(err)
	}
	if got := whats(t, dir, "j2"); got[0] != history.Locked || got[1] != history.Begin {
		t.Errorf("the second attempt wrote %v", got)
	}
	if err := Run(t.Context(), dir, 0, job("j3", "1")); err != nil {
		t.Fatal(err)
	}
	if got := whats(t, dir, "j3"); got[0] != history.Begin {
		t.Errorf("another cookie wrote %v", got)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first attempt: %v", err)
	}
	if got := whats(t, dir, "j1"); slices.Contains(got, history.End) {
		t.Errorf("an attempt that was ended wrote %v", got)
	}
	if err := Run(t.Context(), dir, 0, job("j4", "0")); err != nil {
		t.Fatal(err)
	}
	if got := whats(t, dir, "j4"); got[0] != history.Begin {
		t.Errorf("an attempt after all others wrote %v", got)
	}
}

func TestOnlyJobsAreWitnesses(t *testing.T) {
	for name, getenv := range map[string]func(string) string{
		"WEIR_JOB_COOKIE": func(string) string { return "" },
		"WEIR_JOB_ID":     job("", "1"),
	} {
		if err := Run(t.Context(), t.TempDir(), 0, getenv); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
