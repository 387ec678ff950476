package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weir/actors/agent/filecache"
	"weir/actors/agent/journal"
	"weir/actors/agent/runner"
	"weir/cluster/gossip"
	"weir/cluster/identity"
	"weir/messages/versions"
	"weir/raftstore"
)

func newBackupCommand(f *clientFlags) *cobra.Command {
	var path string
	var force bool
	cmd := &cobra.Command{
		Use:   "backup -f FILE",
		Short: "Write the state of the cluster to a file",
		Long: `Write the state of the cluster to a file: pools, operations in progress and
finished, nodes and running jobs, all as of one point in time after the call began.
The cluster keeps working. The file has checksums and is verified before it gets its
name. The command needs operator credentials.`,
		Example: "  weir cluster backup -f weir.backup",
		RunE: f.verb(func(ctx context.Context, s *session, _ []string) error {
			if err := writable(path, force); err != nil {
				return &exitError{exitUsage, err}
			}
			info, err := backUp(ctx, s, path)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.out, "%s: %s\n", path, backupText(info))
			return err
		}),
	}
	cmd.Flags().StringVarP(&path, "file", "f", "", "file to write")
	cmd.Flags().BoolVar(&force, "force", false, "overwrite an existing file, once the backup is complete")
	needs(cmd, "file")
	return cmd
}

// writable checks that a backup can be written to path, before the cluster is asked for one.
func writable(path string, force bool) error {
	if folder, err := os.Stat(filepath.Dir(path)); err != nil || !folder.IsDir() {
		return fmt.Errorf("cluster backup: %s: no folder %s", path, filepath.Dir(path))
	}
	switch file, err := os.Lstat(path); {
	case err != nil:
		return nil
	case file.IsDir():
		return fmt.Errorf("cluster backup: %s is a folder: name a file", path)
	case !force:
		return fmt.Errorf("cluster backup: %s already exists: name another file, or replace it with --force", path)
	}
	return nil
}

// backUp writes a backup to path. It replaces an existing file only once the new one is
// verified.
func backUp(ctx context.Context, s *session, path string) (info raftstore.BackupInfo, err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-")
	if err != nil {
		return info, fmt.Errorf("cluster backup: %w", err)
	}
	defer func() {
		_ = file.Close()
		// After a successful rename there is nothing left to remove.
		_ = os.Remove(file.Name())
	}()
	begin := func() error {
		_, err := file.Seek(0, io.SeekStart)
		return errors.Join(err, file.Truncate(0))
	}
	if err := s.Backup(ctx, file, begin); err != nil {
		return info, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return info, fmt.Errorf("cluster backup: %w", err)
	}
	if info, err = raftstore.CheckBackup(file); err != nil {
		return info, err
	}
	if err = errors.Join(file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return info, fmt.Errorf("cluster backup: %w", err)
	}
	return info, nil
}

func backupText(info raftstore.BackupInfo) string {
	return fmt.Sprintf("cluster %s at log index %d: %d operations, %d running jobs, %d bytes", info.Cluster, info.Index, info.Operations, info.Allocations, info.Bytes)
}

// restoreFlags holds the flags of weir cluster restore.
type restoreFlags struct {
	security
	file, data, id, address string
}

func newRestoreCommand() *cobra.Command {
	var f restoreFlags
	cmd := &cobra.Command{
		Use:   "restore -f FILE --data DIR --id REPLICA --address HOST:PORT",
		Short: "Create the first replica of a new cluster from a backup",
		Long: `Create the folder of a replica from a backup. It needs no running cluster. The replica
started on the folder is the only member of a cluster with the pools, operations and
archive of the backup; add others as usual. Jobs that were running when the backup was
taken are aborted and rerun if their nodes do not come back
within a lease.

The old cluster must be stopped: otherwise both would run the same operations.`,
		Example: `  weir cluster restore -f weir.backup --data /var/lib/weir --id r1 --address host1:7701 --credentials certs/replica-r1
  weir server --id r1 --peers r1=host1:7701 --data /var/lib/weir --credentials certs/replica-r1`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, err := f.restore()
			if err != nil {
				return coded(err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s holds replica %s: %s\n", f.data, f.id, backupText(info))
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.data, "data", "", "folder of the replica, empty or not yet existing")
	flags.StringVar(&f.id, "id", "", "name of the replica")
	flags.StringVar(&f.address, "address", "", "host:port at which others will reach the replica")
	f.security.register(flags)
	flags.StringVarP(&f.file, "file", "f", "", "backup to read")
	needs(cmd, "file", "data", "id", "address")
	return cmd
}

func (f *restoreFlags) restore() (raftstore.BackupInfo, error) {
	if host, port, err := net.SplitHostPort(f.address); err != nil || host == "" || port == "" {
		return raftstore.BackupInfo{}, &exitError{exitUsage, fmt.Errorf("--address %q: must be host:port, as others reach the replica", f.address)}
	}
	if entries, err := os.ReadDir(raftDir(f.data)); err == nil && len(entries) > 0 {
		return raftstore.BackupInfo{}, &exitError{exitUsage, fmt.Errorf("cluster restore: %s is not empty: name another folder, or move that one away", raftDir(f.data))}
	}
	protection, err := f.security.load(identity.Replica, f.id, slog.Default())
	if err != nil {
		return raftstore.BackupInfo{}, err
	}
	file, err := os.Open(f.file)
	if err != nil {
		return raftstore.BackupInfo{}, &exitError{exitUsage, fmt.Errorf("cluster restore: %w", err)}
	}
	defer file.Close()
	return raftstore.Restore(file, raftstore.Founder{Dir: raftDir(f.data), Cluster: protection.cluster, ID: f.id, Address: f.address})
}

// raftDir returns the folder of a replica's log and snapshots.
func raftDir(data string) string { return filepath.Join(data, "raft") }

// fatal maps the errors that end a replica or agent to their exit codes.
var fatal = []struct {
	code int
	errs []error
}{
	{exitDiverged, []error{raftstore.ErrDiverged}},
	{exitForeignData, []error{
		gossip.ErrRival, raftstore.ErrForeign, raftstore.ErrUnreadable, raftstore.ErrSnapshotFormat, versions.ErrNewer, journal.ErrForeign, runner.ErrInUse, filecache.ErrInUse,
	}},
	{exitDamaged, []error{raftstore.ErrDamaged, raftstore.ErrSnapshotDamaged, journal.ErrDamaged}},
	{exitRemoved, []error{errRemoved}},
	{exitDisk, []error{raftstore.ErrDisk, journal.ErrDisk, journal.ErrFull}},
}

// coded attaches the exit code to an error that fatal lists.
func coded(err error) error {
	var already *exitError
	if errors.As(err, &already) {
		return err
	}
	for _, f := range fatal {
		if slices.ContainsFunc(f.errs, func(known error) bool { return errors.Is(err, known) }) {
			return &exitError{f.code, err}
		}
	}
	return err
}

// farewell bounds how long a replica whose disk failed waits for its last log line: the log may
// be on the same disk.
const farewell = 200 * time.Millisecond

// failStop exits the process at once: after a failed write its state cannot be trusted, and
// an orderly stop would wait for the disk.
func failStop(log *slog.Logger, err error) {
	lastWords(log, os.Stderr, err)
	os.Exit(codeOf(coded(err)))
}

// lastWords says why the process exits, and takes no longer than farewell. Many goroutines may wait for the log, so
// it comes second.
func lastWords(log *slog.Logger, to io.Writer, err error) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		fmt.Fprintln(to, "weir:", err)
		log.Error("exiting at once: the state on disk may be wrong", "error", err)
	}()
	select {
	case <-said:
	case <-time.After(farewell):
	}
}
