package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"weir/messages/statepb"
)

// Names in a staging folder besides those of the parts.
const (
	// whole is the output file before it is published: the first that was made.
	whole = "whole"
	// building is how names begin of what is being made, by whoever comes by.
	building = "building-"
)

// source implements backend.
func (l *local) source(_ context.Context, file *statepb.InputFile) (string, error) {
	return file.GetPath(), nil
}

// destination implements backend.
func (l *local) destination(_ context.Context, out target, part string) (string, error) {
	return filepath.Join(out.staging(), part), nil
}

// prepare implements backend.
func (l *local) prepare(_ context.Context, out target) error {
	if !filepath.IsAbs(out.path) || filepath.Clean(out.path) != out.path {
		return errors.New("not an absolute path without . and ..: replicas and nodes must find the same place at it")
	}
	parent, err := l.open(filepath.Dir(out.path))
	if isAbsent(err) {
		return fmt.Errorf("no folder %s: create it first", filepath.Dir(out.path))
	}
	if err != nil {
		return err
	}
	defer parent.close()
	if _, err := parent.stat(filepath.Base(out.path)); err == nil {
		return fmt.Errorf("%w: move it away, or give another path", ErrExists)
	}
	if err := try(parent, out); err != nil {
		return fmt.Errorf("staging folder %s cannot be used: %w", out.staging(), plain(err))
	}
	return parent.sync()
}

// try makes the staging folder and does once what is done with it later. Nobody else can get
// at what is in it: parts may be the job's user's, who is other jobs' too.
func try(parent *folder, out target) error {
	if err := parent.make(filepath.Base(out.staging())); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	staging, err := stage(parent, out)
	if err != nil {
		return err
	}
	defer staging.close()
	trial, err := staging.build()
	if err != nil {
		return err
	}
	defer trial.close()
	err = trial.write("probe", "weir\n")
	if err == nil {
		err = trial.link("probe", trial, "probe2")
	}
	return errors.Join(err, staging.removeAll(filepath.Base(trial.path)))
}

// write makes a small file.
func (d *folder) write(name, text string) error {
	f, err := d.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// stage holds the staging folder, which is one that replicas have made: whoever may write above
// it could put another in its place.
func stage(parent *folder, out target) (*folder, error) {
	staging, err := parent.into(filepath.Base(out.staging()))
	if err != nil {
		return nil, err
	}
	staging.path = out.staging()
	if err := staging.ours(); err != nil {
		staging.close()
		return nil, err
	}
	return staging, nil
}

// errNotOurs is returned for a staging folder that no replica has made.
var errNotOurs = errors.New("it belongs to another user")

// ours returns an error for a folder that another user than this process has made.
func (d *folder) ours() error {
	is, err := d.stat(".")
	if err != nil || int(is.Uid) == os.Geteuid() {
		return err
	}
	// A shared file system may have it that all of what root makes is somebody else's.
	name := buildingName()
	if err := d.write(name, ""); err != nil {
		return err
	}
	made, err := d.stat(name)
	if err == nil && made.Uid != is.Uid {
		err = errNotOurs
	}
	return errors.Join(err, d.remove(name))
}

// publication is an output that is about to be there.
type publication struct {
	out   target
	parts []Part
	// parent is the folder that the output will be in, staging the one that the parts are in.
	parent, staging *folder
}

func (p *publication) name() string { return filepath.Base(p.out.path) }

// publish implements backend.
func (l *local) publish(ctx context.Context, out target, parts []Part) error {
	parent, err := l.open(filepath.Dir(out.path))
	if isAbsent(err) {
		return fmt.Errorf("%w: folder %s, where it was prepared, is missing", ErrBroken, filepath.Dir(out.path))
	}
	if err != nil {
		return err
	}
	defer parent.close()
	staging, err := stage(parent, out)
	if isAbsent(err) || errors.Is(err, errNotOurs) {
		return fmt.Errorf("%w: staging folder %s is missing or was replaced: %w", ErrBroken, out.staging(), err)
	}
	if err != nil {
		return fmt.Errorf("staging folder %s: %w", out.staging(), plain(err))
	}
	defer staging.close()
	p := &publication{out, parts, parent, staging}
	err = p.check()
	if err == nil && out.folder {
		err = p.publishFolder()
	} else if err == nil {
		err = p.publishFile(ctx)
	}
	if err != nil {
		return err
	}
	return parent.sync()
}

// check compares parts with what is staged.
func (p *publication) check() error {
	for _, part := range p.parts {
		is, err := p.staging.stat(part.Name)
		if err != nil {
			return missing(part, err)
		}
		if !isKind(is, unix.S_IFREG) {
			return broken(part, "it is a %s, but a file was written", kind(is))
		}
		if is.Size != part.Bytes {
			return broken(part, "it has %d bytes, but %d were written", is.Size, part.Bytes)
		}
	}
	return nil
}

// broken says that a part is not what its job wrote.
func broken(part Part, format string, args ...any) error {
	return fmt.Errorf("part %s: %w: %s", part.Name, ErrBroken, fmt.Sprintf(format, args...))
}

// missing names the part of an error: one that is not there is broken, and a file system
// that fails for a while has broken nothing.
func missing(part Part, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return broken(part, "it is not there")
	}
	return fmt.Errorf("part %s: %w", part.Name, plain(err))
}

// publishFile links one file, made of all parts, to the output path. Whoever else does
// so at the same time links the same one.
func (p *publication) publishFile(ctx context.Context) error {
	if _, err := p.staging.stat(whole); errors.Is(err, fs.ErrNotExist) {
		if err := p.build(ctx); err != nil {
			return err
		}
	}
	err := p.staging.link(whole, p.parent, p.name())
	if errors.Is(err, fs.ErrExist) && same(p.staging, whole, p.parent, p.name()) {
		return nil
	}
	return exists(err)
}

// build makes the whole file, if nobody has.
func (p *publication) build(ctx context.Context) error {
	if len(p.parts) == 1 {
		// One part is the whole already, and its job has it on disk.
		return keep(p.staging.link(p.parts[0].Name, p.staging, whole))
	}
	name := buildingName()
	f, err := p.staging.open(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return plain(err)
	}
	err = p.concatenate(ctx, f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = giveTo(p.owner(), f.Chown)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = keep(p.staging.link(name, p.staging, whole))
	}
	return plain(errors.Join(err, p.staging.remove(name)))
}

// owner is the user and the group that all parts are of; nil: they are not one user's.
func (p *publication) owner() *unix.Stat_t {
	var owner *unix.Stat_t
	for _, part := range p.parts {
		is, err := p.staging.stat(part.Name)
		if err != nil || owner != nil && (owner.Uid != is.Uid || owner.Gid != is.Gid) {
			return nil
		}
		owner = &is
	}
	return owner
}

// giveTo makes what was made of parts their owner's, as far as this process may.
func giveTo(owner *unix.Stat_t, chown func(uid, gid int) error) error {
	if owner == nil {
		return nil
	}
	err := chown(int(owner.Uid), int(owner.Gid))
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// release lets everybody read a folder, and makes it its owner's.
func (d *folder) release(owner *unix.Stat_t) error {
	return d.opened(func(f *os.File) error {
		if err := f.Chmod(0o755); err != nil {
			return err
		}
		return giveTo(owner, f.Chown)
	})
}

// keep takes it that somebody was faster.
func keep(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return plain(err)
}

func (p *publication) concatenate(ctx context.Context, to *os.File) error {
	for _, part := range p.parts {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := p.appendPart(to, part); err != nil {
			return err
		}
	}
	return nil
}

// appendPart copies a part to the end of a file; within one file system the kernel does it.
func (p *publication) appendPart(to *os.File, part Part) error {
	from, err := p.staging.open(part.Name, unix.O_RDONLY, 0)
	if err != nil {
		return missing(part, err)
	}
	n, err := io.Copy(to, from)
	if err == nil && n != part.Bytes {
		err = broken(part, "%d bytes could be read, but %d were written", n, part.Bytes)
	}
	return errors.Join(err, from.Close())
}

// publishFolder renames a folder with links to all parts to the output path.
func (p *publication) publishFolder() error {
	made, err := p.staging.build()
	if err != nil {
		return plain(err)
	}
	defer made.close()
	if err := made.release(p.owner()); err != nil {
		return plain(err)
	}
	for i, part := range p.parts {
		if err := p.staging.link(part.Name, made, partName(i)); err != nil {
			return missing(part, err)
		}
	}
	if err := made.sync(); err != nil {
		return err
	}
	name := filepath.Base(made.path)
	err = renameNew(p.staging, name, p.parent, p.name(), noReplace)
	if errors.Is(err, fs.ErrExist) {
		return errors.Join(p.published(), plain(p.staging.removeAll(name)))
	}
	return err
}

// renameNew gives a folder a name that nothing has. Where the file system has no rename
// that sees to it, as NFS, what somebody makes at this very moment is seen to all the same,
// but for an empty folder.
func renameNew(from *folder, name string, to *folder, as string, noReplace func(from *folder, name string, to *folder, as string) error) error {
	err := noReplace(from, name, to, as)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if _, err := to.stat(as); err == nil {
		return fs.ErrExist
	}
	err = act(func() error { return unix.Renameat(from.fd(), name, to.fd(), as) })
	if errors.Is(err, unix.ENOTDIR) {
		err = fs.ErrExist
	}
	return err
}

func noReplace(from *folder, name string, to *folder, as string) error {
	return act(func() error { return unix.Renameat2(from.fd(), name, to.fd(), as, unix.RENAME_NOREPLACE) })
}

// published returns ErrExists unless the folder at the output path is that of the parts.
func (p *publication) published() error {
	there, err := p.parent.into(p.name())
	if err != nil {
		return exists(fs.ErrExist)
	}
	defer there.close()
	names, err := there.names()
	if err != nil || len(names) != len(p.parts) {
		return exists(fs.ErrExist)
	}
	for i, part := range p.parts {
		if !same(p.staging, part.Name, there, partName(i)) {
			return exists(fs.ErrExist)
		}
	}
	return nil
}

// exists says that somebody else has taken the output path meanwhile.
func exists(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: created by someone else while the operation ran", ErrExists)
	}
	return plain(err)
}
