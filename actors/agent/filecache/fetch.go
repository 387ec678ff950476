package filecache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// source is a path or a URL that a file comes from.
type source interface {
	// name is the key under which the source is remembered. version describes its content
	// without reading it; empty: unknown.
	name() string
	version() string
	// flight is the key of the fetch that jobs share when they want the same source at once.
	flight() string
	// fetch returns a function that gets the file into the cache, if it is not there, and
	// returns the hash of its content. The function must be called.
	fetch(c *Cache) func(ctx context.Context) (string, error)
	close()
}

// open opens a source with the rights of a user; nil: the agent's own.
func open(from string, as *proxyproto.User) (source, error) {
	if strings.Contains(from, "://") {
		at, err := url.Parse(from)
		if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
			return nil, fmt.Errorf("%.100q: %w: a URL must begin with http:// or https://", from, ErrSource)
		}
		return &remote{at: at}, nil
	}
	if !filepath.IsAbs(from) {
		return nil, fmt.Errorf("%.100q: %w: must be an absolute path or a URL", from, ErrSource)
	}
	file, err := openAs(from, as)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", from, ErrSource, reason(err))
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a regular file")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w: %w", from, ErrSource, err), file.Close())
	}
	return &local{path: filepath.Clean(from), file: file, info: info}, nil
}

// reason returns the system error without the path.
func reason(err error) error {
	if system, ok := errors.AsType[unix.Errno](err); ok {
		return system
	}
	return err
}

// local is a file on a path of the node.
type local struct {
	path string
	file *os.File
	info fs.FileInfo
}

func (l *local) name() string   { return l.path }
func (l *local) flight() string { return l.path + "\x00" + l.version() }
func (l *local) close()         { _ = l.file.Close() }

// version implements source. It includes the inode and the change time, because another file
// may have the same size and modification time.
func (l *local) version() string {
	text := versionOf(l.info)
	if of, ok := l.info.Sys().(*syscall.Stat_t); ok {
		text += fmt.Sprintf(", file %d, touched %d.%09d", of.Ino, of.Ctim.Sec, of.Ctim.Nsec)
	}
	return text
}

func versionOf(info fs.FileInfo) string {
	return fmt.Sprintf("%d bytes of %s", info.Size(), info.ModTime().UTC().Format("2006-01-02T15:04:05.999999999Z"))
}

// fetch implements source. It duplicates the file, because the fetch may outlive the job that
// started it.
func (l *local) fetch(c *Cache) func(context.Context) (string, error) {
	number, err := unix.FcntlInt(l.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	return func(ctx context.Context) (string, error) {
		if err != nil {
			return "", fmt.Errorf("read %s: %w", l.path, err)
		}
		file := os.NewFile(uintptr(number), l.path)
		hash, err := l.read(ctx, c, file)
		return hash, errors.Join(err, file.Close())
	}
}

func (l *local) read(ctx context.Context, c *Cache, file *os.File) (string, error) {
	t := taking{cache: c, name: l.path, known: l.info.Size()}
	defer t.discard()
	if err := t.take(ctx, file); err != nil {
		return "", err
	}
	after, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("read %s: %w", l.path, err)
	}
	if versionOf(after) != versionOf(l.info) || t.size != l.info.Size() {
		return "", fmt.Errorf("%s: %w: changed while being read: from %s to %s", l.path, ErrSource, versionOf(l.info), versionOf(after))
	}
	return t.keep(l.path, l.version())
}

// taking is a file being read into the cache.
type taking struct {
	cache *Cache
	// name is for people. known is the expected size; -1 if the size is unknown until the end.
	name  string
	known int64

	file     *os.File
	size     int64
	reserved int64
	hash     string
}

// take reads a file to its end. It waits until there is room for the file: before reading, or
// after it if the size is unknown.
func (t *taking) take(ctx context.Context, from io.Reader) error {
	err := t.check()
	if err == nil && t.known >= 0 {
		err = t.reserve(ctx, t.known)
	}
	if err == nil {
		t.file, err = t.cache.temporary()
	}
	if err != nil {
		return err
	}
	sum, buffer := sha256.New(), make([]byte, 256<<10)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := from.Read(buffer)
		t.size += int64(n)
		if err := t.check(); err != nil {
			return err
		}
		sum.Write(buffer[:n])
		if _, err := t.file.Write(buffer[:n]); err != nil {
			return fmt.Errorf("cache %s: %w", t.name, err)
		}
		if errors.Is(err, io.EOF) {
			t.hash = hex.EncodeToString(sum.Sum(nil))
			return t.reserve(ctx, t.size)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", t.name, err)
		}
	}
}

// check returns an error for a file that is larger than the cache, or than expected.
func (t *taking) check() error {
	limit := t.cache.cfg.Limit
	switch {
	case t.known > limit:
		return fmt.Errorf("%s: %w: it has %d bytes, but the file cache of the node holds %d (--file-cache-size)", t.name, ErrSource, t.known, limit)
	case t.known >= 0 && t.size > t.known:
		return fmt.Errorf("%s: %w: changed while being read: expected %d bytes, found more", t.name, ErrSource, t.known)
	case t.size > limit:
		return fmt.Errorf("%s: %w: it has more than %d bytes, but the file cache of the node holds %d (--file-cache-size)", t.name, ErrSource, limit, limit)
	}
	return nil
}

// reserve waits until room for size bytes of the file is reserved.
func (t *taking) reserve(ctx context.Context, size int64) error {
	if size <= t.reserved {
		return nil
	}
	err := t.cache.reserve(ctx, size-t.reserved)
	if err == nil {
		t.reserved = size
	}
	return err
}

// keep moves the file into the cache.
func (t *taking) keep(name, version string) (string, error) {
	if err := t.file.Chmod(0o400); err != nil {
		return "", fmt.Errorf("cache %s: %w", t.name, err)
	}
	t.reserved = 0
	if err := t.cache.keep(t.file.Name(), t.size, t.hash, name, version); err != nil {
		return "", fmt.Errorf("cache %s: %w", t.name, err)
	}
	return t.hash, nil
}

// discard removes the temporary file and frees its room, unless the file was kept.
func (t *taking) discard() {
	if t.file != nil {
		_ = t.file.Close()
		_ = os.Remove(t.file.Name())
	}
	if t.reserved > 0 {
		t.cache.cancel(t.reserved)
		t.reserved = 0
	}
}
