package runner_test

import (
	"errors"
	"testing"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
)

// TestAdoptedUsers (T2): a job keeps its user when another agent takes it over, and no other job gets
// that user before the job is released.
func TestAdoptedUsers(t *testing.T) {
	needsRoot(t)
	f := newFixture(t, backends["as a process tree"], as(runner.Users{Own: runner.UIDs{First: 200_000, Last: 200_001}}))
	const say = `id -u; test -S "$WEIR_DISCOVERY" && echo found; trap 'id -u; exit 0' TERM; echo ready; while :; do sleep 0.01; done`
	uid := func(job *runner.Job) string { return f.awaitOutput(t, job, 3)[0] }
	first := f.start(t, runner.JobSpec{ID: "first", Shell: say})
	if got := uid(first); got != "200000" {
		t.Errorf("the first job is %s", got)
	}
	if err := f.Leave(); err != nil {
		t.Fatal(err)
	}
	f.open(t)
	if got := uid(f.start(t, runner.JobSpec{ID: "second", Shell: say})); got != "200001" {
		t.Errorf("the second job is %s", got)
	}
	if _, err := f.Start(f.ctx, runner.JobSpec{ID: "third", Shell: say, Lease: patience}); !errors.Is(err, runner.ErrNoUID) {
		t.Errorf("a third job: %v", err)
	}
	first = f.Job("first")
	if err := first.Stop("x", patience); err != nil {
		t.Fatal(err)
	}
	finished(t, first)
	if lines := f.awaitOutput(t, first, 4); lines[3] != "200000" {
		t.Errorf("the first job says %v", lines)
	}
	if _, err := f.Start(f.ctx, runner.JobSpec{ID: "third", Shell: say, Lease: patience}); !errors.Is(err, runner.ErrNoUID) {
		t.Errorf("a third job, before the first is released: %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if got := uid(f.start(t, runner.JobSpec{ID: "third", Shell: say})); got != "200000" {
		t.Errorf("the third job is %s", got)
	}
}

// TestUserOfADeadProxy (T2): the proxy of an adopted job is killed, and with it the claim that it held. No
// job of another agent of the machine gets the user before the job is released.
func TestUserOfADeadProxy(t *testing.T) {
	needsRoot(t)
	users := as(runner.Users{Own: runner.UIDs{First: 200_000, Last: 200_001}})
	f := newFixture(t, backends["as a process tree"], users)
	const say = `id -u; echo ready; while :; do sleep 0.01; done`
	uid := func(f *fixture, job *runner.Job) string { return f.awaitOutput(t, job, 2)[0] }
	if got := uid(f, f.start(t, runner.JobSpec{ID: "job", Shell: say})); got != "200000" {
		t.Errorf("the first job is %s", got)
	}
	if err := f.Leave(); err != nil {
		t.Fatal(err)
	}
	f.open(t)
	first := f.Job("job")
	killProxy(t, f, 0)
	if result := finished(t, first); result.Outcome != proxyproto.OutcomeProxyFailed {
		t.Errorf("the first job ended with %+v", result)
	}
	other := newFixture(t, backends["as a process tree"], users, func(c *runner.Config) { c.Claims = f.config.Claims })
	if got := uid(other, other.start(t, runner.JobSpec{ID: "second", Shell: say})); got != "200001" {
		t.Errorf("the second job is %s", got)
	}
	if _, err := other.Start(other.ctx, runner.JobSpec{ID: "third", Shell: say, Lease: patience}); !errors.Is(err, runner.ErrNoUID) {
		t.Errorf("a third job, before the first is released: %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if got := uid(other, other.start(t, runner.JobSpec{ID: "third", Shell: say})); got != "200000" {
		t.Errorf("the third job is %s", got)
	}
}
