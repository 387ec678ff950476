package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/statepb"
)

// list implements backend.
func (l *local) list(ctx context.Context, name string) ([]*statepb.InputFile, error) {
	if !filepath.IsAbs(name) {
		return nil, errors.New("not an absolute path: the path must name the same file on replicas and nodes")
	}
	path := filepath.Clean(name)
	top, err := l.open(path)
	if err == nil {
		defer top.close()
		all := func([]string) bool { return true }
		return l.below(ctx, search{base: path, top: top, enter: all, want: all})
	}
	if !isAbsent(err) {
		return nil, err
	}
	var file *statepb.InputFile
	if !strings.HasSuffix(name, "/") {
		file, err = l.file(path)
	}
	if isAbsent(err) && isGlob(name) {
		return l.glob(ctx, path)
	}
	if err != nil {
		return nil, err
	}
	file.Path = name
	return []*statepb.InputFile{file}, nil
}

// isAbsent reports whether nothing exists at a path, or a parent in it is not a folder.
func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

// glob returns the files that match a pattern.
func (l *local) glob(ctx context.Context, pattern string) ([]*statepb.InputFile, error) {
	if err := checkGlob(pattern); err != nil {
		return nil, fmt.Errorf("%w: an unclosed [, or a \\ at the end", err)
	}
	base, rest := literal(pattern)
	if base == "" {
		base = "/"
	}
	top, err := l.open(base)
	if isAbsent(err) {
		return nil, fmt.Errorf("no folder %s", base)
	}
	if err != nil {
		return nil, err
	}
	defer top.close()
	files, err := l.below(ctx, search{base: base, top: top,
		enter: func(folder []string) bool { return mayLead(rest, folder) },
		want:  func(file []string) bool { return matches(rest, file) },
	})
	if err == nil && len(files) == 0 {
		err = errors.New("no file matches")
	}
	return files, err
}

// search looks for files below a folder.
type search struct {
	*local
	// base is the user-visible path of top.
	base string
	top  *folder
	// `enter` reports whether a folder is to be searched. `want` reports whether a file is wanted.
	// Both get the path below top, in segments.
	enter, want func([]string) bool
	// left are the folders that are still to be searched. They are not held open, because
	// there may be many, deeply nested.
	left  [][]string
	files []*statepb.InputFile
}

// below returns the wanted files, sorted by path.
func (l *local) below(ctx context.Context, s search) ([]*statepb.InputFile, error) {
	s.local, s.left = l, [][]string{nil}
	for len(s.left) > 0 {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		below := s.left[len(s.left)-1]
		s.left = s.left[:len(s.left)-1]
		if err := s.look(ctx, below); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(s.files, func(a, b *statepb.InputFile) int { return cmp.Compare(a.GetPath(), b.GetPath()) })
	return s.files, nil
}

// look searches one folder.
func (s *search) look(ctx context.Context, below []string) error {
	path := filepath.Join(s.base, filepath.Join(below...))
	d, err := s.top.walk(filepath.Join(below...))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer d.close()
	names, err := d.names()
	if err != nil {
		return fmt.Errorf("%s: %w", path, plain(err))
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := s.take(d, name, filepath.Join(path, name), append(slices.Clip(below), name)); err != nil {
			return err
		}
	}
	return nil
}

// take adds an entry of a folder to the result if it is a wanted file, or to left if it
// is a folder to be searched.
func (s *search) take(d *folder, name, path string, below []string) error {
	is, err := d.stat(name)
	if err == nil && len(path) >= unix.PathMax {
		err = unix.ENAMETOOLONG
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if isKind(is, unix.S_IFDIR) {
		if s.enter(below) && !staged.MatchString(name) {
			s.left = append(s.left, below)
		}
		return nil
	}
	if !s.want(below) {
		return nil
	}
	var file *statepb.InputFile
	if isKind(is, unix.S_IFLNK) {
		file, err = s.linked(path)
	} else {
		file, err = d.input(name, path, is)
	}
	if err == nil {
		s.files = append(s.files, file)
	}
	return err
}

// linked returns the file that a link points to.
func (l *local) linked(path string) (*statepb.InputFile, error) {
	if leads, err := l.open(path); err == nil {
		leads.close()
		return nil, fmt.Errorf("%s is a link to a folder: list its target as an input", path)
	}
	file, err := l.file(path)
	if err != nil && isAbsent(err) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return file, err
}

// file returns the file at a path.
func (l *local) file(path string) (*statepb.InputFile, error) {
	root, below, err := l.find(path)
	if err != nil {
		return nil, err
	}
	d, err := l.enter(root, filepath.Dir(below), filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer d.close()
	name := filepath.Base(below)
	is, err := d.stat(name)
	if err != nil {
		return nil, err
	}
	return d.input(name, path, is)
}

// input describes a file after checking that it can be opened for reading. It opens only
// a regular file, because opening a device can have effects.
func (d *folder) input(name, path string, is unix.Stat_t) (*statepb.InputFile, error) {
	if !isKind(is, unix.S_IFREG) {
		return nil, fmt.Errorf("%s is a %s, not a regular file", path, kind(is))
	}
	f, err := d.open(name, unix.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	err = act(func() error { return unix.Fstat(int(f.Fd()), &is) })
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, plain(err))
	}
	if !isKind(is, unix.S_IFREG) {
		return nil, fmt.Errorf("%s is a %s, not a regular file", path, kind(is))
	}
	return &statepb.InputFile{Path: path, Size: is.Size, ModifiedTime: timestamppb.New(time.Unix(is.Mtim.Unix()))}, nil
}
