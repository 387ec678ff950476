package main

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/raftstore"
)

// TestBackupIsRefusedAtOnce where it could not be written, or would replace a file that
// somebody may need.
func TestBackupIsRefusedAtOnce(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	if err := os.WriteFile(there, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		path  string
		force bool
		want  string
	}{
		"a new file":                     {filepath.Join(dir, "new"), false, ""},
		"a file that is there":           {there, false, there + " already exists: name another file, or replace it with --force"},
		"a file that is there, by force": {there, true, ""},
		"a folder, by force":             {dir, true, dir + " is a folder: name a file"},
		"in a folder that is missing":    {filepath.Join(dir, "no", "new"), false, "no folder " + filepath.Join(dir, "no")},
		"below a file":                   {filepath.Join(there, "new"), false, "no folder " + there},
	} {
		t.Run(name, func(t *testing.T) {
			err := writable(test.path, test.force)
			if (err == nil) != (test.want == "") || err != nil && (!strings.HasSuffix(err.Error(), test.want) || !strings.Contains(err.Error(), test.path)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestRestoreNeedsAnEmptyFolder and says so as what it is, a wrong argument.
func TestRestoreNeedsAnEmptyFolder(t *testing.T) {
	data := t.TempDir()
	if err := os.MkdirAll(filepath.Join(raftDir(data), "log"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := (&restoreFlags{data: data, id: "r1", address: "h:1", file: "none"}).restore()
	var coded *exitError
	if !errors.As(err, &coded) || coded.code != exitUsage || !strings.Contains(err.Error(), raftDir(data)+" is not empty") {
		t.Errorf("got %v", err)
	}
}

// fullLog takes no line, as one that many wait for.
type fullLog struct{ free chan struct{} }

func (l fullLog) Write(line []byte) (int, error) {
	<-l.free
	return len(line), nil
}

// TestLastWordsDoNotWaitForTheLog of a replica that exits since its disk hangs: chaos runs know it by these words.
func TestLastWordsDoNotWaitForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := fullLog{make(chan struct{})}
		var said bytes.Buffer
		began := time.Now()
		lastWords(slog.New(slog.NewTextHandler(log, nil)), &said, raftstore.ErrDisk)
		if took := time.Since(began); took != farewell {
			t.Errorf("took %v, want %v", took, farewell)
		}
		synctest.Wait()
		if want := "weir: " + raftstore.ErrDisk.Error() + "\n"; said.String() != want {
			t.Errorf("said %q, want %q", said.String(), want)
		}
		close(log.free)
	})
}
