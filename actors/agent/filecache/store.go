package filecache

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// remembered is the state that a cache saves for the next process.
type remembered struct {
	Sources map[string]seen `json:"sources"`
	// Used are the hashes of the contents, least recently used first.
	Used []string `json:"used"`
}

// load loads the contents of the folder and the saved state. That state is only a hint: each
// content is checked when it is placed, and an unknown source is read again.
func (c *Cache) load() error {
	if err := os.MkdirAll(c.cfg.Dir, 0o700); err != nil {
		return err
	}
	if err := c.takeLock(); err != nil {
		return err
	}
	if err := os.RemoveAll(c.scratch()); err != nil {
		return err
	}
	for _, dir := range []string{c.contents(), c.scratch()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	var kept remembered
	data, err := os.ReadFile(c.indexFile())
	if err == nil {
		err = json.Unmarshal(data, &kept)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.cfg.Logger.Warn("file cache index lost; files will be fetched again", "dir", c.cfg.Dir, "error", err)
		kept = remembered{}
	}
	entries, err := os.ReadDir(c.contents())
	if err != nil {
		return err
	}
	// Order by last use. Contents without a known use come first.
	used := map[string]int{}
	for i, hash := range kept.Used {
		used[hash] = i + 1
	}
	slices.SortStableFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(used[a.Name()], used[b.Name()]) })
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && (!isHash(entry.Name()) || !info.Mode().IsRegular()) {
			err = fmt.Errorf("%s does not belong to a file cache: give the cache its own folder", filepath.Join(c.contents(), entry.Name()))
		}
		if err == nil {
			err = c.adopt(entry.Name(), info.Size())
		}
		if err != nil {
			return err
		}
	}
	for name, s := range kept.Sources {
		c.index.learn(name, s.Version, s.Hash)
	}
	return nil
}

// takeLock locks the folder against other processes for as long as this one lives.
func (c *Cache) takeLock() error {
	file, err := os.OpenFile(filepath.Join(c.cfg.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrInUse
		}
		return errors.Join(err, file.Close())
	}
	c.lock = file
	return nil
}

// adopt adds a content of an earlier process. That process may have had a larger limit: contents
// for which there is no room are deleted.
func (c *Cache) adopt(hash string, size int64) error {
	evicted, ok := c.index.reserve(size)
	if !ok {
		return c.remove([]string{hash})
	}
	c.index.add(hash, size)
	return c.remove(evicted)
}

// save saves the state for the next process. Without it files are fetched again.
func (c *Cache) save() {
	data, err := json.Marshal(remembered{Sources: c.index.sources, Used: c.index.byUse()})
	if err == nil {
		err = os.WriteFile(c.indexFile()+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(c.indexFile()+".new", c.indexFile())
	}
	if err != nil {
		c.cfg.Logger.Warn("file cache index not saved", "dir", c.cfg.Dir, "error", err)
	}
}

func isHash(name string) bool {
	return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == ""
}
