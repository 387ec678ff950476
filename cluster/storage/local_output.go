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

// Names in a staging folder other than those of the parts.
const (
	// whole is the complete output file before it is published. If several were built, it is the
	// first.
	whole = "whole"
	// building is the prefix of files and folders that are still being built.
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
		return errors.New("must be a clean absolute path (no ., .., double or trailing /) that names the same place on replicas and nodes")
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

// try makes the staging folder and tests the operations that are needed later. Only this
// process's user can access the folder: parts may belong to a user who runs other jobs too.
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

// write creates a small file.
func (d *folder) write(name, text string) error {
	f, err := d.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// stage opens the staging folder and checks that a replica has made it: users who can
// write to the parent could put another folder in its place.
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

// errNotOurs is returned for a staging folder that another user has made.
var errNotOurs = errors.New("it belongs to another user")

// ours returns errNotOurs if the folder was not made by this process's user.
func (d *folder) ours() error {
	is, err := d.stat(".")
	if err != nil || int(is.Uid) == os.Geteuid() {
		return err
	}
	// A shared file system may assign root's files to another user: compare with a new file.
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

// publication is an output that is being published.
type publication struct {
	out   target
	parts []Part
	// parent is the folder that will contain the output; staging is the folder with the parts.
	parent, staging *folder
}

func (p *publication) name() string { return filepath.Base(p.out.path) }

// publish implements backend.
func (l *local) publish(ctx context.Context, out target, parts []Part) error {
	parent, err := l.open(filepath.Dir(out.path))
	if isAbsent(err) {
		return fmt.Errorf("%w: folder %s, in which the output was prepared, is missing", ErrBroken, filepath.Dir(out.path))
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

// check compares the parts with the staged files.
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

// broken says that a part differs from what its job wrote.
func broken(part Part, format string, args ...any) error {
	return fmt.Errorf("part %s: %w: %s", part.Name, ErrBroken, fmt.Sprintf(format, args...))
}

// missing adds the part's name to an error. A part that does not exist is broken; a file
// system that fails for a while is an ordinary error.
func missing(part Part, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return broken(part, "it does not exist")
	}
	return fmt.Errorf("part %s: %w", part.Name, plain(err))
}

// publishFile links one file, made of all parts, to the output path. Concurrent
// publishers link the same file.
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

// build makes the whole file, unless another process makes it first.
func (p *publication) build(ctx context.Context) error {
	if len(p.parts) == 1 {
		// A single part is the whole file already, and its job has synced it.
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

// owner returns the user and group of the parts; nil if they differ.
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

// giveTo gives an output to the owner of its parts, if this process has the right to.
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

// release lets everybody read a folder, and gives it to owner.
func (d *folder) release(owner *unix.Stat_t) error {
	return d.opened(func(f *os.File) error {
		if err := f.Chmod(0o755); err != nil {
			return err
		}
		return giveTo(owner, f.Chown)
	})
}

// keep returns err, or nil if err says that another process has created the file first.
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

// appendPart appends a part to a file; within one file system the kernel copies it.
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

// publishFolder fills a folder with links to all parts and renames it to the output path.
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

// renameNew renames a folder to a name that must be free. File systems such as NFS have no such
// rename. On those, an entry that is created just before the rename is detected too, unless it is
// an empty folder.
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

// published returns ErrExists unless the folder at the output path consists of the parts.
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

// exists turns fs.ErrExist into the error that the output path has been taken by something else.
func exists(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: created by someone else while the operation ran", ErrExists)
	}
	return plain(err)
}
