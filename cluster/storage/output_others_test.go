package storage_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/cluster/storage"
)

func TestManyPublishAtOnce(t *testing.T) {
	for name, path := range map[string]string{"file": "/out", "folder": "/out/"} {
		t.Run(name, func(t *testing.T) {
			eachField(t, func(t *testing.T, f field) {
				out := storage.Output{Path: f.base + path, Operation: "op-1"}
				parts := f.wrote(t, out, "a\n", "b\n", "c\n")
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() {
						if err := f.Publish(t.Context(), out, parts); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				must(t, f.Discard(t.Context(), out, true))
			})
		})
	}
}

// TestTwoOperationsPublishAtOnce to one place: the first has it, whole, and the other takes
// nothing of it away.
func TestTwoOperationsPublishAtOnce(t *testing.T) {
	for name, path := range map[string]string{"file": "/out", "folder": "/out/"} {
		t.Run(name, func(t *testing.T) {
			eachField(t, func(t *testing.T, f field) {
				var all sync.WaitGroup
				var published [2]bool
				operations := []string{"op-1", "op-2"}
				parts := map[string][]storage.Part{}
				for _, operation := range operations {
					out := storage.Output{Path: f.base + path, Operation: operation}
					parts[operation] = f.wrote(t, out, operation+" a\n", operation+" b\n", operation+" c\n")
				}
				for i, operation := range operations {
					all.Go(func() {
						out := storage.Output{Path: f.base + path, Operation: operation}
						err := f.Publish(t.Context(), out, parts[operation])
						published[i] = err == nil
						if err != nil && !errors.Is(err, storage.ErrExists) {
							t.Error(err)
						}
						if err := f.Discard(t.Context(), out, err == nil); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				if published[0] == published[1] {
					t.Fatalf("published: %v", published)
				}
				var got strings.Builder
				for _, name := range f.names() {
					got.WriteString(f.read(name))
				}
				winner := map[bool]string{true: "op-1", false: "op-2"}[published[0]]
				if want := strings.ReplaceAll("x a\nx b\nx c\n", "x", winner); got.String() != want {
					t.Errorf("there is %q in %q, want %q", got.String(), f.names(), want)
				}
			})
		})
	}
}

func TestDiscardLeavesNothing(t *testing.T) {
	for name, path := range map[string]string{"file": "/out", "folder": "/out/"} {
		t.Run(name, func(t *testing.T) {
			eachField(t, func(t *testing.T, f field) {
				f.put("out2.weir-op-1/part", "not ours")
				out := storage.Output{Path: f.base + path, Operation: "op-1"}
				f.wrote(t, out, "a\n", "b\n")
				for range 2 {
					must(t, f.Discard(t.Context(), out, false))
				}
				if got := f.names(); !slices.Equal(got, []string{"out2.weir-op-1/part"}) {
					t.Errorf("there is %q", got)
				}
			})
		})
	}
}

// TestDiscardTakesBack what was published just before the operation was aborted.
func TestDiscardTakesBack(t *testing.T) {
	for name, path := range map[string]string{"file": "/out", "folder": "/out/"} {
		t.Run(name, func(t *testing.T) {
			eachField(t, func(t *testing.T, f field) {
				out := storage.Output{Path: f.base + path, Operation: "op-1"}
				f.put("out2", "not ours")
				must(t, f.Publish(t.Context(), out, f.wrote(t, out, "a\n", "b\n")))
				var all sync.WaitGroup
				for range 4 {
					all.Go(func() {
						if err := f.Discard(t.Context(), out, false); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				must(t, f.Discard(t.Context(), out, false))
				if got := f.names(); !slices.Equal(got, []string{"out2"}) {
					t.Errorf("there is %q", got)
				}
			})
		})
	}
}
