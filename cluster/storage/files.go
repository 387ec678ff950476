package storage

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"

	"weir/messages/statepb"
)

// ErrNoObject is returned for an object that does not exist.
var ErrNoObject = errors.New("there is no such object")

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

// ReadObject returns at most limit bytes of an object from offset on, and how many the object has. It returns
// ErrNoObject if there is none, and ErrUnavailable.
func (s *Storage) ReadObject(ctx context.Context, path string, offset, limit int64) (data []byte, size int64, err error) {
	place, err := s.of(path)
	store, is := place.(*s3)
	if err == nil && !is {
		err = errors.New("not in an object store")
	}
	if err == nil {
		data, size, err = store.read(ctx, path, offset, limit)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("object %s: %w", path, err)
	}
	return data, size, nil
}

func (s *s3) read(ctx context.Context, path string, offset, limit int64) (data []byte, size int64, err error) {
	client, o, err := s.at(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := client.StatObject(ctx, o.bucket, o.key, minio.StatObjectOptions{})
	switch {
	case isMissing(err):
		return nil, 0, ErrNoObject
	case err != nil:
		return nil, 0, s.explain(err)
	case offset >= info.Size:
		return nil, info.Size, nil
	}
	var options minio.GetObjectOptions
	// It must not be another object by now.
	if err := errors.Join(options.SetRange(offset, min(offset+limit, info.Size)-1), options.SetMatchETag(info.ETag)); err != nil {
		return nil, 0, err
	}
	body, _, _, err := client.GetObject(ctx, o.bucket, o.key, options)
	if err != nil {
		return nil, 0, s.explain(err)
	}
	data, err = io.ReadAll(io.LimitReader(body, limit))
	return data, info.Size, errors.Join(err, body.Close())
}
