package storage

import (
	"context"
	"fmt"

	"weir/messages/statepb"
)

// FileSource returns the path or URL at which a node reads a file for a job's workspace.
// It returns ErrForbidden for a path outside the folders that may be used.
func (s *Storage) FileSource(ctx context.Context, path string) (source string, err error) {
	place, err := s.of(path)
	if err == nil && place == backend(s.local) {
		err = s.local.allowed(path)
	}
	if err == nil {
		source, err = place.source(ctx, &statepb.InputFile{Path: path})
	}
	if err != nil {
		return "", fmt.Errorf("file %s: %w", path, err)
	}
	return source, nil
}

// FileDestination returns the path or URL to which a node saves a file of a job's
// workspace. It returns ErrForbidden for a path outside the folders that may be used.
func (s *Storage) FileDestination(ctx context.Context, path string) (destination string, err error) {
	place, err := s.of(path)
	if err == nil {
		destination, err = place.keep(ctx, path)
	}
	if err != nil {
		return "", fmt.Errorf("output %s: %w", path, err)
	}
	return destination, nil
}

// keep implements backend.
func (l *local) keep(_ context.Context, path string) (string, error) { return path, l.allowed(path) }

// keep implements backend.
func (s *s3) keep(ctx context.Context, path string) (string, error) { return s.toPut(ctx, path) }
