package state

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

func anyHasher() *Hasher { return NewHasher(func() error { return nil }) }

func hashed(t tester, h *Hasher, f *Frozen) Hash {
	t.Helper()
	hash, err := h.Hash(f)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// TestHashOfAnyState hashes a state now and then while random commands change it: what is remembered of
// the hash before leads to the hash from scratch, to that of a replica that is restored from a snapshot again and
// again, and to that of a state that was never copied before; and states have the same hash just if they have the
// same records.
func TestHashOfAnyState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, restless, log := New(), New(), []proto.Message(nil)
		incremental, seen := anyHasher(), map[Hash][]byte{}
		steps := rapid.IntRange(1, 150).Draw(t, "steps")
		for i := range steps {
			msg := drawCommand(t, s, i)
			log = append(log, proto.CloneOf(msg))
			restless.Apply(uint64(i+1), proto.CloneOf(msg))
			s.Apply(uint64(i+1), msg)
			if rapid.IntRange(0, 3).Draw(t, "copy") > 0 && i < steps-1 {
				continue
			}
			if rapid.IntRange(0, 5).Draw(t, "snapshot") == 0 {
				s.Freeze()
			}
			frozen := s.Freeze()
			hash, records := hashed(t, incremental, frozen), bytesOf(t, frozen)
			if scratch := hashed(t, anyHasher(), frozen); scratch != hash {
				t.Fatalf("after %T: hash %s, from scratch %s", msg, hash, scratch)
			}
			snapshot := restless.Freeze()
			if again := hashed(t, anyHasher(), snapshot); again != hash {
				t.Fatalf("after %T: hash %s, of a replica that was restored %s", msg, hash, again)
			}
			var err error
			if restless, err = restore(recordsOf(t, snapshot)); err != nil {
				t.Fatal(err)
			}
			if before, known := seen[hash]; known && !bytes.Equal(before, records) {
				t.Fatalf("after %T: two states have hash %s", msg, hash)
			}
			seen[hash] = records
		}
		fresh := New()
		for i, msg := range log {
			fresh.Apply(uint64(i+1), msg)
		}
		if want, got := hashed(t, incremental, s.Freeze()), hashed(t, anyHasher(), fresh.Freeze()); got != want {
			t.Fatalf("hash %s of a state that was never copied, want %s", got, want)
		}
	})
}

// TestHashEncodesWhatHasChanged counts the records that are encoded again.
func TestHashEncodesWhatHasChanged(t *testing.T) {
	j := newJournal(t)
	j.must(nodeOf("n1", 9), nodeOf("n2", 9))
	j.run("one", specOf(5))
	j.run("two", specOf(5))
	j.start("one", "a", "b")
	h := anyHasher()
	first := hashed(t, h, j.state.Freeze())
	// The header and the archive are new in each copy.
	const always = 2
	if want := always + 1 + 2 + 2 + 2; h.Encoded != want {
		t.Errorf("%d records encoded at first, want %d", h.Encoded, want)
	}
	if again := hashed(t, h, j.state.Freeze()); again != first || h.Encoded != always {
		t.Errorf("hash %s and %d records encoded without a change, want %s and %d", again, h.Encoded, first, always)
	}
	j.start("two", "c")
	if next := hashed(t, h, j.state.Freeze()); next == first || h.Encoded != always+2 {
		t.Errorf("%d records encoded after the start of a job, want %d: its operation and itself", h.Encoded, always+2)
	}
	if len(h.hashes) != 1+2+2+3 {
		t.Errorf("%d hashes remembered, want %d", len(h.hashes), 1+2+2+3)
	}
}

// TestHashTellsOrder changes the order of operations, which is part of the state.
func TestHashTellsOrder(t *testing.T) {
	j := newJournal(t)
	j.run("one", specOf(5))
	j.run("two", specOf(5))
	frozen := j.state.Freeze()
	want := hashed(t, anyHasher(), frozen)
	for i, p := range frozen.parts {
		if of, is := p.(list[*version]); is {
			reversed := slices.Collect(of.elements)
			slices.Reverse(reversed)
			of.elements = slices.Values(reversed)
			frozen.parts[i] = of
		}
	}
	if got := hashed(t, anyHasher(), frozen); got == want {
		t.Errorf("the same hash %s in another order", got)
	}
}

// TestChecksOfStates has points and verdicts, which change nothing but the time, and others, which are refused.
func TestChecksOfStates(t *testing.T) {
	j := newJournal(t)
	hash := make([]byte, len(Hash{}))
	j.must(&commandpb.RaiseVersion{Version: 2}, &commandpb.CheckState{}, &commandpb.CheckState{Index: 1, Hash: hash})
	for story, m := range map[string]*commandpb.CheckState{
		"a hash of nothing": {Hash: hash}, "an index without a hash": {Index: 1}, "a short hash": {Index: 1, Hash: hash[1:]}, "a hash of what comes later": {Index: 99, Hash: hash},
	} {
		if result, _ := j.apply(m); result.GetRefusal().GetCode() != CodeInvalidCommand {
			t.Errorf("%s: %v", story, result)
		}
	}
}

// TestEndsOfSeveralOperations ends jobs of two operations at once, whose user has hardly any room left: what is
// dropped of one makes room for the other, so all replicas have to drop it of the same one.
func TestEndsOfSeveralOperations(t *testing.T) {
	j := newJournal(t)
	j.must(nodeOf("n1", 1000))
	for _, id := range []string{"a", "b", "c"} {
		spec := specOf(100)
		spec.MaxFailedJobCount = 1000
		j.run(id, spec)
		var jobs []string
		failed := &commandpb.FinishJobs{OperationId: id, Epoch: 1}
		for i := range 30 {
			jobs = append(jobs, fmt.Sprint(id, i))
			failed.Jobs = append(failed.Jobs, &statepb.FinishedJob{JobId: jobs[i], State: "failed", Error: &statepb.Error{Code: 1, Message: strings.Repeat("x", 1000)}})
		}
		j.start(id, jobs...)
		j.must(failed)
		j.start(id, id)
	}
	limits := WithBytes(nil)
	limits.OperationBytesPerUser = j.state.quotas.users["ann"].all + 100
	j.must(&commandpb.BeginTerm{Term: 1, Replica: "r1", ClusterId: "c1", Limits: limits})
	j.start("c", "one more")
	j.must(&commandpb.AbortAllocations{Term: 1, Reason: "node_offline", JobIds: []string{"b", "a"}})
	if kept := len(j.operation("a").GetFinishedJobs()); kept > 10 {
		t.Fatalf("%d finished jobs of the first operation are kept, want few", kept)
	}
	if kept := len(j.operation("b").GetFinishedJobs()); kept != 31 {
		t.Fatalf("%d finished jobs of the second operation are kept, want all 31", kept)
	}
	want := bytesOf(t, j.state.Freeze())
	for range 20 {
		if got := replay(t, New(), j.entries, 0); !bytes.Equal(got, want) {
			t.Fatal("the same log led to another state")
		}
	}
}

// BenchmarkHash shows what the comparison of states costs a replica with 100,000 allocations: under the lock, and
// in the background at first, without a change, and after 1,000 jobs have ended and begun.
func BenchmarkHash(b *testing.B) {
	c := newCrowd(b, 100000)
	b.Run("copy", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.state.Freeze()
		}
	})
	frozen := c.state.Freeze()
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			hashed(b, anyHasher(), frozen)
		}
	})
	b.Run("unchanged", func(b *testing.B) {
		b.ReportAllocs()
		h := anyHasher()
		hashed(b, h, frozen)
		for b.Loop() {
			hashed(b, h, frozen)
		}
	})
	b.Run("changed", func(b *testing.B) {
		b.ReportAllocs()
		h := anyHasher()
		hashed(b, h, c.state.Freeze())
		for b.Loop() {
			b.StopTimer()
			first := c.jobs
			c.start(b, 20*crowdOperations)
			for operation := range crowdOperations {
				c.finish(b, (first+operation)%crowdOperations, first+operation, 20)
			}
			next := c.state.Freeze()
			b.StartTimer()
			hashed(b, h, next)
		}
		b.ReportMetric(float64(h.Encoded), "records")
	})
}
