package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime/debug"
	"slices"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// Everything on disk is covered by checksums. The checksum that seal adds also covers an entry's
// index, term and kind, which the checksum of the data leaves out. The stored term and vote have
// checksums too.

const sealSize = crc32.Size

// seal returns the entry as it is stored: with its checksum appended to the extensions.
func seal(entry *raft.Log) *raft.Log {
	sealed := *entry
	sealed.Extensions = binary.BigEndian.AppendUint32(slices.Clone(entry.Extensions), entrySum(entry))
	return &sealed
}

// unseal checks and removes the checksum of an entry that was read.
func unseal(entry *raft.Log) error {
	rest := len(entry.Extensions) - sealSize
	if rest < 0 {
		return fmt.Errorf("log entry at index %d has no checksum", entry.Index)
	}
	stored := binary.BigEndian.Uint32(entry.Extensions[rest:])
	if entry.Extensions = entry.Extensions[:rest]; rest == 0 {
		entry.Extensions = nil
	}
	if computed := entrySum(entry); stored != computed {
		return fmt.Errorf("log entry at index %d of term %d, %d bytes: stored checksum %08x, computed %08x",
			entry.Index, entry.Term, len(entry.Data), stored, computed)
	}
	return nil
}

func entrySum(entry *raft.Log) uint32 {
	var head []byte
	for _, n := range []uint64{entry.Index, entry.Term, uint64(entry.Type), uint64(len(entry.Data))} {
		head = binary.BigEndian.AppendUint64(head, n)
	}
	sum := crc32.Checksum(head, castagnoli)
	sum = crc32.Update(sum, castagnoli, entry.Data)
	return crc32.Update(sum, castagnoli, entry.Extensions)
}

func valueSum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// Get implements raft.StableStore.
func (d *disk) Get(key []byte) ([]byte, error) {
	value, err := d.value(key)
	if errors.Is(err, ErrDamaged) {
		d.fail(err)
	}
	return value, err
}

func (d *disk) value(key []byte) ([]byte, error) {
	sealed, err := d.files.Get(key)
	if err != nil {
		return nil, err
	}
	rest := len(sealed) - sealSize
	if rest < 0 || binary.BigEndian.Uint32(sealed[rest:]) != valueSum(key, sealed[:rest]) {
		return nil, damaged(d.dir, fmt.Errorf("%s in %s: bad checksum", key, logFile))
	}
	return sealed[:rest], nil
}

// GetUint64 implements raft.StableStore.
func (d *disk) GetUint64(key []byte) (uint64, error) {
	value, err := d.Get(key)
	if err != nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, damaged(d.dir, fmt.Errorf("%s in %s: %d bytes instead of 8", key, logFile, len(value)))
	}
	return binary.BigEndian.Uint64(value), nil
}

// damaged returns the error for a damaged folder, which says what to do.
func damaged(dir string, err error) error {
	return fmt.Errorf("%w: %s: %w: move the folder away and restart the replica; the other replicas then rebuild it", ErrDamaged, dir, err)
}

// guard turns panics and memory faults of code that reads a damaged file into an error.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("cannot be read: %v", cause)
		}
	}()
	return f()
}

// checkLog reads the whole log and checks that every entry is present and intact. Entries that the
// snapshot covers may be missing: a lagging replica that received a snapshot continued after it,
// and kept the older entries that it had.
func (d *disk) checkLog(first uint64) error {
	err := guard(func() error {
		last, err := d.LastIndex()
		if err != nil {
			return err
		}
		for index := first; index != 0 && index <= last; index++ {
			var entry raft.Log
			if err := d.files.GetLog(index, &entry); errors.Is(err, raft.ErrLogNotFound) && index <= d.snapshots.newest {
				continue
			} else if err != nil {
				return fmt.Errorf("log entry %d (log has %d to %d): %w", index, first, last, err)
			}
			if entry.Index != index {
				return fmt.Errorf("log entry %d is stored with index %d", index, entry.Index)
			}
			if err := errors.Join(unseal(&entry), verify(&entry)); err != nil {
				return damaged(d.dir, fmt.Errorf("%s: %w", logFile, err))
			}
			d.sizes.add(index, sizeOf(&entry))
		}
		for _, key := range []string{"CurrentTerm", "LastVoteTerm", "LastVoteCand"} {
			if _, err := d.value([]byte(key)); err != nil && !errors.Is(err, raftboltdb.ErrKeyNotFound) {
				return err
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, ErrDamaged) {
		return damaged(d.dir, fmt.Errorf("%s: %w", logFile, err))
	}
	return err
}
