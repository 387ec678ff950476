package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"syscall"
	"time"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// lockPause is the pause between attempts to lock the log file.
const lockPause = 50 * time.Millisecond

// openBolt opens a log file, or creates it, and rejects a damaged one. bbolt scans the file in its
// own goroutine, whose panics cannot be recovered, so the whole file is checked first.
func openBolt(path string) (*raftboltdb.BoltStore, error) {
	dir := filepath.Dir(path)
	if err := checkRoots(path); err != nil {
		return nil, err
	}
	if err := checkTree(path); err != nil {
		return nil, err
	}
	var bolt *raftboltdb.BoltStore
	var opened error
	err := guard(func() error {
		bolt, opened = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{
			Timeout: openTimeout,
			// A log that is cut at the front leaves many free pages; writing their
			// list with every entry would cost more than finding them at start.
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
		}})
		return nil
	})
	if err != nil {
		return nil, damaged(dir, fmt.Errorf("%s: %w", logFile, err))
	}
	return bolt, explainBolt(path, opened)
}

// explainBolt converts an error from opening a log file into one that says what to do.
func explainBolt(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("%w: open %s: in use by another process: stop it first", ErrDisk, path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return damaged(filepath.Dir(path), fmt.Errorf("%s: %w", logFile, err))
	}
	return fmt.Errorf("%w: open %s: %w", ErrDisk, path, err)
}

// checkRoots rejects a log file if either of its two meta pages is damaged. The other one may be
// older, and falling back to it would lose writes that this replica has acknowledged. A crash does
// not leave a partial meta page, because its content fits into one disk sector. checkRoots also
// rejects a file that is shorter than its meta pages say. A shared lock keeps writers out
// meanwhile.
func checkRoots(path string) error {
	// The content of a meta page comes after the page's header, and ends with its checksum.
	const rootAt, rootSize, pageSizeAt, pagesAt = 16, 56, 8, 40
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	defer file.Close()
	if err := share(file); err != nil {
		return explainBolt(path, err)
	}
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	for page := range 2 {
		root := make([]byte, rootSize+8)
		if _, err := file.ReadAt(root, int64(page*os.Getpagesize()+rootAt)); err != nil {
			return damaged(filepath.Dir(path), fmt.Errorf("%s: meta page %d: %w", logFile, page, err))
		}
		sum := fnv.New64a()
		_, _ = sum.Write(root[:rootSize])
		if stored := binary.LittleEndian.Uint64(root[rootSize:]); stored != sum.Sum64() {
			return damaged(filepath.Dir(path), fmt.Errorf("%s: meta page %d: stored checksum %016x, computed %016x", logFile, page, stored, sum.Sum64()))
		}
		size := uint64(binary.LittleEndian.Uint32(root[pageSizeAt:])) * binary.LittleEndian.Uint64(root[pagesAt:])
		if uint64(info.Size()) < size {
			return damaged(filepath.Dir(path), fmt.Errorf("%s: meta page %d: %d bytes in use, but the file has %d", logFile, page, size, info.Size()))
		}
	}
	return nil
}

// share takes a shared lock on a log file, so that no process writes to it until file is closed. It
// waits up to openTimeout for a writer to release the lock.
func share(file *os.File) error {
	for given := time.Now().Add(openTimeout); ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		if time.Now().After(given) {
			return bolterrors.ErrTimeout
		}
		time.Sleep(lockPause)
	}
}

// checkTree reads every page and every entry of a log file, if it exists.
func checkTree(path string) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var opened error
	err := guard(func() (err error) {
		var db *bbolt.DB
		if db, opened = bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: openTimeout}); opened != nil {
			return nil
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		return db.View(func(tx *bbolt.Tx) error {
			return tx.ForEach(func(_ []byte, bucket *bbolt.Bucket) error {
				return bucket.ForEach(func(key, value []byte) error {
					_ = valueSum(key, value)
					return nil
				})
			})
		})
	})
	if err != nil {
		return damaged(filepath.Dir(path), fmt.Errorf("%s: %w", logFile, err))
	}
	return explainBolt(path, opened)
}
