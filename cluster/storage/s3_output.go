package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/minio/minio-go/v7"
)

const (
	// byOperation is the metadata key for the operation that wrote an object.
	byOperation = "Weir-Operation"
	// success is the object that marks an output folder as complete.
	success = "_SUCCESS"
	// publishing is the object that reserves an output folder for one operation until it
	// is complete.
	publishing = "_PUBLISHING"
)

// place is an output in a store.
type place struct {
	target
	client *minio.Core
	at     object
}

func (s *s3) place(out target) (place, error) {
	client, at, err := s.at(out.path)
	if err == nil && at.key == "" {
		err = errors.New("no key: write s3://bucket/key")
	}
	return place{out, client, at}, err
}

// staging is the prefix below which jobs write.
func (p place) staging() object {
	return object{p.at.bucket, p.at.key + stagingInfix + p.operation + "/"}
}

// options names the operation in the metadata, and forbids replacing an existing object.
func (p place) options() minio.PutObjectOptions {
	options := minio.PutObjectOptions{UserMetadata: map[string]string{byOperation: p.operation}}
	options.SetMatchETagExcept("*")
	return options
}

// owner returns the operation that wrote an object; ok is false if there is no object.
func (p place) owner(ctx context.Context, key string) (operation string, ok bool, err error) {
	info, err := p.client.StatObject(ctx, p.at.bucket, key, minio.StatObjectOptions{})
	if isMissing(err) {
		return "", false, nil
	}
	return info.UserMetadata[byOperation], err == nil, err
}

// prepare implements backend.
func (s *s3) prepare(ctx context.Context, out target) error {
	p, err := s.place(out)
	if err != nil {
		return err
	}
	if ok, err := p.client.BucketExists(ctx, p.at.bucket); err != nil {
		return s.explain(err)
	} else if !ok {
		return fmt.Errorf("there is no bucket %q", p.at.bucket)
	}
	if out.folder {
		for info := range p.client.ListObjectsIter(ctx, p.at.bucket, minio.ListObjectsOptions{Prefix: p.at.key + "/", MaxKeys: 1}) {
			if info.Err != nil {
				return s.explain(info.Err)
			}
			return fmt.Errorf("%w: there is %s: move it away, or give another path", ErrExists, info.Key)
		}
	} else if _, ok, err := p.owner(ctx, p.at.key); err != nil {
		return s.explain(err)
	} else if ok {
		return fmt.Errorf("%w: move it away, or give another path", ErrExists)
	}
	// Fail now if the store rejects writes, not after hours of work.
	probe := p.staging().key + "probe"
	if _, err := p.client.Client.PutObject(ctx, p.at.bucket, probe, strings.NewReader(""), 0, minio.PutObjectOptions{}); err != nil {
		return s.explain(err)
	}
	return s.explain(p.client.RemoveObject(ctx, p.at.bucket, probe, minio.RemoveObjectOptions{}))
}

// destination implements backend.
func (s *s3) destination(ctx context.Context, out target, part string) (string, error) {
	p, err := s.place(out)
	if err != nil {
		return "", err
	}
	return s.toPut(ctx, p.staging().String()+part)
}

// discard implements backend.
func (s *s3) discard(ctx context.Context, out target, completed bool) error {
	p, err := s.place(out)
	if err != nil {
		return err
	}
	if err := p.clear(ctx, p.staging().key, func(string) (bool, error) { return true, nil }); err != nil {
		return s.explain(err)
	}
	if err := p.abortUploads(ctx); err != nil || completed && !out.folder {
		return s.explain(err)
	}
	prefix := p.at.key
	if out.folder {
		prefix += "/"
	}
	if completed {
		prefix += publishing
	}
	return s.explain(p.clear(ctx, prefix, func(key string) (bool, error) {
		if !out.folder && key != p.at.key {
			return false, nil
		}
		owner, ok, err := p.owner(ctx, key)
		return ok && owner == p.operation, err
	}))
}

// clear removes the objects with a prefix for which `away` returns true.
func (p place) clear(ctx context.Context, prefix string, away func(key string) (bool, error)) error {
	var keys []string
	for info := range p.client.ListObjectsIter(ctx, p.at.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if info.Err != nil {
			return info.Err
		}
		if ok, err := away(info.Key); err != nil {
			return err
		} else if ok {
			keys = append(keys, info.Key)
		}
	}
	return each(ctx, len(keys), func(ctx context.Context, i int) error {
		return ignoreMissing(p.client.RemoveObject(ctx, p.at.bucket, keys[i], minio.RemoveObjectOptions{}))
	})
}

// abortUploads aborts the multipart uploads of interrupted publications.
func (p place) abortUploads(ctx context.Context) error {
	var key, id string
	for {
		found, err := p.client.ListMultipartUploads(ctx, p.at.bucket, p.at.key, key, id, "", 0)
		if err != nil {
			return err
		}
		for _, upload := range found.Uploads {
			ours := upload.Key == p.at.key || p.folder && strings.HasPrefix(upload.Key, p.at.key+"/")
			if !ours {
				continue
			}
			if err := ignoreMissing(p.client.AbortMultipartUpload(ctx, p.at.bucket, upload.Key, upload.UploadID)); err != nil {
				return err
			}
		}
		if key, id = found.NextKeyMarker, found.NextUploadIDMarker; !found.IsTruncated {
			return nil
		}
	}
}

func ignoreMissing(err error) error {
	if isMissing(err) {
		return nil
	}
	return err
}
