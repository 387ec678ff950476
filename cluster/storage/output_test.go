package storage_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"weir/cluster/storage"
	"weir/cluster/storage/storagetest"
)

// field is a place for output: both kinds behave alike.
type field struct {
	*storage.Storage
	// base is the folder or the prefix that outputs are in.
	base string
	// names lists what is there, read returns one of them; put makes it, by somebody else.
	names func() []string
	read  func(name string) string
	put   func(name, data string)
	// write does what a job does: it puts data to a destination.
	write func(destination, data string)
	// uploads is how many uploads are open.
	uploads func() int
}

func eachField(t *testing.T, story func(t *testing.T, f field)) {
	t.Run("local", func(t *testing.T) {
		dir := t.TempDir()
		story(t, field{
			Storage: storage.New(storage.Config{Roots: []string{dir}}), base: dir,
			names: func() (names []string) {
				must(t, filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
					if err == nil && !info.IsDir() {
						names = append(names, strings.TrimPrefix(name, dir+"/"))
					}
					return err
				}))
				return names
			},
			read: func(name string) string {
				data, err := os.ReadFile(filepath.Join(dir, name))
				must(t, err)
				return string(data)
			},
			put: func(name, data string) {
				must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
				must(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644))
			},
			write:   func(destination, data string) { must(t, os.WriteFile(destination, []byte(data), 0o644)) },
			uploads: func() int { return 0 },
		})
	})
	t.Run("s3", func(t *testing.T) {
		server := storagetest.Serve(t, "data")
		story(t, field{
			Storage: store(server), base: "s3://data", uploads: server.Uploads,
			names: func() []string { return server.Keys("data") },
			read: func(name string) string {
				data, ok := server.Data("data", name)
				if !ok {
					t.Fatalf("no object %s", name)
				}
				return data
			},
			put: func(name, data string) { server.Put("data", name, data) },
			write: func(destination, data string) {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, destination, strings.NewReader(data))
				must(t, err)
				answer, err := http.DefaultClient.Do(request)
				must(t, err)
				text, err := io.ReadAll(answer.Body)
				must(t, errors.Join(err, answer.Body.Close()))
				if answer.StatusCode != http.StatusOK {
					t.Fatalf("put %s: %s: %s", destination, answer.Status, text)
				}
			},
		})
	})
}

// wrote has jobs write parts, and returns them.
func (f field) wrote(t *testing.T, out storage.Output, data ...string) (parts []storage.Part) {
	t.Helper()
	must(t, f.Prepare(t.Context(), out))
	for i, text := range data {
		part := storage.Part{Name: fmt.Sprintf("part-%d-job", i), Bytes: int64(len(text))}
		destination, err := f.Destination(t.Context(), out, part.Name)
		must(t, err)
		f.write(destination, text)
		parts = append(parts, part)
	}
	return parts
}

func TestPublishAFile(t *testing.T) {
	big := strings.Repeat("0123456789abcde\n", 6<<16)
	for name, data := range map[string][]string{
		"no parts": nil, "one part": {"all\n"}, "an empty part": {""}, "small parts": {"a\n", "", "b\n", "c\n"},
		"big parts": {big, big}, "big and small": {"a\n", big, "b\n", "c\n", big, "d\n"},
	} {
		t.Run(name, func(t *testing.T) {
			eachField(t, func(t *testing.T, f field) {
				out := storage.Output{Path: f.base + "/out.txt", Operation: "op-1"}
				parts := f.wrote(t, out, data...)
				if slices.Contains(f.names(), "out.txt") {
					t.Fatal("it is there before it is published")
				}
				// Again, as after a crash behind any line.
				for range 2 {
					must(t, f.Publish(t.Context(), out, parts))
				}
				for range 2 {
					must(t, f.Discard(t.Context(), out, true))
				}
				if got := f.names(); !slices.Equal(got, []string{"out.txt"}) {
					t.Errorf("there is %q", got)
				}
				if f.read("out.txt") != strings.Join(data, "") {
					t.Error("it is not what the jobs have written")
				}
				if f.uploads() != 0 {
					t.Error("an upload is open")
				}
			})
		})
	}
}

func TestPublishAFolder(t *testing.T) {
	for name, data := range map[string][]string{"no parts": nil, "parts": {"a\n", "", "b\n"}} {
		t.Run(name, func(t *testing.T) {
			eachField(t, func(t *testing.T, f field) {
				out := storage.Output{Path: f.base + "/out/", Operation: "op-1"}
				parts := f.wrote(t, out, data...)
				for range 2 {
					must(t, f.Publish(t.Context(), out, parts))
				}
				must(t, f.Discard(t.Context(), out, true))
				var want []string
				for i, text := range data {
					want = append(want, fmt.Sprintf("out/part-%05d", i))
					if got := f.read(want[i]); got != text {
						t.Errorf("part %d: %q", i, got)
					}
				}
				got := slices.DeleteFunc(f.names(), func(name string) bool { return name == "out/_SUCCESS" })
				if !slices.Equal(got, want) {
					t.Errorf("there is %q, want %q", got, want)
				}
			})
		})
	}
}

func TestOutputOfSomebodyElse(t *testing.T) {
	for name, path := range map[string]string{"file": "/out", "folder": "/out/"} {
		t.Run(name, func(t *testing.T) {
			eachField(t, func(t *testing.T, f field) {
				other := strings.TrimPrefix(path, "/")
				if strings.HasSuffix(path, "/") {
					other += "part-00000"
				}
				out := storage.Output{Path: f.base + path, Operation: "op-1"}
				parts := f.wrote(t, out, "mine\n", "too\n")
				f.put(other, "theirs")
				if strings.HasSuffix(path, "/") {
					f.put("out/_SUCCESS", "")
				}
				if err := f.Publish(t.Context(), out, parts); !errors.Is(err, storage.ErrExists) {
					t.Errorf("publish: %v", err)
				}
				if err := f.Prepare(t.Context(), storage.Output{Path: f.base + path, Operation: "op-2"}); !errors.Is(err, storage.ErrExists) {
					t.Errorf("prepare: %v", err)
				}
				must(t, f.Discard(t.Context(), out, false))
				if f.read(other) != "theirs" {
					t.Error("it is not theirs any more")
				}
			})
		})
	}
}

// TestTheyAreFasterByAMoment has somebody make the output at the very moment at which it
// is to become visible.
func TestTheyAreFasterByAMoment(t *testing.T) {
	t.Run("an empty folder", func(t *testing.T) {
		dir := t.TempDir()
		f := field{Storage: storage.New(everywhere), write: func(destination, data string) { must(t, os.WriteFile(destination, []byte(data), 0o600)) }}
		out := storage.Output{Path: dir + "/out/", Operation: "op-1"}
		parts := f.wrote(t, out, "mine\n")
		must(t, os.Mkdir(dir+"/out", 0o755))
		if err := f.Publish(t.Context(), out, parts); !errors.Is(err, storage.ErrExists) {
			t.Errorf("publish: %v", err)
		}
	})
	big := strings.Repeat("0123456789abcde\n", 6<<16)
	for name, data := range map[string]string{"a small object": "mine\n", "a big object": big} {
		t.Run(name, func(t *testing.T) {
			server := storagetest.Serve(t, "data")
			f := field{Storage: store(server), write: func(destination, data string) {
				server.Put("data", strings.Split(strings.TrimPrefix(destination, server.URL+"/data/"), "?")[0], data)
			}}
			out := storage.Output{Path: "s3://data/out", Operation: "op-1"}
			parts := f.wrote(t, out, data)
			server.Fail(func(r *http.Request) int {
				whole := r.Method == http.MethodPut && !r.URL.Query().Has("uploadId") || r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
				if whole && r.URL.Path == "/data/out" {
					server.Put("data", "out", "theirs")
				}
				return 0
			})
			if err := f.Publish(t.Context(), out, parts); !errors.Is(err, storage.ErrExists) {
				t.Errorf("publish: %v", err)
			}
			if data, _ := server.Data("data", "out"); data != "theirs" || server.Uploads() != 0 {
				t.Errorf("there is %.20q and %d uploads", data, server.Uploads())
			}
		})
	}
}

func TestPartsThatAreNotThere(t *testing.T) {
	eachField(t, func(t *testing.T, f field) {
		out := storage.Output{Path: f.base + "/out", Operation: "op-1"}
		parts := f.wrote(t, out, "one\n", "two\n")
		for name, bad := range map[string][]storage.Part{
			"it does not exist": append(slices.Clone(parts), storage.Part{Name: "part-9", Bytes: 3}),
			"it has 4 bytes":    {parts[0], {Name: parts[1].Name, Bytes: 5}},
		} {
			err := f.Publish(t.Context(), out, bad)
			if !errors.Is(err, storage.ErrBroken) {
				t.Errorf("publish: %v", err)
			}
			wantError(t, err, name)
		}
		must(t, f.Publish(t.Context(), out, parts))
	})
}

// TestPartsThatAreLinks are not followed: who may write above the staging folder may have
// put them there, and not be allowed to read what they lead to.
func TestPartsThatAreLinks(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("two\n"), 0o600))
	s := storage.New(storage.Config{Roots: []string{"/"}})
	for _, path := range []string{filepath.Join(dir, "file"), filepath.Join(dir, "folder") + "/"} {
		out := storage.Output{Path: path, Operation: "op-1"}
		must(t, s.Prepare(t.Context(), out))
		var parts []storage.Part
		for _, name := range []string{"part-0", "part-1"} {
			destination, err := s.Destination(t.Context(), out, name)
			must(t, err)
			if name == "part-0" {
				must(t, os.WriteFile(destination, []byte("one\n"), 0o644))
			} else {
				must(t, os.Symlink(secret, destination))
			}
			parts = append(parts, storage.Part{Name: name, Bytes: 4})
		}
		err := s.Publish(t.Context(), out, parts)
		if !errors.Is(err, storage.ErrBroken) {
			t.Errorf("publish: %v", err)
		}
		wantError(t, err, "it is a link, but a file was written")
	}
}

func TestOutputThatCannotBe(t *testing.T) {
	dir := tree(t, "file")
	local := storage.New(storage.Config{Roots: []string{dir}})
	server := storagetest.Serve(t, "data")
	remote := store(server)
	tests := map[string]struct {
		storage *storage.Storage
		path    string
		want    string
	}{
		"no folder":          {local, dir + "/none/out", "no folder " + dir + "/none: create it first"},
		"a file as a folder": {local, dir + "/file/out", "no folder " + dir + "/file"},
		"not absolute":       {local, "out", "must be a clean absolute path"},
		"dots":               {local, dir + "/sub/../out", "must be a clean absolute path"},
		"outside":            {local, "/elsewhere/out", storage.ErrForbidden.Error()},
		"no bucket":          {remote, "s3://none/out", `there is no bucket "none"`},
		"no key":             {remote, "s3://data/", "no key"},
		"the root":           {local, "/", "must be a clean absolute path"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			wantError(t, test.storage.Prepare(t.Context(), storage.Output{Path: test.path, Operation: "op"}), test.want)
		})
	}
	t.Run("a folder that cannot be written to", func(t *testing.T) {
		server.Fail(func(r *http.Request) int {
			if r.Method == http.MethodPut {
				return http.StatusForbidden
			}
			return 0
		})
		wantError(t, remote.Prepare(t.Context(), storage.Output{Path: "s3://data/out", Operation: "op"}), "access denied")
	})
}

// TestPublishAfterCrashes breaks each request of a publication in turn, as if the replica
// had died there, and publishes again.
func TestPublishAfterCrashes(t *testing.T) {
	big := strings.Repeat("0123456789abcde\n", 6<<16)
	for name, path := range map[string]string{"file": "s3://data/out", "folder": "s3://data/out/"} {
		t.Run(name, func(t *testing.T) {
			for crash := int64(1); ; crash++ {
				server := storagetest.Serve(t, "data")
				f := field{Storage: store(server), write: func(destination, data string) {
					server.Put("data", strings.Split(strings.TrimPrefix(destination, server.URL+"/data/"), "?")[0], data)
				}}
				out := storage.Output{Path: path, Operation: "op-1"}
				parts := f.wrote(t, out, "a\n", big, "b\n")
				var asked atomic.Int64
				server.Fail(func(*http.Request) int {
					if asked.Add(1) >= crash {
						return http.StatusNotFound
					}
					return 0
				})
				err := f.Publish(t.Context(), out, parts)
				if data, ok := server.Data("data", "out"); ok && data != "a\n"+big+"b\n" {
					t.Fatalf("crash %d: half of it is visible", crash)
				}
				server.Fail(nil)
				must(t, f.Publish(t.Context(), out, parts))
				must(t, f.Discard(t.Context(), out, true))
				if server.Uploads() != 0 {
					t.Errorf("crash %d: an upload is open", crash)
				}
				if got := server.Keys("data"); slices.Contains(got, "out/_PUBLISHING") {
					t.Errorf("crash %d: there is %q", crash, got)
				}
				if err == nil {
					t.Logf("%d places to crash", crash-1)
					return
				}
			}
		})
	}
}

func containsAll(all, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(each string) bool { return !slices.Contains(all, each) })
}
