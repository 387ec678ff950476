package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoUID is returned by Start when other jobs hold all user ids of the range.
var ErrNoUID = errors.New("all user ids for jobs are in use")

// UIDs is a range of user ids, each for one job at a time. A job's group has the same number.
// The zero UIDs has none.
type UIDs struct{ First, Last uint32 }

// DefaultUIDs has ids that systems give to neither accounts nor services.
var DefaultUIDs = UIDs{First: 200_000, Last: 265_535}

// fewestUIDs is the smallest range: more than a node runs jobs, so that ids are not used again soon.
const fewestUIDs = 1000

// ParseUIDs reads a range such as 200000-265535.
func ParseUIDs(text string) (UIDs, error) {
	first, last, found := strings.Cut(text, "-")
	a, firstErr := strconv.ParseUint(first, 10, 32)
	b, lastErr := strconv.ParseUint(last, 10, 32)
	// The id of all ones means "no change" to the kernel.
	if !found || errors.Join(firstErr, lastErr) != nil || a == 0 || b >= 1<<32-1 || b < a+fewestUIDs-1 {
		return UIDs{}, fmt.Errorf("%.40q: must be FIRST-LAST, such as %s, with at least %d ids above 0", text, DefaultUIDs, fewestUIDs)
	}
	return UIDs{First: uint32(a), Last: uint32(b)}, nil
}

// String returns the range as ParseUIDs reads it.
func (u UIDs) String() string { return fmt.Sprintf("%d-%d", u.First, u.Last) }

func (u UIDs) has(id uint32) bool { return u != UIDs{} && id >= u.First && id <= u.Last }

// accountPatience is how long a directory of accounts on the network may take to list them.
const accountPatience = 10 * time.Second

// CheckFree returns an error that names an account, a group or a range of subordinate ids of this
// machine that has an id of the range. A directory on the network may not list its accounts; those
// are not checked.
func (u UIDs) CheckFree() error {
	ctx, cancel := context.WithTimeout(context.Background(), accountPatience)
	defer cancel()
	for _, list := range []struct{ kind, file, database string }{{"account", "/etc/passwd", "passwd"}, {"group", "/etc/group", "group"}} {
		text, err := os.ReadFile(list.file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		// Where there is no getent, or it fails, there are no accounts elsewhere to list.
		more, _ := exec.CommandContext(ctx, "getent", list.database).Output()
		if name := u.holder(string(text)+"\n"+string(more), false); name != "" {
			return fmt.Errorf("ids %s are taken: %s %s of this machine is among them; choose other ids with --job-uids", u, list.kind, name)
		}
	}
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		// Few machines have these files.
		text, _ := os.ReadFile(file)
		if name := u.holder(string(text), true); name != "" {
			return fmt.Errorf("ids %s are taken: %s gives some of them to %s; choose other ids with --job-uids", u, file, name)
		}
	}
	return nil
}

// holder returns the first name in a list that has an id of the range: its lines are name:x:id, or
// name:first:count for ranges.
func (u UIDs) holder(list string, ranges bool) string {
	lines := bufio.NewScanner(strings.NewReader(list))
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 3 {
			continue
		}
		third, err := strconv.ParseUint(fields[2], 10, 32)
		first, last := third, third
		if ranges {
			if first, err = strconv.ParseUint(fields[1], 10, 32); third == 0 {
				continue
			}
			last = first + third - 1
		}
		if err == nil && first <= uint64(u.Last) && last >= uint64(u.First) {
			return fields[0]
		}
	}
	return ""
}

// MachineClaims is the file with which the agents of a machine share out user ids.
const MachineClaims = "/var/lib/weir/job-uids"

// claims shares out user ids among all runners of a machine. The file holds the id that is to be
// given next, so that ids are given in turn, over restarts too. A lock on the byte with the number
// of an id says that a job has it. The lock belongs to the open file, which the job's proxy
// inherits: it ends with the job, whatever becomes of the agent.
type claims struct {
	path string
	uids UIDs
}

// take claims the next id that nobody has. `busy` names more ids that are not to be used.
func (c claims) take(busy func(uid uint32) bool) (uid uint32, claim *os.File, err error) {
	file, err := c.open()
	if err != nil {
		return 0, nil, fmt.Errorf("choose a user for the job: %w", err)
	}
	if uid, err = c.choose(file, busy); err != nil {
		return 0, nil, errors.Join(fmt.Errorf("choose a user for the job: %w", err), file.Close())
	}
	return uid, file, nil
}

func (c claims) open() (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(c.path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(c.path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
}

// turn is the byte whose lock says that an id is being chosen. No job has the id 0.
const turn = 0

func (c claims) choose(file *os.File, busy func(uid uint32) bool) (uint32, error) {
	if err := lockByte(file, turn, unix.F_WRLCK, unix.F_OFD_SETLKW); err != nil {
		return 0, err
	}
	next := c.uids.First
	// What cannot be read is a new file.
	if text, err := io.ReadAll(io.NewSectionReader(file, 0, 32)); err == nil {
		if number, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32); err == nil && c.uids.has(uint32(number)) {
			next = uint32(number)
		}
	}
	for range c.uids.Last - c.uids.First + 1 {
		uid := next
		if next++; next > c.uids.Last {
			next = c.uids.First
		}
		if busy(uid) {
			continue
		}
		err := lockByte(file, uid, unix.F_WRLCK, unix.F_OFD_SETLK)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			continue
		}
		if err == nil {
			_, err = file.WriteAt(fmt.Appendf(nil, "%10d\n", next), 0)
		}
		return uid, errors.Join(err, lockByte(file, turn, unix.F_UNLCK, unix.F_OFD_SETLK))
	}
	return 0, fmt.Errorf("%w: %s", ErrNoUID, c.uids)
}

// again claims the id of an adopted job. If its proxy lives, that holds the claim, and again
// returns nil.
func (c claims) again(uid uint32) *os.File {
	file, err := c.open()
	if err != nil {
		return nil
	}
	if lockByte(file, uid, unix.F_WRLCK, unix.F_OFD_SETLK) != nil {
		_ = file.Close() // nothing was written
		return nil
	}
	return file
}

// lockByte locks or unlocks one byte of a file.
func lockByte(file *os.File, number uint32, kind int16, command int) error {
	lock := unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: int64(number), Len: 1}
	for {
		err := unix.FcntlFlock(file.Fd(), command, &lock)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
