package storage_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/cluster/storage"
)

// TestFilesOfJobs keeps a file as a job does, and reads it as another one.
func TestFilesOfJobs(t *testing.T) {
	eachField(t, func(t *testing.T, f field) {
		destination, err := f.FileDestination(t.Context(), f.base+"/kept")
		must(t, err)
		f.write(destination, "what was kept")
		source, err := f.FileSource(t.Context(), f.base+"/kept")
		must(t, err)
		if got := fetch(t, source); got != "what was kept" {
			t.Errorf("read %q", got)
		}
	})
}

func TestFilesThatJobsMayNotHave(t *testing.T) {
	s := storage.New(storage.Config{Roots: []string{t.TempDir()}})
	for story, path := range map[string]string{"outside of the folders": "/etc/passwd", "another kind of store": "ftp://host/file", "no bucket": "s3:///key"} {
		if source, err := s.FileSource(t.Context(), path); err == nil {
			t.Errorf("%s: read at %s", story, source)
		}
		if destination, err := s.FileDestination(t.Context(), path); err == nil {
			t.Errorf("%s: kept at %s", story, destination)
		}
	}
	if _, err := s.FileDestination(t.Context(), "/etc/passwd"); !errors.Is(err, storage.ErrForbidden) || !strings.Contains(err.Error(), "/etc/passwd") {
		t.Errorf("outside of the folders: %v", err)
	}
}

// TestReadObject reads an object that was kept, part by part.
func TestReadObject(t *testing.T) {
	eachField(t, func(t *testing.T, f field) {
		destination, err := f.FileDestination(t.Context(), f.base+"/kept")
		must(t, err)
		f.write(destination, "what was kept")
		var text string
		for {
			data, size, err := f.ReadObject(t.Context(), f.base+"/kept", int64(len(text)), 5)
			if !strings.HasPrefix(f.base, "s3://") {
				if err == nil {
					t.Error("a file was read as an object")
				}
				return
			}
			must(t, err)
			if size != int64(len("what was kept")) {
				t.Errorf("its size is %d", size)
			}
			if len(data) == 0 {
				break
			}
			text += string(data)
		}
		if text != "what was kept" {
			t.Errorf("read %q", text)
		}
		if _, _, err := f.ReadObject(t.Context(), f.base+"/other", 0, 5); !errors.Is(err, storage.ErrNoObject) {
			t.Errorf("an object that is not there: %v", err)
		}
	})
}

// fetch reads a path, or a URL.
func fetch(t *testing.T, source string) string {
	t.Helper()
	if filepath.IsAbs(source) {
		data, err := os.ReadFile(source)
		must(t, err)
		return string(data)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, source, http.NoBody)
	must(t, err)
	answer, err := http.DefaultClient.Do(request)
	must(t, err)
	text, err := io.ReadAll(answer.Body)
	must(t, errors.Join(err, answer.Body.Close()))
	return string(text)
}
