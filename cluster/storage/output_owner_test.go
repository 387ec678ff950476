package storage_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"weir/cluster/storage"
)

// TestOutputBelongsToWhoWroteIt, where this process may give it away, and nobody else gets at
// the parts before.
func TestOutputBelongsToWhoWroteIt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	const user = 65534
	tests := map[string]struct {
		path   string
		owners []int
		want   uint32
	}{
		"a file of one part":               {"/out", []int{user}, user},
		"a file of many":                   {"/out", []int{user, user, user}, user},
		"a folder":                         {"/out/", []int{user, user}, user},
		"parts of one user and of another": {"/out", []int{user, 0}, 0},
		"a folder of nobody's alone":       {"/out/", []int{0, user}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := storage.New(storage.Config{Roots: []string{dir}})
			out := storage.Output{Path: dir + test.path, Operation: "op-1"}
			must(t, s.Prepare(t.Context(), out))
			var parts []storage.Part
			for i, owner := range test.owners {
				part := storage.Part{Name: "part-" + string(rune('a'+i)), Bytes: 2}
				destination, err := s.Destination(t.Context(), out, part.Name)
				must(t, err)
				info, err := os.Stat(filepath.Dir(destination))
				if err != nil || info.Mode().Perm() != 0o700 {
					t.Errorf("the staging folder: %v, %v, want it closed to others", info, err)
				}
				must(t, os.WriteFile(destination, []byte("x\n"), 0o644))
				must(t, os.Chmod(destination, 0o644)) // Whatever this process's umask is.
				must(t, os.Chown(destination, owner, owner))
				parts = append(parts, part)
			}
			must(t, s.Publish(t.Context(), out, parts))
			info, err := os.Stat(filepath.Join(dir, "out"))
			must(t, err)
			if is := info.Sys().(*syscall.Stat_t); is.Uid != test.want || is.Gid != test.want || info.Mode().Perm()&0o444 != 0o444 {
				t.Errorf("user %d, group %d, mode %v, want %d, and everybody may read", is.Uid, is.Gid, info.Mode(), test.want)
			}
		})
	}
}
