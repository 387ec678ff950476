package storage

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"weir/messages/statepb"
)

var (
	// ErrExists is returned when there is something at an output path, of somebody else.
	ErrExists = errors.New("already exists")
	// ErrBroken is returned when what jobs have written is not there as they left it.
	ErrBroken = errors.New("output of a job differs from what it wrote")
	// ErrForbidden is returned for a path outside of the folders that may be used.
	ErrForbidden = errors.New("outside the folders that operations may use")
	// ErrUnavailable is returned when an object store does not answer, or by 5xx.
	ErrUnavailable = errors.New("object store failing")
)

// Config is where data may be, and how object stores are reached.
type Config struct {
	// Roots are the local folders whose files may be read and written; none: no local file
	// may, "/": all.
	Roots []string
	// S3 is how object stores are reached; what is empty is as the environment says.
	S3 S3Config
}

// S3Config is how object stores are reached. What is empty comes out of AWS_ENDPOINT_URL_S3
// or AWS_ENDPOINT_URL, AWS_REGION or AWS_DEFAULT_REGION, AWS_ACCESS_KEY_ID with
// AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, the files of the AWS tools, or what the
// machine may do.
type S3Config struct {
	// Endpoint is a URL.
	Endpoint string
	Region   string
	// AccessKey and SecretKey go together.
	AccessKey, SecretKey string
	// Attempts bounds how often a request is made that is answered by 5xx, or not at
	// all. Default 8: about five seconds.
	Attempts int
	// Timeout bounds how long an answer may take to begin. Default 30 s.
	Timeout time.Duration
}

// Storage finds input and takes output. Its methods may be called at once.
type Storage struct {
	local local
	s3    s3
}

// New returns a storage. It reaches for nothing: settings that cannot work are errors of
// the first use.
func New(cfg Config) *Storage {
	return &Storage{local: local{roots: cfg.Roots}, s3: s3{cfg: cfg.S3}}
}

// backend is one kind of place for data.
type backend interface {
	list(ctx context.Context, path string) ([]*statepb.InputFile, error)
	source(ctx context.Context, file *statepb.InputFile) (string, error)
	prepare(ctx context.Context, out target) error
	destination(ctx context.Context, out target, part string) (string, error)
	publish(ctx context.Context, out target, parts []Part) error
	discard(ctx context.Context, out target, completed bool) error
	keep(ctx context.Context, path string) (string, error)
}

func (s *Storage) of(path string) (backend, error) {
	scheme, _, ok := strings.Cut(path, "://")
	switch {
	case !ok:
		return &s.local, nil
	case scheme == "s3":
		return &s.s3, nil
	default:
		return nil, fmt.Errorf("%s: unsupported scheme %s://: give a path, or a URL that begins with s3://", path, scheme)
	}
}

// Output is where an operation writes.
type Output struct {
	// Path is a file; with a slash at its end, a folder.
	Path      string
	Operation string
}

// Part is what one job has written.
type Part struct {
	Name  string
	Bytes int64
}

// target is an output with the slash at its end told apart.
type target struct {
	path      string
	folder    bool
	operation string
}

func (o Output) target() target {
	return target{path: strings.TrimRight(o.Path, "/"), folder: strings.HasSuffix(o.Path, "/"), operation: o.Operation}
}

// staging is where jobs write.
func (t target) staging() string { return t.path + stagingInfix + t.operation }

const stagingInfix = ".weir-"

// staged matches names of staging folders: they are no input.
var staged = regexp.MustCompile(`\.weir-[0-9a-z-]+$`)

// partPrefix is how the names of parts in an output folder begin.
const partPrefix = "part-"

// partName is the name of a part in an output folder.
func partName(i int) string { return fmt.Sprintf(partPrefix+"%05d", i) }

// List returns the files that paths stand for, in the order of the paths; what a glob, a
// folder or a prefix stands for is ordered by name. A path that stands for nothing is an
// error, but for a folder with nothing in it.
func (s *Storage) List(ctx context.Context, paths []string) ([]*statepb.InputFile, error) {
	var files []*statepb.InputFile
	for _, path := range paths {
		place, err := s.of(path)
		if err != nil {
			return nil, fmt.Errorf("input %w", err)
		}
		found, err := place.list(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", path, err)
		}
		files = append(files, found...)
	}
	return files, nil
}

// Source returns where a node reads a file: its path, or a URL.
func (s *Storage) Source(ctx context.Context, file *statepb.InputFile) (string, error) {
	place, err := s.of(file.GetPath())
	if err != nil {
		return "", err
	}
	return place.source(ctx, file)
}

// Prepare checks that the output is not there and can be made, and makes the staging
// place. It may be repeated.
func (s *Storage) Prepare(ctx context.Context, out Output) error {
	return s.output(out, func(place backend, t target) error { return place.prepare(ctx, t) })
}

// Destination returns where a node writes a part: a path, or a URL to put it to.
func (s *Storage) Destination(ctx context.Context, out Output, part string) (destination string, err error) {
	err = s.output(out, func(place backend, t target) error {
		destination, err = place.destination(ctx, t, part)
		return err
	})
	return destination, err
}

// Publish makes the output of the parts, in order, and returns when it is there for good.
// It may be repeated, and by many at once. ErrExists is returned when there is something
// else by now, ErrBroken when a part is not as its job left it.
func (s *Storage) Publish(ctx context.Context, out Output, parts []Part) error {
	return s.output(out, func(place backend, t target) error { return place.publish(ctx, t, parts) })
}

// Discard removes the staging place of an operation that has ended; and also its output,
// unless it has completed: it may have been published at the very end. It may be repeated.
func (s *Storage) Discard(ctx context.Context, out Output, completed bool) error {
	return s.output(out, func(place backend, t target) error { return place.discard(ctx, t, completed) })
}

func (s *Storage) output(out Output, do func(backend, target) error) error {
	t := out.target()
	place, err := s.of(t.path)
	if err == nil {
		err = do(place, t)
	}
	if err != nil {
		return fmt.Errorf("output %s: %w", out.Path, err)
	}
	return nil
}
