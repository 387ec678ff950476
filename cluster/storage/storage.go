package storage

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"weir/messages/statepb"
)

var (
	// ErrExists is returned when the output path is taken by something else.
	ErrExists = errors.New("already exists")
	// ErrBroken is returned when a part is missing or differs from what its job wrote.
	ErrBroken = errors.New("output of a job differs from what it wrote")
	// ErrForbidden is returned for a path outside the folders that may be used.
	ErrForbidden = errors.New("outside the folders that operations may use")
	// ErrUnavailable is returned when an object store does not answer, or answers with 5xx.
	ErrUnavailable = errors.New("object store failing")
)

// Config says which local folders may be used, and how to reach object stores.
type Config struct {
	// Roots are the local folders whose files may be read and written; empty allows no
	// local file, "/" allows all.
	Roots []string
	// S3 says how to reach object stores; empty fields are taken from the environment.
	S3 S3Config
}

// S3Config says how to reach object stores. Empty fields are taken from
// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION or AWS_DEFAULT_REGION,
// AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, the files of the
// AWS tools, or the role of the machine.
type S3Config struct {
	// Endpoint is a URL.
	Endpoint string
	Region   string
	// AccessKey and SecretKey are set together.
	AccessKey, SecretKey string
	// Attempts bounds the attempts at a request that is answered with 5xx, or not at all.
	// Default 8: about five seconds.
	Attempts int
	// Timeout bounds the time until an answer begins. Default 30 s.
	Timeout time.Duration
}

// Storage lists input and publishes output. Its methods are safe for concurrent use.
type Storage struct {
	local *local
	s3    *s3
	// find is nil, or that of By.
	find  func(path string) (*S3Config, error)
	named *named
}

// New returns a storage. It does not connect: wrong settings cause errors at first use.
func New(cfg Config) *Storage {
	return &Storage{local: &local{roots: cfg.Roots}, s3: &s3{cfg: cfg.S3}, named: &named{by: make(map[S3Config]*s3)}}
}

// By returns a storage that reaches each object as find says: with these settings, with those of s if
// they are nil, or not at all if there is an error. The two share their connections.
func (s *Storage) By(find func(path string) (*S3Config, error)) *Storage {
	by := *s
	by.find = find
	return &by
}

// maxNamed bounds the clients that are kept. Their settings change rarely.
const maxNamed = 200

// named are clients by their settings.
type named struct {
	mu sync.Mutex
	by map[S3Config]*s3
}

func (n *named) of(cfg S3Config) *s3 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.by[cfg] == nil {
		if len(n.by) >= maxNamed {
			clear(n.by)
		}
		n.by[cfg] = &s3{cfg: cfg}
	}
	return n.by[cfg]
}

// backend is one kind of storage.
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
		return s.local, nil
	case scheme == "s3":
		return s.objects(path)
	default:
		return nil, fmt.Errorf("%s: unsupported scheme %s://: give a path, or a URL that begins with s3://", path, scheme)
	}
}

// objects returns the store that has an object.
func (s *Storage) objects(path string) (backend, error) {
	if s.find == nil {
		return s.s3, nil
	}
	switch cfg, err := s.find(path); {
	case err != nil:
		return nil, err
	case cfg != nil:
		return s.named.of(*cfg), nil
	}
	return s.s3, nil
}

// Output is the output of one operation.
type Output struct {
	// Path is a file, or a folder if it ends in a slash.
	Path      string
	Operation string
}

// Part is the output of one job.
type Part struct {
	Name  string
	Bytes int64
}

// target is an output whose trailing slash has become a flag.
type target struct {
	path      string
	folder    bool
	operation string
}

func (o Output) target() target {
	return target{path: strings.TrimRight(o.Path, "/"), folder: strings.HasSuffix(o.Path, "/"), operation: o.Operation}
}

// staging is the folder to which jobs write.
func (t target) staging() string { return t.path + stagingInfix + t.operation }

const stagingInfix = ".weir-"

// staged matches names of staging folders, which are never listed as input.
var staged = regexp.MustCompile(`\.weir-[0-9a-z-]+$`)

// partPrefix is the prefix of the names of parts in an output folder.
const partPrefix = "part-"

// partName is the name of a part in an output folder.
func partName(i int) string { return fmt.Sprintf(partPrefix+"%05d", i) }

// List returns the files at paths, in the order of the paths; files of a glob, a folder or a
// prefix are sorted by name. A path without files is an error, unless it is an empty folder.
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

// Source returns the path or URL at which a node reads a file.
func (s *Storage) Source(ctx context.Context, file *statepb.InputFile) (string, error) {
	place, err := s.of(file.GetPath())
	if err != nil {
		return "", err
	}
	return place.source(ctx, file)
}

// Prepare checks that the output does not exist and can be created, and creates the
// staging folder. It may be repeated.
func (s *Storage) Prepare(ctx context.Context, out Output) error {
	return s.output(out, func(place backend, t target) error { return place.prepare(ctx, t) })
}

// Destination returns the path or URL to which a node writes a part.
func (s *Storage) Destination(ctx context.Context, out Output, part string) (destination string, err error) {
	err = s.output(out, func(place backend, t target) error {
		destination, err = place.destination(ctx, t, part)
		return err
	})
	return destination, err
}

// Publish creates the output from the parts, in order, and returns when it is durable. It
// may be repeated, also concurrently. It returns ErrExists if the path has been taken by
// something else, ErrBroken if a part differs from what its job wrote.
func (s *Storage) Publish(ctx context.Context, out Output, parts []Part) error {
	return s.output(out, func(place backend, t target) error { return place.publish(ctx, t, parts) })
}

// Discard removes the staging folder of an operation that has ended. Unless the operation
// has completed, it also removes the output, which may have been published at the very
// end. It may be repeated.
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
