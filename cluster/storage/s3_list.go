package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/statepb"
)

// list implements backend. A name that ends in a slash lists all objects with that
// prefix; a pattern lists the objects that match it; any other name is one object.
func (s *s3) list(ctx context.Context, name string) ([]*statepb.InputFile, error) {
	client, o, err := s.at(name)
	if err != nil {
		return nil, err
	}
	switch {
	case o.key == "" || strings.HasSuffix(o.key, "/"):
		files, err := s.below(ctx, client, o, func([]string) bool { return true })
		if err == nil && len(files) == 0 {
			err = errors.New("no object begins with this name")
		}
		return files, err
	case isGlob(o.key):
		return s.glob(ctx, client, o)
	}
	info, err := client.StatObject(ctx, o.bucket, o.key, minio.StatObjectOptions{})
	if isMissing(err) {
		// A HEAD answer does not say whether the bucket or the object is missing.
		if there, err := client.BucketExists(ctx, o.bucket); err == nil && !there {
			return nil, fmt.Errorf("there is no bucket %q", o.bucket)
		}
		return nil, errors.New("there is no such object: to read all objects below a name, end it with a slash")
	}
	if err != nil {
		return nil, s.explain(err)
	}
	return []*statepb.InputFile{inputFile(o, info)}, nil
}

func (s *s3) glob(ctx context.Context, client *minio.Core, o object) ([]*statepb.InputFile, error) {
	if err := checkGlob(o.key); err != nil {
		return nil, fmt.Errorf("%w: an unclosed [, or a \\ at the end", err)
	}
	base, rest := literal(o.key)
	if base != "" {
		base += "/"
	}
	files, err := s.below(ctx, client, object{o.bucket, base}, func(key []string) bool { return matches(rest, key) })
	if err == nil && len(files) == 0 {
		err = errors.New("no object matches")
	}
	return files, err
}

// below returns the wanted objects whose key begins with that of o, sorted; want gets the
// rest of the key, in segments.
func (s *s3) below(ctx context.Context, client *minio.Core, o object, want func([]string) bool) ([]*statepb.InputFile, error) {
	var files []*statepb.InputFile
	for info := range client.ListObjectsIter(ctx, o.bucket, minio.ListObjectsOptions{Prefix: o.key, Recursive: true}) {
		if info.Err != nil {
			return nil, s.explain(info.Err)
		}
		key := strings.Split(strings.TrimPrefix(info.Key, o.key), "/")
		// Some tools represent a folder by an object whose key ends in a slash.
		if strings.HasSuffix(info.Key, "/") || slices.ContainsFunc(key[:len(key)-1], staged.MatchString) || !want(key) {
			continue
		}
		files = append(files, inputFile(object{o.bucket, info.Key}, info))
	}
	slices.SortFunc(files, func(a, b *statepb.InputFile) int { return cmp.Compare(a.GetPath(), b.GetPath()) })
	return files, ctx.Err()
}

func inputFile(o object, info minio.ObjectInfo) *statepb.InputFile {
	return &statepb.InputFile{
		Path: o.String(), Size: info.Size, ModifiedTime: timestamppb.New(info.LastModified), Version: strings.Trim(info.ETag, `"`),
	}
}

// source implements backend.
func (s *s3) source(ctx context.Context, file *statepb.InputFile) (string, error) {
	return s.presigned(file.GetPath(), func(client *minio.Core, o object) (*url.URL, error) {
		return client.PresignedGetObject(ctx, o.bucket, o.key, s3Expiry, nil)
	})
}
