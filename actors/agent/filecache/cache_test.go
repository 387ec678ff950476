package filecache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/disktest"
	"weir/actors/agent/runner/proxyproto"
	"weir/cluster/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience is the deadline of every wait.
const patience = 2 * time.Minute

// quick asks servers again at once, and gives none up that is slow because the machine is.
var quick = Retry{Tries: 3, Pause: time.Millisecond, Silence: patience}

// opened returns a cache in a folder.
func opened(t *testing.T, dir string, limit int64) *Cache {
	t.Helper()
	return openedWith(t, dir, limit, quick)
}

func openedWith(t *testing.T, dir string, limit int64, retry Retry) *Cache {
	t.Helper()
	c, err := Open(Config{Dir: dir, Limit: limit, Retry: retry, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// written makes a file of so many bytes.
func written(t *testing.T, path string, size int, fill byte) string {
	t.Helper()
	if err := os.WriteFile(path, bytes.Repeat([]byte{fill}, size), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// place places one file and returns what the job finds.
func place(t *testing.T, c *Cache, from string) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := c.Place(t.Context(), dir, nil, []File{{Source: from, Path: "f"}}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// wantStats compares the figures that a test is about.
func wantStats(t *testing.T, c *Cache, hits, misses, evicted, damaged uint64) {
	t.Helper()
	s := c.Stats()
	if s.Hits != hits || s.Misses != misses || s.Evicted != evicted || s.Damaged != damaged {
		t.Errorf("%d hits, %d misses, %d evicted, %d damaged; want %d, %d, %d, %d", s.Hits, s.Misses, s.Evicted, s.Damaged, hits, misses, evicted, damaged)
	}
}

func TestPlaceGivesEachJobACopyThatIsItsOwn(t *testing.T) {
	c := opened(t, t.TempDir(), 1<<20)
	from := written(t, filepath.Join(t.TempDir(), "tool"), 1000, 'x')
	for i := range 2 {
		dir := t.TempDir()
		files := []File{{Source: from, Path: "bin/deep/tool", Executable: true}, {Source: from, Path: "data"}}
		if err := c.Place(t.Context(), dir, nil, files); err != nil {
			t.Fatal(err)
		}
		for path, mode := range map[string]os.FileMode{"bin/deep/tool": 0o555, "data": 0o444} {
			info, err := os.Stat(filepath.Join(dir, path))
			if err != nil || info.Mode() != mode || info.Size() != 1000 {
				t.Errorf("job %d: %s is %v, %v; want mode %v", i, path, info, err, mode)
			}
		}
		// A job that is root may write to it all the same.
		spoilt := filepath.Join(dir, "data")
		if err := errors.Join(os.Chmod(spoilt, 0o600), os.WriteFile(spoilt, []byte("mine"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if got := place(t, c, from); !bytes.Equal(got, bytes.Repeat([]byte{'x'}, 1000)) {
		t.Errorf("the cache has %d bytes of something else", len(got))
	}
	wantStats(t, c, 4, 1, 0, 0)
	if s := c.Stats(); s.Files != 1 || s.Bytes != 1000 || s.Limit != 1<<20 {
		t.Errorf("%d files, %d bytes of %d", s.Files, s.Bytes, s.Limit)
	}
}

func TestASourceThatChangedIsReadAgain(t *testing.T) {
	c := opened(t, t.TempDir(), 1<<20)
	from := written(t, filepath.Join(t.TempDir(), "f"), 10, 'a')
	place(t, c, from)
	written(t, from, 10, 'b')
	if err := os.Chtimes(from, time.Time{}, time.Unix(1_000_000_000, 1)); err != nil {
		t.Fatal(err)
	}
	if got := place(t, c, from); string(got) != "bbbbbbbbbb" {
		t.Errorf("got %q", got)
	}
	// Builds that can be repeated give all of their files one time.
	written(t, from+".new", 10, 'c')
	if err := errors.Join(os.Chtimes(from+".new", time.Time{}, time.Unix(1_000_000_000, 1)), os.Rename(from+".new", from)); err != nil {
		t.Fatal(err)
	}
	if got := place(t, c, from); string(got) != "cccccccccc" {
		t.Errorf("got %q", got)
	}
	// Another name of the same content takes no room.
	other := written(t, filepath.Join(t.TempDir(), "other"), 10, 'b')
	place(t, c, other)
	if s := c.Stats(); s.Files != 3 || s.Bytes != 30 {
		t.Errorf("%d files of %d bytes, want 3 of 30", s.Files, s.Bytes)
	}
	wantStats(t, c, 0, 4, 0, 0)
}

func TestFilesThatCannotBeHad(t *testing.T) {
	dir := t.TempDir()
	large := written(t, filepath.Join(dir, "large"), 101, 'x')
	tests := map[string]struct {
		file File
		want string
	}{
		"one that is not there":     {File{dir + "/none", "f", false}, `place file "f": ` + dir + `/none: file unavailable: no such file or directory`},
		"a folder":                  {File{dir, "f", false}, "is not a regular file"},
		"a device":                  {File{"/dev/zero", "f", false}, "is not a regular file"},
		"a path from somewhere":     {File{"f", "f", false}, "must be an absolute path or a URL"},
		"a URL of another kind":     {File{"ftp://h/f", "f", false}, "must begin with http:// or https://"},
		"one larger than the cache": {File{large, "f", false}, large + ": file unavailable: it has 101 bytes, but the file cache of the node holds 100 (--file-cache-size)"},
		"a place out of bounds":     {File{large, "../f", false}, "must be within the workspace"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, to := opened(t, t.TempDir(), 100), t.TempDir()
			err := c.Place(t.Context(), to, nil, []File{test.file})
			if !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want ErrSource with %q", err, test.want)
			}
			if left, err := os.ReadDir(c.scratch()); err != nil || len(left) != 0 {
				t.Errorf("left %v, %v", left, err)
			}
			if c.index.reserved != 0 || c.index.bytes != 0 {
				t.Errorf("%d bytes, %d reserved", c.index.bytes, c.index.reserved)
			}
		})
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	c, dir := opened(t, t.TempDir(), 100), t.TempDir()
	var all []string
	for i := range 5 {
		all = append(all, written(t, filepath.Join(dir, fmt.Sprint(i)), 40, byte('a'+i)))
		place(t, c, all[i])
		place(t, c, all[0])
	}
	// The first was used all the time, the others made room for each other.
	wantStats(t, c, 5, 5, 3, 0)
	entries, err := os.ReadDir(c.contents())
	if err != nil || len(entries) != 2 {
		t.Errorf("%d files on disk, %v; want 2", len(entries), err)
	}
}

func TestTrimGivesSpaceBack(t *testing.T) {
	c, dir := opened(t, t.TempDir(), 100), t.TempDir()
	for i := range 3 {
		place(t, c, written(t, filepath.Join(dir, fmt.Sprint(i)), 30, byte('a'+i)))
	}
	for _, test := range []struct{ want, freed, left int64 }{{-5, 0, 90}, {0, 0, 90}, {31, 60, 30}, {100, 30, 0}, {1, 0, 0}} {
		freed, err := c.Trim(test.want)
		entries, listErr := os.ReadDir(c.contents())
		if err != nil || listErr != nil || freed != test.freed || int64(30*len(entries)) != test.left || c.Stats().Bytes != test.left {
			t.Errorf("Trim(%d) gave back %d, %v; %d files are left, want %d bytes", test.want, freed, err, len(entries), test.left)
		}
	}
}

func TestWhatIsInUseIsNotThrownAway(t *testing.T) {
	c, dir := opened(t, t.TempDir(), 100), t.TempDir()
	used, waits := written(t, filepath.Join(dir, "used"), 60, 'a'), written(t, filepath.Join(dir, "waits"), 60, 'b')
	from, err := open(used, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer from.close()
	_, held, err := c.acquire(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	hasty, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Place(hasty, t.TempDir(), nil, []File{{Source: waits, Path: "f"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want it to wait for room", err)
	}
	placed := make(chan error, 1)
	to := t.TempDir()
	go func() { placed <- c.Place(context.Background(), to, nil, []File{{Source: waits, Path: "f"}}) }()
	c.release(held)
	if err := <-placed; err != nil {
		t.Error(err)
	}
	wantStats(t, c, 0, 2, 1, 0)
}

func TestManyJobsAtOnceShareOneReading(t *testing.T) {
	c, dir := opened(t, t.TempDir(), 1<<20), t.TempDir()
	from := written(t, filepath.Join(dir, "f"), 300_000, 'x')
	var jobs sync.WaitGroup
	for i := range 20 {
		to := filepath.Join(t.TempDir(), fmt.Sprint(i))
		jobs.Go(func() {
			if err := c.Place(context.Background(), to, nil, []File{{Source: from, Path: "f"}}); err != nil {
				t.Error(err)
			}
		})
	}
	jobs.Wait()
	if s := c.Stats(); s.Hits+s.Misses != 20 || s.Files != 1 {
		t.Errorf("%+v", s)
	}
}

func TestTheCacheSurvivesItsProcess(t *testing.T) {
	dir, files := t.TempDir(), t.TempDir()
	first := opened(t, dir, 100)
	a, b := written(t, filepath.Join(files, "a"), 40, 'a'), written(t, filepath.Join(files, "b"), 40, 'b')
	place(t, first, a)
	place(t, first, b)
	place(t, first, a)
	first.Close()
	written(t, filepath.Join(dir, "new", "half"), 10, 'x')

	second := opened(t, dir, 100)
	place(t, second, a)
	place(t, second, b)
	wantStats(t, second, 2, 0, 0, 0)
	if left, err := os.ReadDir(second.scratch()); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	place(t, second, a)
	second.Close()

	small := opened(t, dir, 50)
	if s := small.Stats(); s.Files != 1 || s.Bytes != 40 {
		t.Errorf("%+v in a smaller cache", s)
	}
	place(t, small, a)
	wantStats(t, small, 1, 0, 0, 0)
	small.Close()

	// Without its memory it checks what it has by reading the source again.
	if err := os.WriteFile(small.indexFile(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	third := opened(t, dir, 100)
	place(t, third, a)
	wantStats(t, third, 0, 1, 0, 0)
	if s := third.Stats(); s.Files != 1 || s.Bytes != 40 {
		t.Errorf("%+v after a source was read again", s)
	}
}

func TestDamageIsFound(t *testing.T) {
	tests := map[string]func(t *testing.T, path string){
		"other bytes":     func(t *testing.T, path string) { written(t, path, 40, 'z') },
		"fewer bytes":     func(t *testing.T, path string) { written(t, path, 39, 'a') },
		"none, it's gone": func(_ *testing.T, path string) { _ = os.Remove(path) },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			c := opened(t, t.TempDir(), 100)
			from := written(t, filepath.Join(t.TempDir(), "a"), 40, 'a')
			want := place(t, c, from)
			sum := sha256.Sum256(want)
			content := c.content(hex.EncodeToString(sum[:]))
			if err := os.Chmod(content, 0o600); err != nil {
				t.Fatal(err)
			}
			spoil(t, content)
			if got := place(t, c, from); !bytes.Equal(got, want) {
				t.Errorf("the job got %q", got)
			}
			if s := c.Stats(); s.Damaged != 1 || s.Files != 1 || s.Bytes != 40 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestDamageIsThrownAwayOnce, by the first of those who find it: what has been fetched since is
// another content.
func TestDamageIsThrownAwayOnce(t *testing.T) {
	c := opened(t, t.TempDir(), 100)
	path := written(t, filepath.Join(t.TempDir(), "a"), 40, 'a')
	from, err := open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer from.close()
	hash, held, err := c.acquire(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	c.release(held)
	c.drop(hash, held)
	place(t, c, path)
	c.drop(hash, held)
	if s := c.Stats(); s.Damaged != 1 || s.Files != 1 {
		t.Errorf("%+v, want what was fetched again to stay", s)
	}
}

// unread is a source that nobody may begin to read.
type unread struct {
	source
	t *testing.T
}

func (u unread) fetch(*Cache) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		u.t.Error("it is read")
		return "", errors.New("it is read")
	}
}

// TestClosedCacheReadsNothing: who closes it has waited for all that it did.
func TestClosedCacheReadsNothing(t *testing.T) {
	c := opened(t, t.TempDir(), 100)
	from, err := open(written(t, filepath.Join(t.TempDir(), "a"), 40, 'a'), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer from.close()
	c.Close()
	if _, _, err := c.acquire(t.Context(), unread{from, t}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it is closed", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	taken := t.TempDir()
	opened(t, taken, 1)
	foreign := t.TempDir()
	if err := os.MkdirAll(filepath.Join(foreign, "content"), 0o700); err != nil {
		t.Fatal(err)
	}
	written(t, filepath.Join(foreign, "content", "thesis"), 1, 'x')
	for name, test := range map[string]struct {
		cfg  Config
		want string
	}{
		"no room at all":     {Config{Dir: t.TempDir()}, "size 0: must be positive"},
		"a folder of others": {Config{Dir: foreign, Limit: 1}, "thesis does not belong to a file cache"},
		"a folder in use":    {Config{Dir: taken, Limit: 1}, "in use by another agent"},
		"no folder":          {Config{Dir: "/dev/null/x", Limit: 1}, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			test.cfg.Logger = slog.New(slog.DiscardHandler)
			if _, err := Open(test.cfg); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestFilesAreReadWithTheRightsOfTheJob (T2): neither what the cache has nor what the agent has open is a way around them.
func TestFilesAreReadWithTheRightsOfTheJob(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	t.Setenv("TMPDIR", disktest.Reachable(t))
	dir, nobody := t.TempDir(), &proxyproto.User{UID: 65534, GID: 65534}
	for path := dir; len(path) > len(os.TempDir()); path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := opened(t, t.TempDir(), 100)
	secret, open := written(t, filepath.Join(dir, "secret"), 10, 's'), written(t, filepath.Join(dir, "open"), 10, 'o')
	if err := os.Chmod(secret, 0o640); err != nil {
		t.Fatal(err)
	}
	// That the cache has it does not let others have it.
	place(t, c, secret)
	err := c.Place(t.Context(), t.TempDir(), nobody, []File{{Source: secret, Path: "f"}})
	if !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("got %v, want a lack of rights", err)
	}
	if err := c.Place(t.Context(), t.TempDir(), nobody, []File{{Source: open, Path: "f"}}); err != nil {
		t.Error(err)
	}
	// The other threads are who they were.
	place(t, c, secret)
	// What the agent has open is no way around closed folders, or around what it may read itself.
	closed := t.TempDir()
	held, err := os.Open(written(t, filepath.Join(closed, "held"), 10, 'h'))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, as := range []*proxyproto.User{nobody, nil} {
		for _, source := range []string{fmt.Sprintf("/proc/self/fd/%d", held.Fd()), fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), held.Fd()), "/proc/self/root" + open, "/proc/self/cwd/cache_test.go"} {
			err := c.Place(t.Context(), t.TempDir(), as, []File{{Source: source, Path: "f"}})
			if !errors.Is(err, ErrSource) || !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.EACCES) {
				t.Errorf("%s: got %v, want a refusal", source, err)
			}
		}
	}
}
