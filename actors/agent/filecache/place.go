package filecache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// File is a file for a job's workspace.
type File struct {
	// Source is an absolute path, or an http or https URL.
	Source string
	// Path is relative to the workspace.
	Path       string
	Executable bool
}

// errDamaged is returned for a content that no longer matches its hash.
var errDamaged = errors.New("is damaged")

// Place puts files into a folder that nothing else writes to, one after the other. Files of the
// node are read with the rights of a user; nil: the agent's own. After an error, files already
// placed stay there.
func (c *Cache) Place(ctx context.Context, folder string, as *proxyproto.User, files []File) error {
	for _, file := range files {
		if err := c.place(ctx, folder, as, file); err != nil {
			return fmt.Errorf("place file %q: %w", file.Path, err)
		}
	}
	return nil
}

func (c *Cache) place(ctx context.Context, folder string, as *proxyproto.User, file File) error {
	if !filepath.IsLocal(file.Path) || filepath.Clean(file.Path) == "." {
		return fmt.Errorf("%w: the path must be within the workspace", ErrSource)
	}
	path := filepath.Join(folder, file.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o444)
	if file.Executable {
		mode = 0o555
	}
	from, err := open(file.Source, as)
	if err != nil {
		return err
	}
	defer from.close()
	for {
		hash, held, err := c.acquire(ctx, from)
		if err != nil {
			return err
		}
		err = c.copyTo(ctx, hash, path, mode)
		c.release(held)
		if err == nil && file.Executable {
			return awaitWriters(ctx, path, execPatience)
		}
		if !errors.Is(err, errDamaged) {
			return err
		}
		c.cfg.Logger.Warn("damaged cached file; fetching it again", "file", c.content(hash), "error", err)
		c.drop(hash, held)
	}
}

// copyTo copies a content for a job, and checks its hash on the way.
func (c *Cache) copyTo(ctx context.Context, hash, path string, mode os.FileMode) error {
	content, err := os.Open(c.content(hash))
	if err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	defer content.Close()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(file, sum), &cancelled{ctx, content})
	if err == nil {
		// The umask may have cleared bits of the mode.
		err = file.Chmod(mode)
	}
	err = errors.Join(err, file.Close())
	if got := hex.EncodeToString(sum.Sum(nil)); err == nil && got != hash {
		err = fmt.Errorf("%w: content hash is %s", errDamaged, got)
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

const (
	// execPatience is how long to wait for processes between their fork and their exec. The program
	// to execute may be on a slow disk.
	execPatience = 10 * time.Second
	// writersPause is the time between two checks whether a file is open for writing.
	writersPause = 100 * time.Microsecond
)

// awaitWriters waits, up to patience, until no process has a file open for writing. A file that is
// open for writing cannot be executed (ETXTBSY). A process that the agent forks has the agent's
// files open until its exec.
func awaitWriters(ctx context.Context, path string, patience time.Duration) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	// The kernel grants a read lease only if no process has the file open for writing. Some file
	// systems have no leases.
	for deadline := time.Now().Add(patience); ctx.Err() == nil && time.Now().Before(deadline); {
		if _, err = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_RDLCK); !errors.Is(err, unix.EAGAIN) {
			return nil
		}
		select {
		case <-time.After(writersPause):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// cancelled reads until a context is done.
type cancelled struct {
	ctx  context.Context
	from io.Reader
}

// Read implements io.Reader.
func (r *cancelled) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}
