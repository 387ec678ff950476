package raftstore

import (
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"weir/raftstore/state"
)

const (
	// shelfFile is the name that a file of a shelf has for a moment.
	shelfFile = "shelf"
	// shelfBytes is from how many bytes on a file of a shelf does not grow.
	shelfBytes = 16 << 20
)

// shelf keeps the records of ended operations in files without names, which are gone with the process: the next one has
// the records from the snapshot and the log. What cannot be written stays in memory. Only the goroutine that changes
// the state puts records there.
type shelf struct {
	dir string
	log *slog.Logger
	// fatal ends the process: see Config.Fatal.
	fatal func(error)
	// file is the one that grows, nil before the first record, and size how much it has.
	file *os.File
	size int64
	// failing is set after a write has failed, until one does not.
	failing bool
}

// Put implements state.Shelf.
func (s *shelf) Put(record []byte) state.Shelved {
	at, err := s.put(record)
	if err != nil {
		if !s.failing {
			s.log.Warn("ended operations stay in memory", "dir", s.dir, "error", err)
		}
		s.failing, s.file = true, nil
		return state.Held(record)
	}
	s.failing = false
	return at
}

func (s *shelf) put(record []byte) (*shelved, error) {
	if s.file == nil || s.size >= shelfBytes {
		name := filepath.Join(s.dir, shelfFile)
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return nil, err
		}
		if err := os.Remove(name); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		// The file before is closed, and its space is free, when the last record in it is garbage.
		s.file, s.size = file, 0
	}
	if _, err := s.file.WriteAt(record, s.size); err != nil {
		return nil, err
	}
	at := &shelved{fatal: s.fatal, file: s.file, offset: s.size, size: uint32(len(record)), sum: crc32.Checksum(record, castagnoli)}
	s.size += int64(len(record))
	return at, nil
}

// shelved is a record in a file.
type shelved struct {
	fatal     func(error)
	file      *os.File
	offset    int64
	size, sum uint32
}

// Read implements state.Shelved. If the disk does not return what was written, the process ends: it has to start again.
func (s *shelved) Read(buffer []byte) []byte {
	record := slices.Grow(buffer[:0], int(s.size))[:s.size]
	_, err := s.file.ReadAt(record, s.offset)
	if sum := crc32.Checksum(record, castagnoli); err == nil && sum != s.sum {
		err = fmt.Errorf("stored checksum %08x, computed %08x", s.sum, sum)
	}
	if err != nil {
		err = fmt.Errorf("read %d bytes of an ended operation at %d: %w", s.size, s.offset, err)
		s.fatal(err)
		panic(err)
	}
	return record
}
