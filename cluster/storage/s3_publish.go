package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
)

// atOnce bounds the concurrent requests.
const atOnce = 8

// publish implements backend.
func (s *s3) publish(ctx context.Context, out target, parts []Part) error {
	p, err := s.place(out)
	if err != nil {
		return err
	}
	publish := p.publishFile
	if out.folder {
		publish = p.publishFolder
	}
	err = publish(ctx, parts)
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrExists) {
		return s.explain(err)
	}
	return fmt.Errorf("%w; %s", s.explain(err), p.left(ctx, len(parts)))
}

// has reports whether an object of this operation exists. It returns ErrExists for an
// object of another operation.
func (p place) has(ctx context.Context, key string) (bool, error) {
	owner, ok, err := p.owner(ctx, key)
	if err == nil && ok && owner != p.operation {
		err = exists(fs.ErrExist)
	}
	return ok, err
}

// settle returns err, or nil if err says that an object exists and the object belongs to this
// operation: another replica has published it, or the answer to the first request was lost.
func (p place) settle(ctx context.Context, key string, err error) error {
	if !isTaken(err) {
		return err
	}
	ours, err := p.has(ctx, key)
	if err == nil && !ours {
		// The object has been removed since.
		err = exists(fs.ErrExist)
	}
	return err
}

// check compares the parts with the staged objects.
func (p place) check(ctx context.Context, parts []Part) error {
	sizes := map[string]int64{}
	prefix := p.staging().key
	for info := range p.client.ListObjectsIter(ctx, p.at.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if info.Err != nil {
			return info.Err
		}
		sizes[strings.TrimPrefix(info.Key, prefix)] = info.Size
	}
	for _, part := range parts {
		size, ok := sizes[part.Name]
		switch {
		case !ok:
			return broken(part, "it does not exist")
		case size != part.Bytes:
			return broken(part, "it has %d bytes, but %d were written", size, part.Bytes)
		}
	}
	return nil
}

// isTaken reports whether an object could not be created because it exists.
func isTaken(err error) bool {
	var answer minio.ErrorResponse
	return errors.As(err, &answer) && answer.StatusCode == http.StatusPreconditionFailed
}

// publishFile makes one object of all parts, if it does not exist yet.
func (p place) publishFile(ctx context.Context, parts []Part) error {
	if there, err := p.has(ctx, p.at.key); there || err != nil {
		return err
	}
	if err := p.check(ctx, parts); err != nil {
		return err
	}
	return p.settle(ctx, p.at.key, p.join(ctx, parts))
}

// join makes one object of all parts.
func (p place) join(ctx context.Context, parts []Part) error {
	var sizes []int64
	var total int64
	for _, part := range parts {
		sizes = append(sizes, part.Bytes)
		total += part.Bytes
	}
	if total < leastPiece {
		all := make([]extent, 0, len(parts))
		for i, size := range sizes {
			all = append(all, extent{i, 0, size})
		}
		data, err := p.read(ctx, parts, all)
		if err != nil {
			return err
		}
		return p.put(ctx, p.at.key, data)
	}
	pieces, err := compose(sizes)
	if err != nil {
		return err
	}
	return p.multipart(ctx, parts, pieces)
}

// multipart makes the object from pieces, several of them concurrently.
func (p place) multipart(ctx context.Context, parts []Part, pieces []piece) error {
	id, err := p.client.NewMultipartUpload(ctx, p.at.bucket, p.at.key, minio.PutObjectOptions{UserMetadata: map[string]string{byOperation: p.operation}})
	if err != nil {
		return err
	}
	done := make([]minio.CompletePart, len(pieces))
	err = each(ctx, len(pieces), func(ctx context.Context, i int) (err error) {
		done[i], err = p.upload(ctx, id, i+1, parts, pieces[i])
		return err
	})
	if err == nil {
		_, err = p.client.CompleteMultipartUpload(ctx, p.at.bucket, p.at.key, id, done, p.options())
	}
	if err != nil {
		// Nobody will complete the upload; if the abort fails, Discard aborts it later.
		return errors.Join(err, ignoreMissing(p.client.AbortMultipartUpload(context.WithoutCancel(ctx), p.at.bucket, p.at.key, id)))
	}
	return nil
}

// upload uploads or copies one piece.
func (p place) upload(ctx context.Context, id string, number int, parts []Part, piece piece) (minio.CompletePart, error) {
	if piece.copied() {
		e := piece.extents[0]
		done, err := p.client.CopyObjectPart(ctx, p.at.bucket, p.staging().key+parts[e.part].Name, p.at.bucket, p.at.key, id, number, e.begin, e.end-e.begin, nil)
		if err == nil && done.ETag == "" {
			err = fmt.Errorf("copy part %s: connection to the object store lost", parts[e.part].Name)
		}
		return done, err
	}
	data, err := p.read(ctx, parts, piece.extents)
	if err != nil {
		return minio.CompletePart{}, err
	}
	done, err := p.client.PutObjectPart(ctx, p.at.bucket, p.at.key, id, number, bytes.NewReader(data), int64(len(data)), minio.PutObjectPartOptions{})
	return minio.CompletePart{PartNumber: number, ETag: done.ETag}, err
}

// read returns the concatenated bytes of extents.
func (p place) read(ctx context.Context, parts []Part, extents []extent) ([]byte, error) {
	var data bytes.Buffer
	for _, e := range extents {
		if e.begin == e.end {
			continue
		}
		var options minio.GetObjectOptions
		if err := options.SetRange(e.begin, e.end-1); err != nil {
			return nil, err
		}
		body, _, _, err := p.client.GetObject(ctx, p.at.bucket, p.staging().key+parts[e.part].Name, options)
		if err != nil {
			return nil, err
		}
		n, err := io.Copy(&data, body)
		if err == nil && n != e.end-e.begin {
			err = broken(parts[e.part], "only %d of %d bytes could be read", n, e.end-e.begin)
		}
		if err = errors.Join(err, body.Close()); err != nil {
			return nil, err
		}
	}
	return data.Bytes(), nil
}

// publishFolder makes an object of each part, and then the one that marks the folder as complete.
// If another operation publishes to the same folder, the first operation gets it.
func (p place) publishFolder(ctx context.Context, parts []Part) error {
	last, claim := p.at.key+"/"+success, p.at.key+"/"+publishing
	there, err := p.has(ctx, last)
	if err == nil && !there {
		there, err = p.claim(ctx, claim, last)
	}
	if err == nil && !there {
		err = p.check(ctx, parts)
	}
	if err == nil && !there {
		err = p.copyParts(ctx, parts)
	}
	if err == nil && !there {
		err = p.settle(ctx, last, p.put(ctx, last, nil))
	}
	if err != nil {
		return err
	}
	return ignoreMissing(p.client.RemoveObject(ctx, p.at.bucket, claim, minio.RemoveObjectOptions{}))
}

// claim reserves the folder, and reports whether the output is already complete.
func (p place) claim(ctx context.Context, claim, last string) (there bool, err error) {
	for {
		err, ours := p.put(ctx, claim, nil), true
		if isTaken(err) {
			ours, err = p.has(ctx, claim)
		}
		if err != nil {
			return false, err
		}
		// The previous holder of the claim may have completed since, or been aborted.
		if there, err = p.has(ctx, last); there || err != nil || ours {
			return there, err
		}
	}
}

// put creates an object, if it does not exist.
func (p place) put(ctx context.Context, key string, data []byte) error {
	_, err := p.client.Client.PutObject(ctx, p.at.bucket, key, bytes.NewReader(data), int64(len(data)), p.options())
	return err
}

// copyParts copies each part to an object of its own.
func (p place) copyParts(ctx context.Context, parts []Part) error {
	return each(ctx, len(parts), func(ctx context.Context, i int) (err error) {
		to := minio.CopyDestOptions{
			Bucket: p.at.bucket, Object: p.at.key + "/" + partName(i), ReplaceMetadata: true, UserMetadata: map[string]string{byOperation: p.operation},
		}
		from := minio.CopySrcOptions{Bucket: p.at.bucket, Object: p.staging().key + parts[i].Name}
		if parts[i].Bytes <= mostPiece {
			_, err = p.client.Client.CopyObject(ctx, to, from)
		} else {
			_, err = p.client.ComposeObject(ctx, to, from)
		}
		return err
	})
}

// each calls `do` for n items, some concurrently. After the first error it cancels the other calls
// and returns that error.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var doing sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for i := range n {
		free <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		doing.Go(func() {
			defer func() { <-free }()
			if err := do(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	doing.Wait()
	return context.Cause(ctx)
}
