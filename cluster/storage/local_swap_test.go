package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// scene is a folder that operations may use, and one beside it that they may not, which is
// built so that each step would find there what it looks for.
type scene struct {
	t             *testing.T
	open, secret  string
	storage       *Storage
	steps, swapAt int
	out           Output
	parts         []Part
	swapped       bool
}

// newScene has an operation's parts wait below open/user/in for their publication, and a link
// out of the folder beside user, which takes its place at a step.
func newScene(t *testing.T, folder bool, swapAt int) *scene {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, open: filepath.Join(dir, "open"), secret: filepath.Join(dir, "secret"), swapAt: swapAt}
	s.storage = &Storage{local: &local{roots: []string{s.open}}}
	s.out = Output{Path: filepath.Join(s.open, "user/in/out"), Operation: "op-1"}
	if folder {
		s.out.Path += "/"
	}
	for _, base := range []string{filepath.Join(s.open, "user"), s.secret} {
		s.must(os.MkdirAll(filepath.Join(base, "in"), 0o755))
	}
	s.must(os.Symlink(s.secret, filepath.Join(s.open, "link")))
	s.storage.local.step = func() {
		if s.steps++; s.steps == s.swapAt {
			s.swapped = true
			s.must(exchange(filepath.Join(s.open, "link"), filepath.Join(s.open, "user")))
		}
	}
	return s
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// quietly does what comes before the story without a swap.
func (s *scene) quietly(work func() error) {
	s.t.Helper()
	at := s.swapAt
	s.swapAt, s.steps = 0, 0
	s.must(work())
	s.swapAt, s.steps = at, 0
}

// prepared has jobs write parts, and makes all of it in the folder beside too.
func (s *scene) prepared() {
	s.t.Helper()
	s.quietly(func() error { return s.storage.Prepare(s.t.Context(), s.out) })
	for i := range 3 {
		part := Part{Name: fmt.Sprintf("part-%d-job", i), Bytes: 5}
		s.parts = append(s.parts, part)
		staging := s.out.target().staging()
		s.must(os.WriteFile(filepath.Join(staging, part.Name), []byte("mine\n"), 0o600))
		hidden := filepath.Join(s.secret, "in", filepath.Base(staging))
		s.must(errors.Join(os.MkdirAll(hidden, 0o700), os.WriteFile(filepath.Join(hidden, part.Name), []byte("hide\n"), 0o600)))
	}
}

// published publishes, in the folder beside too.
func (s *scene) published() {
	s.t.Helper()
	s.quietly(func() error { return s.storage.Publish(s.t.Context(), s.out, s.parts) })
	other := &Storage{local: &local{roots: []string{s.secret}}}
	out := s.out
	out.Path = strings.Replace(out.Path, filepath.Join(s.open, "user"), s.secret, 1)
	s.must(other.Publish(s.t.Context(), out, s.parts))
}

// files are all names below a folder, with what they are.
func (s *scene) files(root string) map[string]string {
	found := map[string]string{}
	s.must(filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var is unix.Stat_t
		if err := unix.Lstat(name, &is); err != nil {
			return err
		}
		found[name] = fmt.Sprint(is.Mode, is.Uid, is.Ino, is.Nlink, is.Size, is.Mtim)
		return nil
	}))
	return found
}

// TestSwappedLinksLeadNowhere has a user put a link out of the folders that operations may
// use in the place of one of their folders, before each step of each thing that is done with
// files there. Nothing is read, made, changed or removed where the link leads to, and when
// nothing is swapped any more it comes to a good end.
func TestSwappedLinksLeadNowhere(t *testing.T) {
	for what, story := range map[string]struct {
		before func(s *scene)
		do     func(ctx context.Context, s *scene) error
	}{
		"prepare": {func(*scene) {}, func(ctx context.Context, s *scene) error { return s.storage.Prepare(ctx, s.out) }},
		"publish": {(*scene).prepared, func(ctx context.Context, s *scene) error { return s.storage.Publish(ctx, s.out, s.parts) }},
		"publish again": {func(s *scene) { s.prepared(); s.published() },
			func(ctx context.Context, s *scene) error { return s.storage.Publish(ctx, s.out, s.parts) }},
		"discard": {(*scene).prepared, func(ctx context.Context, s *scene) error { return s.storage.Discard(ctx, s.out, true) }},
		"take back": {func(s *scene) { s.prepared(); s.published() },
			func(ctx context.Context, s *scene) error { return s.storage.Discard(ctx, s.out, false) }},
	} {
		for kind, folder := range map[string]bool{"a file": false, "a folder": true} {
			t.Run(what+", "+kind, func(t *testing.T) {
				for swapAt := 1; ; swapAt++ {
					s := newScene(t, folder, swapAt)
					story.before(s)
					before := s.files(s.secret)
					err := story.do(t.Context(), s)
					if after := s.files(s.secret); !maps.Equal(before, after) {
						t.Fatalf("step %d: there is %v, and was %v", swapAt, slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
					}
					if !s.swapped {
						s.must(err)
						t.Logf("%d steps", s.steps)
						break
					}
					s.must(exchange(filepath.Join(s.open, "link"), filepath.Join(s.open, "user")))
					s.quietly(func() error { return story.do(t.Context(), s) })
					s.clean()
				}
			})
		}
	}
}

// clean checks that nothing of what was going on is left besides parts that may be published
// still.
func (s *scene) clean() {
	s.t.Helper()
	s.quietly(func() error { return s.storage.Discard(s.t.Context(), s.out, true) })
	for name := range s.files(s.open) {
		if strings.Contains(name, stagingInfix) {
			s.t.Errorf("%s is left", name)
		}
	}
}

// TestSwappedLinksAreNotListed: what is beside is not told, not even that it is there.
func TestSwappedLinksAreNotListed(t *testing.T) {
	for what, path := range map[string]string{
		"a file": "user/in/data", "a folder": "user", "a pattern": "user/**/dat*", "a pattern in a folder": "user/in/d*", "a link": "alias", "a folder of links": "links",
	} {
		t.Run(what, func(t *testing.T) {
			for swapAt := 1; ; swapAt++ {
				s := newScene(t, false, swapAt)
				s.must(os.WriteFile(filepath.Join(s.open, "user/in/data"), []byte("mine\n"), 0o600))
				s.must(os.WriteFile(filepath.Join(s.secret, "in/data"), []byte("hidden from all\n"), 0o600))
				s.must(os.WriteFile(filepath.Join(s.secret, "in/data2"), nil, 0o600))
				s.must(os.Symlink(filepath.Join(s.open, "user/in/data"), filepath.Join(s.open, "alias")))
				s.must(os.Mkdir(filepath.Join(s.open, "links"), 0o700))
				s.must(os.Symlink("../alias", filepath.Join(s.open, "links/one")))
				files, err := s.storage.List(t.Context(), []string{filepath.Join(s.open, path)})
				for _, file := range files {
					if file.GetSize() != 5 || filepath.Base(file.GetPath()) == "data2" {
						t.Fatalf("step %d: listed %v", swapAt, file)
					}
				}
				if err != nil && strings.Contains(err.Error(), "data2") {
					t.Fatalf("step %d: %v", swapAt, err)
				}
				if !s.swapped {
					if s.must(err); len(files) != 1 {
						t.Fatalf("listed %v", files)
					}
					t.Logf("%d steps", s.steps)
					break
				}
			}
		})
	}
}

// TestFilesThatTurnIntoPipes do not hold who lists them.
func TestFilesThatTurnIntoPipes(t *testing.T) {
	for swapAt := 1; ; swapAt++ {
		s := newScene(t, false, 0)
		data, pipe := filepath.Join(s.open, "user/in/data"), filepath.Join(s.open, "pipe")
		s.must(os.WriteFile(data, []byte("mine\n"), 0o600))
		s.must(unix.Mkfifo(pipe, 0o600))
		swapped, steps := false, 0
		s.storage.local.step = func() {
			if steps++; steps == swapAt {
				swapped = true
				s.must(exchange(data, pipe))
			}
		}
		_, err := s.storage.List(t.Context(), []string{data})
		if !swapped {
			s.must(err)
			return
		}
		if err != nil && !strings.Contains(err.Error(), "is a pipe, not a regular file") {
			t.Fatalf("step %d: %v", swapAt, err)
		}
	}
}

// TestStagingFolderOfSomebodyElse is not used, and not removed.
func TestStagingFolderOfSomebodyElse(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give folders away")
	}
	s := newScene(t, false, 0)
	s.prepared()
	staging := s.out.target().staging()
	s.must(os.Chown(staging, 65534, 65534))
	if err := s.storage.Publish(t.Context(), s.out, s.parts); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("publish: %v", err)
	}
	if err := s.storage.Prepare(t.Context(), s.out); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("prepare: %v", err)
	}
	s.must(s.storage.Discard(t.Context(), s.out, false))
	if _, err := os.Stat(filepath.Join(staging, s.parts[0].Name)); err != nil {
		t.Errorf("their file: %v", err)
	}
}
