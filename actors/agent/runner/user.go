package runner

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// Users says as whom jobs may run.
type Users struct {
	// Own are the ids of which each job without a named user gets one of its own; none: such jobs
	// run as the agent's user.
	Own UIDs
	// Root permits jobs that are root, or as good as root.
	Root bool
}

// Find finds the user that a job is to run as, by name or number; nil: the agent's own. A user with
// Own has no ids yet, except for a named group: Start chooses them. Find fails for another user
// than the agent's unless the agent is root, and, unless Root is set, for a user or group that is as
// good as root.
func (u Users) Find(name, group string) (*proxyproto.User, error) {
	self := proxyproto.User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	found := self
	if name == "" && u.Own != (UIDs{}) {
		found = proxyproto.User{Own: true}
	}
	if name != "" {
		var err error
		if found, err = lookUser(name); err != nil {
			return nil, err
		}
	}
	if group != "" {
		var err error
		if found.GID, err = lookGroup(group); err != nil {
			return nil, err
		}
	}
	switch {
	case self.UID != 0 && found != self:
		return nil, fmt.Errorf("user %q, group %q: the agent is not root, so its jobs can only run as the agent's own user", name, group)
	case u.Own.has(found.UID), u.Own.has(found.GID):
		return nil, fmt.Errorf("user %q, group %q: is one of the ids %s, which jobs without a named user get", name, group, u.Own)
	case self.UID == 0 && !u.Root:
		if err := checkRights(found, name, group); err != nil {
			return nil, err
		}
	}
	if found == self {
		return nil, nil
	}
	return &found, nil
}

// dumpable is the file that says whether processes that have changed their user may be traced and dumped: 1 if so.
const dumpable = "/proc/sys/fs/suid_dumpable"

// CheckDumps returns an error if this process is root on a machine where others may trace what has become their user. A
// job's command shares the memory of its proxy, which is root, until it has its program: a process of the same user
// that traces it in that moment would be root.
func CheckDumps() error {
	if os.Geteuid() != 0 {
		return nil
	}
	return checkDumps(dumpable)
}

func checkDumps(file string) error {
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil // The kernel dumps nothing.
	case err != nil:
		return err
	case strings.TrimSpace(string(text)) == "1":
		return errors.New("fs.suid_dumpable is 1, with which jobs could trace processes of root: set it to 0 or 2 (sysctl fs.suid_dumpable=2)")
	}
	return nil
}

// rootGroups are groups whose members can become root, or read and write all that root can.
var rootGroups = []string{"root", "docker", "disk", "shadow", "sudo", "wheel", "adm", "kvm", "lxd"}

// checkRights returns an error for a user, or a group that the user has, that is as good as root.
func checkRights(found proxyproto.User, name, group string) error {
	const permit = "jobs on this node may not run so: its agent has no --allow-root-jobs"
	switch {
	case found.UID == 0 && !found.Own:
		return fmt.Errorf("user %q: is root: %s", name, permit)
	case found.Own && group == "":
		return nil
	case found.GID == 0:
		return fmt.Errorf("user %q, group %q: root's group is as good as root: %s", name, group, permit)
	}
	for _, good := range rootGroups {
		// Few machines have all of these groups.
		if number, err := lookGroup(good); err == nil && number == found.GID {
			return fmt.Errorf("user %q, group %q: group %s is as good as root: %s", name, group, good, permit)
		}
	}
	return nil
}

// lookUser returns a user with its primary group. A uid without an account gets the group of the
// same number.
func lookUser(name string) (proxyproto.User, error) {
	number, numberErr := strconv.ParseUint(name, 10, 32)
	look := user.Lookup
	if numberErr == nil {
		look = user.LookupId
	}
	account, err := look(name)
	var unknown user.UnknownUserIdError
	switch {
	case numberErr == nil && errors.As(err, &unknown):
		return proxyproto.User{UID: uint32(number), GID: uint32(number)}, nil
	case err != nil:
		return proxyproto.User{}, fmt.Errorf("user %q: unknown on this node: %w", name, err)
	}
	uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return proxyproto.User{}, fmt.Errorf("user %q: %w", name, err)
	}
	return proxyproto.User{UID: uint32(uid), GID: uint32(gid)}, nil
}

func lookGroup(name string) (uint32, error) {
	if number, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(number), nil
	}
	group, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("group %q: unknown on this node: %w", name, err)
	}
	number, err := strconv.ParseUint(group.Gid, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("group %q: %w", name, err)
	}
	return uint32(number), nil
}

// closedFolder returns the topmost folder above path that the user cannot traverse; empty:
// there is none.
func closedFolder(path string, who *proxyproto.User) (string, error) {
	closed := ""
	for folder := filepath.Dir(path); ; folder = filepath.Dir(folder) {
		var stat unix.Stat_t
		if err := unix.Stat(folder, &stat); err != nil {
			return "", &os.PathError{Op: "stat", Path: folder, Err: err}
		}
		bit := uint32(0o001)
		switch {
		case stat.Uid == who.UID:
			bit = 0o100
		case stat.Gid == who.GID:
			bit = 0o010
		}
		if who.UID != 0 && stat.Mode&bit == 0 {
			closed = folder
		}
		if folder == filepath.Dir(folder) {
			return closed, nil
		}
	}
}

// checkReach returns an error if a folder above this one keeps the user from reaching it.
func checkReach(folder string, who *proxyproto.User) error {
	closed, err := closedFolder(folder, who)
	if err != nil {
		return err
	}
	if closed != "" {
		return fmt.Errorf("cannot reach the workspace: %s is not accessible to other users; move the agent's state elsewhere, or run chmod a+x on it", closed)
	}
	return nil
}

// own makes the job's user the owner of a file that the agent made for it. A link is not
// followed.
func own(path string, who *proxyproto.User) error {
	if who == nil {
		return nil
	}
	return os.Lchown(path, int(who.UID), int(who.GID))
}

// ownFolders makes the job's user the owner of a workspace's folders. Files keep their owner:
// the job only reads them, and they may be hard links to files used elsewhere.
func ownFolders(workspace string, who *proxyproto.User) error {
	if who == nil {
		return nil
	}
	return filepath.WalkDir(workspace, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return own(path, who)
	})
}

// hiddenFolder returns the folder to hide from a strictly isolated job so that it sees nothing
// of the agent's root: the root, or the folder above it that the job could not traverse anyway.
func hiddenFolder(root string, who *proxyproto.User) (string, error) {
	closed, err := closedFolder(root, who)
	if err != nil || closed != "" {
		return closed, err
	}
	return root, nil
}
