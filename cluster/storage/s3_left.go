package storage

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// lookTime bounds the check of what exists in a store that has just failed.
const lookTime = 5 * time.Second

// left says what a failed publication has left at the output path, and how it is removed: by Weir,
// or by the user.
func (p place) left(ctx context.Context, parts int) string {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	found, err := p.found(ctx, parts)
	switch {
	case err != nil && p.folder:
		found = fmt.Sprintf("cannot list %s/, which is incomplete without %s", p.at, success)
	case err != nil:
		found = fmt.Sprintf("cannot check whether %s exists", p.at)
	case found == "":
		found = fmt.Sprintf("nothing was written to %s", p.at)
	}
	return fmt.Sprintf("%s: when the operation ends, Weir removes any objects of it there and in %s, and retries for a day; remove by hand what is left after that", found, p.staging())
}

// found says what this operation has created at its output path; "" if nothing.
func (p place) found(ctx context.Context, parts int) (string, error) {
	if !p.folder {
		owner, there, err := p.owner(ctx, p.at.key)
		if err != nil || !there || owner != p.operation {
			return "", err
		}
		return fmt.Sprintf("all output is at %s", p.at), nil
	}
	made, last := 0, "no "+success
	for info := range p.client.ListObjectsIter(ctx, p.at.bucket, minio.ListObjectsOptions{Prefix: p.at.key + "/"}) {
		if info.Err != nil {
			return "", info.Err
		}
		switch name := path.Base(info.Key); {
		case name == success:
			last = success
		case strings.HasPrefix(name, partPrefix):
			made++
		}
	}
	if made == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d of %d files are at %s/, and %s", made, parts, p.at, last), nil
}
