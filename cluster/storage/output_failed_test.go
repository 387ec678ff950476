package storage_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/cluster/storage"
	"weir/cluster/storage/storagetest"
)

// TestFailedPublicationTellsWhatIsThere, and what becomes of it.
func TestFailedPublicationTellsWhatIsThere(t *testing.T) {
	for name, test := range map[string]struct {
		path string
		// broken are the requests that the store does not answer.
		broken func(r *http.Request) bool
		// before are objects that are there before it is.
		before []string
		want   string
	}{
		"a folder of which a part is there": {
			path:   "/out/",
			broken: func(r *http.Request) bool { return r.Method == http.MethodPut && r.URL.Path == "/data/out/part-00002" },
			// The first failure calls off what is still going on.
			before: []string{"out/part-00000", "out/part-00001"},
			want:   "2 of 3 files are at s3://data/out/, and no _SUCCESS: when the operation ends, Weir removes any objects of it there and in s3://data/out.weir-op-1/, and retries",
		},
		"a folder without its last object": {
			path:   "/out/",
			broken: func(r *http.Request) bool { return r.Method == http.MethodPut && r.URL.Path == "/data/out/_SUCCESS" },
			want:   "3 of 3 files are at s3://data/out/, and no _SUCCESS",
		},
		"a folder of which nothing is there": {
			path:   "/out/",
			broken: func(r *http.Request) bool { return r.Method == http.MethodPut },
			want:   "nothing was written to s3://data/out:",
		},
		"a folder that cannot be seen": {
			path:   "/out/",
			broken: func(*http.Request) bool { return true },
			want:   "cannot list s3://data/out/, which is incomplete without _SUCCESS",
		},
		"a file": {
			path:   "/out",
			broken: func(r *http.Request) bool { return r.Method == http.MethodPut },
			want:   "nothing was written to s3://data/out:",
		},
		"a file that cannot be seen": {
			path:   "/out",
			broken: func(*http.Request) bool { return true },
			want:   "cannot check whether s3://data/out exists",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := storagetest.Serve(t, "data")
			f := field{Storage: store(server), write: func(destination, data string) {
				server.Put("data", strings.Split(strings.TrimPrefix(destination, server.URL+"/data/"), "?")[0], data)
			}}
			out := storage.Output{Path: "s3://data" + test.path, Operation: "op-1"}
			parts := f.wrote(t, out, "a\n", "b\n", "c\n")
			server.Fail(func(r *http.Request) int {
				if !test.broken(r) {
					return 0
				}
				until := time.After(2 * time.Minute)
				for tick := time.NewTicker(time.Millisecond); !containsAll(server.Keys("data"), test.before); {
					select {
					case <-tick.C:
					case <-until:
						t.Errorf("there is %q, and not %q, after two minutes", server.Keys("data"), test.before)
						return http.StatusForbidden
					}
				}
				return http.StatusForbidden
			})
			wantError(t, f.Publish(t.Context(), out, parts), test.want)
			server.Fail(nil)
			must(t, f.Discard(t.Context(), out, false))
			if got := server.Keys("data"); len(got) > 0 {
				t.Errorf("there is %q when it was removed", got)
			}
		})
	}
}
