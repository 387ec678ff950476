package filecache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// ErrSource is returned, wrapped, for a file that is unavailable: it does not exist, may not be
// read, is larger than the cache, is changed while it is read, or its server fails for too long.
// Another node would fail as well.
var ErrSource = errors.New("file unavailable")

// ErrInUse is returned by Open for the folder of a cache that is already open.
var ErrInUse = errors.New("in use by another agent")

// Config configures a Cache.
type Config struct {
	// Dir is the folder of the cache, which nothing else may use. It is made if missing.
	Dir string
	// Limit bounds the size of the cached files together, in bytes.
	Limit int64
	// Retry is how failed downloads are retried. Default: DefaultRetry.
	Retry Retry
	// Logger receives messages for operators.
	Logger *slog.Logger
}

// Retry is how failed downloads are retried.
type Retry struct {
	// Tries is the number of attempts. The pause after the first attempt is Pause; it doubles after
	// each further attempt.
	Tries int
	Pause time.Duration
	// Silence is how long a server may send nothing.
	Silence time.Duration
}

// DefaultRetry returns six attempts in about six seconds: object stores that shed load have
// recovered by then. A longer failure should not fill the node with jobs that wait.
func DefaultRetry() Retry {
	return Retry{Tries: 6, Pause: 200 * time.Millisecond, Silence: 30 * time.Second}
}

// Cache is an open cache. Its methods may be called by several goroutines.
type Cache struct {
	cfg    Config
	client *http.Client
	lock   *os.File

	mu    sync.Mutex
	index *index
	// freed is closed and replaced when room may have become free.
	freed   chan struct{}
	flights map[string]*flight
	stats   Stats
	tasks   sync.WaitGroup
	stop    context.CancelFunc
	life    context.Context
}

// Stats is what a cache holds, and what it has done since it was opened.
type Stats struct {
	// Files is the number of files. Bytes is their total size, at most Limit.
	Files        int
	Bytes, Limit int64
	// Hits counts placed files that were in the cache. Misses counts placed files that were
	// fetched, for this job or for another one at the same time.
	Hits, Misses uint64
	// Evicted counts files that were dropped for lack of room. Damaged counts files that were
	// dropped because their content no longer matched its hash.
	Evicted, Damaged uint64
}

// flight is one fetch of a source that several jobs may wait for.
type flight struct {
	done   chan struct{}
	cancel context.CancelFunc
	// waiting is how many jobs wait. hash and err are set before done is closed.
	waiting int
	hash    string
	err     error
}

// Open opens the cache in a folder, with the files already in it.
func Open(cfg Config) (*Cache, error) {
	if cfg.Limit <= 0 {
		return nil, fmt.Errorf("open file cache: size %d: must be positive", cfg.Limit)
	}
	if cfg.Retry == (Retry{}) {
		cfg.Retry = DefaultRetry()
	}
	c := &Cache{
		cfg: cfg, index: newIndex(cfg.Limit), freed: make(chan struct{}), flights: map[string]*flight{},
		client: &http.Client{Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: cfg.Retry.Silence, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 4,
			TLSHandshakeTimeout: 10 * time.Second, DisableCompression: true,
		}},
	}
	c.life, c.stop = context.WithCancel(context.Background())
	if err := c.load(); err != nil {
		c.stop()
		if c.lock != nil {
			err = errors.Join(err, c.lock.Close())
		}
		return nil, fmt.Errorf("open file cache %s: %w", cfg.Dir, err)
	}
	return c, nil
}

// Close cancels fetches and closes the cache. It may be called again.
func (c *Cache) Close() {
	c.mu.Lock()
	c.stop()
	c.mu.Unlock()
	c.tasks.Wait()
	c.client.CloseIdleConnections()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lock == nil {
		return
	}
	c.save()
	if err := c.lock.Close(); err != nil {
		c.cfg.Logger.Warn("file cache lock not released", "dir", c.cfg.Dir, "error", err)
	}
	c.lock = nil
}

// Stats returns a snapshot.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	stats := c.stats
	stats.Files, stats.Bytes, stats.Limit = len(c.index.contents), c.index.bytes, c.index.limit
	return stats
}

func (c *Cache) contents() string             { return filepath.Join(c.cfg.Dir, "content") }
func (c *Cache) content(hash string) string   { return filepath.Join(c.contents(), hash) }
func (c *Cache) indexFile() string            { return filepath.Join(c.cfg.Dir, "sources.json") }
func (c *Cache) scratch() string              { return filepath.Join(c.cfg.Dir, "new") }
func (c *Cache) temporary() (*os.File, error) { return os.CreateTemp(c.scratch(), "*") }

// Trim evicts unused files, least recently used first, until the given number of bytes is freed
// or only files in use are left. It returns how many bytes it freed.
func (c *Cache) Trim(bytes int64) (freed int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.index.bytes
	evicted := c.index.trim(bytes)
	c.stats.Evicted += uint64(len(evicted))
	return before - c.index.bytes, c.remove(evicted)
}

// acquire returns a source's content and its hash, and fetches the source if needed. The content is
// not evicted until release is called.
func (c *Cache) acquire(ctx context.Context, s source) (hash string, held *content, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hash = c.index.find(s.name(), s.version())
	counted := &c.stats.Hits
	for {
		if held := c.index.pin(hash); held != nil {
			*counted++
			return hash, held, nil
		}
		// It is not in the cache, or was evicted after the fetch.
		counted = &c.stats.Misses
		f := c.join(s)
		c.mu.Unlock()
		err := c.wait(ctx, f)
		c.mu.Lock()
		if err != nil {
			return "", nil, err
		}
		hash = f.hash
	}
}

// join returns the fetch of a source. It starts one unless one is in progress.
func (c *Cache) join(s source) *flight {
	key := s.flight()
	f := c.flights[key]
	if f == nil {
		ctx, cancel := context.WithCancel(c.life)
		f = &flight{done: make(chan struct{}), cancel: cancel}
		if err := ctx.Err(); err != nil {
			// The cache is closed. Close may already have waited for the last task, so start
			// none.
			f.err = err
			close(f.done)
			return f
		}
		c.flights[key] = f
		fetch := s.fetch(c)
		c.tasks.Go(func() {
			defer cancel()
			hash, err := fetch(ctx)
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.flights[key] == f {
				delete(c.flights, key)
			}
			f.hash, f.err = hash, err
			close(f.done)
		})
	}
	f.waiting++
	return f
}

// wait waits for a fetch, which is cancelled when no job waits for it any more.
func (c *Cache) wait(ctx context.Context, f *flight) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.cancel()
		// The next job starts a new fetch.
		maps.DeleteFunc(c.flights, func(_ string, other *flight) bool { return other == f })
	}
	return ctx.Err()
}

func (c *Cache) release(held *content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index.unpin(held)
	c.free()
}

// free wakes the fetches that wait for room.
func (c *Cache) free() {
	close(c.freed)
	c.freed = make(chan struct{})
}

// reserve waits until there is room for the given number of bytes, and reserves that room.
func (c *Cache) reserve(ctx context.Context, size int64) error {
	for {
		c.mu.Lock()
		evicted, ok := c.index.reserve(size)
		freed := c.freed
		if ok {
			c.stats.Evicted += uint64(len(evicted))
			err := c.remove(evicted)
			c.mu.Unlock()
			return err
		}
		c.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// remove removes contents that the index has dropped.
func (c *Cache) remove(hashes []string) error {
	var errs []error
	for _, hash := range hashes {
		if err := os.Remove(c.content(hash)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// cancel frees reserved room.
func (c *Cache) cancel(size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index.cancel(size)
	c.free()
}

// keep moves a fully read file into the cache. Its room is already reserved.
func (c *Cache) keep(file string, size int64, hash, name, version string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.free()
	if err := os.Rename(file, c.content(hash)); err != nil {
		c.index.cancel(size)
		return err
	}
	c.index.add(hash, size)
	c.index.learn(name, version, hash)
	c.save()
	return nil
}

// drop deletes a damaged content, unless it was already dropped.
func (c *Cache) drop(hash string, damaged *content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.free()
	if c.index.contents[hash] != damaged {
		return
	}
	c.stats.Damaged++
	c.index.drop(hash)
	if err := c.remove([]string{hash}); err != nil {
		c.cfg.Logger.Warn("damaged cached file not removed", "file", c.content(hash), "error", err)
	}
}
