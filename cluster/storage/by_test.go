package storage

import (
	"errors"
	"strings"
	"testing"

	"weir/cluster/storage/storagetest"
	"weir/messages/statepb"
)

// TestBy (T3) reaches each object with the settings that are found for it, for reading and writing, and
// nothing that is refused.
func TestBy(t *testing.T) {
	named, own := storagetest.Serve(t, "ads"), storagetest.Serve(t, "ads", "own")
	named.Put("ads", "in", "of the named store")
	own.Put("own", "in", "own")
	settings := func(s *storagetest.Server) S3Config {
		return S3Config{Endpoint: s.URL, Region: "us-east-1", AccessKey: storagetest.AccessKey, SecretKey: storagetest.SecretKey, Attempts: 1}
	}
	refused := errors.New("not for this pool")
	all := New(Config{Roots: []string{"/"}, S3: settings(own)})
	s := all.By(func(path string) (*S3Config, error) {
		switch {
		case strings.HasPrefix(path, "s3://ads/"):
			cfg := settings(named)
			return &cfg, nil
		case strings.HasPrefix(path, "s3://research/"):
			return nil, refused
		}
		return nil, nil
	})
	for path, server := range map[string]*storagetest.Server{"s3://ads/in": named, "s3://own/in": own} {
		files, err := s.List(t.Context(), []string{path})
		if err != nil || len(files) != 1 {
			t.Errorf("%s: %v, %v", path, files, err)
		}
		for what, get := range map[string]func() (string, error){
			"source":           func() (string, error) { return s.Source(t.Context(), &statepb.InputFile{Path: path}) },
			"file source":      func() (string, error) { return s.FileSource(t.Context(), path) },
			"file destination": func() (string, error) { return s.FileDestination(t.Context(), path) },
			"destination":      func() (string, error) { return s.Destination(t.Context(), Output{Path: path, Operation: "op"}, "p") },
		} {
			if at, err := get(); err != nil || !strings.HasPrefix(at, server.URL+"/") {
				t.Errorf("%s of %s: %s, %v, want at %s", what, path, at, err, server.URL)
			}
		}
	}
	if at, err := all.FileSource(t.Context(), "s3://ads/in"); err != nil || !strings.HasPrefix(at, own.URL+"/") {
		t.Errorf("without stores: %s, %v", at, err)
	}
	out := Output{Path: "s3://research/out", Operation: "op"}
	_, listed := s.List(t.Context(), []string{"s3://own/in", "s3://research/in"})
	_, source := s.FileSource(t.Context(), "s3://research/in")
	for what, err := range map[string]error{
		"list": listed, "source": source, "prepare": s.Prepare(t.Context(), out), "publish": s.Publish(t.Context(), out, nil), "discard": s.Discard(t.Context(), out, true),
	} {
		if !errors.Is(err, refused) {
			t.Errorf("%s: %v, want that it is refused", what, err)
		}
	}
	if n := len(all.named.by); n != 1 {
		t.Errorf("%d clients for one store", n)
	}
}
