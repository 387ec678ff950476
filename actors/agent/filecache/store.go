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

// remembered is what a cache remembers of an earlier life.
type remembered struct {
	Sources map[string]seen `json:"sources"`
	// Used are the contents, the one that was not used for longest first.
	Used []string `json:"used"`
}

// load finds what is there. What it remembers is a hint: each content is checked when it
// is placed, and what is not known is read again.
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
	// In the order of their use; those of which that is not known first.
	used := map[string]int{}
	for i, hash := range kept.Used {
		used[hash] = i + 1
	}
	slices.SortStableFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(used[a.Name()], used[b.Name()]) })
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && (!isHash(entry.Name()) || !info.Mode().IsRegular()) {
			err = fmt.Errorf("%s is not a file cache: give it its own folder", filepath.Join(c.contents(), entry.Name()))
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

// takeLock keeps other processes away from the folder, for as long as this one lives.
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

// adopt takes a content of an earlier life, in whose time there may have been more room.
func (c *Cache) adopt(hash string, size int64) error {
	evicted, ok := c.index.reserve(size)
	if !ok {
		return c.remove([]string{hash})
	}
	c.index.add(hash, size)
	return c.remove(evicted)
}

// save writes down what another life is to remember. Without it files are fetched again.
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
