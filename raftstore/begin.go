package raftstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"weir/raftstore/recordlog"
)

// makeLog creates an empty log if there is none. A crash leaves either a complete log or none. If
// the replica has been part of a cluster, a missing log is an error.
func makeLog(dir string, id Identity) error {
	path := filepath.Join(dir, logFile)
	switch info, err := os.Stat(path); {
	case err == nil && info.Size() > 0:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", ErrDisk, err)
	case id.Began:
		return damaged(dir, fmt.Errorf("%s is missing or empty, but the replica has been part of a cluster", logFile))
	}
	if err := removeFile(path); err != nil {
		return err
	}
	if err := putLog(dir, path); err != nil {
		return fmt.Errorf("%w: make %s: %w", ErrDisk, path, err)
	}
	return nil
}

// putLog creates a log in a temporary folder and links it to path. A link does not
// replace a log that another process has put there meanwhile.
func putLog(dir, path string) (err error) {
	making, err := os.MkdirTemp(dir, logFile+".*"+tmpSuffix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(making)) }()
	tmp := filepath.Join(making, logFile)
	bolt, err := openBolt(tmp)
	if err != nil {
		return err
	}
	if err := bolt.Close(); err != nil {
		return err
	}
	if err := os.Link(tmp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return recordlog.SyncDir(dir)
}

// sweepLogs removes temporary logs left by a crash. The caller has the log open, so another process
// that is still creating a temporary log can no longer link it to the log's path.
func sweepLogs(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, logFile+"*"+tmpSuffix))
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	return nil
}

// removeFile removes a file, if the file exists.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	return nil
}

// bootstrap writes the first log entry of a new cluster, which lists its voters, if the folder is
// empty. Every founder writes the same entry, so one founder is enough. bootstrap reports whether
// it wrote the entry.
func (d *disk) bootstrap(peers []Peer) (bool, error) {
	kept, err := d.snapshots.List()
	if err != nil {
		return false, fmt.Errorf("bootstrap: %w", err)
	}
	last, err := d.LastIndex()
	if err != nil {
		return false, fmt.Errorf("bootstrap: %w", err)
	}
	switch {
	case len(peers) == 0 || len(kept) > 0 || last > 1:
		return false, nil
	case last == 1:
		return false, d.checkFounders(peers)
	}
	var configuration raft.Configuration
	for _, p := range peers {
		configuration.Servers = append(configuration.Servers, raft.Server{ID: raft.ServerID(p.ID), Address: raft.ServerAddress(p.Address)})
	}
	if err := d.remember(func(id *Identity) { id.Founders = listOf(configuration) }); err != nil {
		return false, fmt.Errorf("bootstrap: %w", err)
	}
	// A term is already stored if the replica crashed at this point before, or voted before it knew
	// its peers.
	if d.term.value.Load() == 0 {
		if err := d.SetUint64(keyTerm, 1); err != nil {
			return false, fmt.Errorf("bootstrap: %w", err)
		}
	}
	first := &raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(configuration)}
	if err := d.StoreLogs([]*raft.Log{first}); err != nil {
		return false, fmt.Errorf("bootstrap: %w", err)
	}
	return true, nil
}

// checkFounders rejects peers whose ids differ from those in the log's only entry: the
// replica crashed right after it wrote that entry, and was restarted with another list.
// Addresses may differ.
func (d *disk) checkFounders(peers []Peer) error {
	var first raft.Log
	if err := d.GetLog(1, &first); errors.Is(err, raft.ErrLogNotFound) || err == nil && first.Type != raft.LogConfiguration {
		return nil
	} else if err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	founders := raft.DecodeConfiguration(first.Data)
	same := len(founders.Servers) == len(peers)
	for _, p := range peers {
		_, listed := find(founders, p.ID)
		same = same && listed
	}
	if same {
		return nil
	}
	return fmt.Errorf("%w: the log in %s was bootstrapped with the peers %s, but the configured peers differ: start the replica with the peers in the log, or with an empty folder",
		ErrForeign, d.dir, listOf(founders))
}

// listOf returns the replicas of a configuration as id=address, separated by commas.
func listOf(configuration raft.Configuration) string {
	var entries []string
	for _, s := range configuration.Servers {
		entries = append(entries, string(s.ID)+"="+string(s.Address))
	}
	slices.Sort(entries)
	return strings.Join(entries, ",")
}
