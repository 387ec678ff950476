// Package access decides who may do what. Rights are given on a pool, on the root of a pool tree or
// on an operation to users, to groups, or to everyone. They are allow-only: those of a pool and of
// all pools above it add up, and so do those of all groups of a user (T1). The package is pure.
package access

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"weir/scheduling"
	"weir/scheduling/option"
)

// Right is what a subject may do with a pool and the operations in it. No right contains another.
type Right string

const (
	// Read lets one see specifications, output, statistics, instances and full events of
	// operations.
	Read Right = "read"
	// Use lets one start operations in a pool, and move operations into it.
	Use Right = "use"
	// Manage lets one steer operations of others: abort, suspend, resume, complete and update
	// them, and interrupt and abort their jobs.
	Manage Right = "manage"
	// Administer lets one change the pools below a pool, and the rights on these. It does not let
	// one change the pool itself, because its settings are a promise to its siblings.
	Administer Right = "administer"
)

// Rights returns every right.
func Rights() []Right { return []Right{Read, Use, Manage, Administer} }

// ParseRight returns the right called name.
func ParseRight(name string) (Right, error) {
	if r := Right(name); slices.Contains(Rights(), r) {
		return r, nil
	}
	return "", fmt.Errorf("right %q: must be one of read, use, manage, administer", name)
}

// Subject is who can have rights: user:NAME, group:NAME or Everyone.
type Subject string

// Everyone is the subject that each identity of the cluster is.
const Everyone Subject = "*"

// The kinds of the other subjects, in front of a name.
const (
	userPrefix  = "user:"
	groupPrefix = "group:"
)

// name matches names of users and groups. They are those that certificates can have.
var name = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// CheckName returns an error for a name that no user or group can have. The parameter `what` is
// user or group.
func CheckName(what, value string) error {
	if !name.MatchString(value) {
		return fmt.Errorf("%s %q: must be 1 to 63 letters, digits, '.', '_' or '-', with a letter or digit first and last", what, value)
	}
	return nil
}

// accountName matches names of users and groups of a machine.
var accountName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,30}[a-z0-9_$-]?$`)

// IsAccount reports whether a text is a name or a number of a user or a group of a machine. A number is
// as strconv.FormatUint writes it, below the greatest one of 32 bits, which means nobody.
func IsAccount(text string) bool {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return accountName.MatchString(text)
	}
	return id < math.MaxUint32 && strconv.FormatUint(id, 10) == text
}

// ParseSubject returns the subject that a text names.
func ParseSubject(text string) (Subject, error) {
	subject := Subject(text)
	if subject == Everyone {
		return subject, nil
	}
	if user, ok := strings.CutPrefix(text, userPrefix); ok {
		return subject, CheckName("user", user)
	}
	if group, ok := subject.Group(); ok {
		return subject, CheckName("group", group)
	}
	return "", fmt.Errorf("subject %q: must be user:NAME, group:NAME or * (everyone)", text)
}

// ReadOption implements option.Reader. An object with a user or a group is a subject too, because
// parsers of YAML take user:ann for one within braces.
func (s *Subject) ReadOption(v *option.Value) error {
	text := v.Text
	if v.Kind == option.Object && len(v.Fields) == 1 && v.Fields[0].Value.Kind == option.Text {
		text = v.Fields[0].Name + ":" + v.Fields[0].Value.Text
	} else if v.Kind != option.Text {
		return fmt.Errorf("is %s, but must be user:NAME, group:NAME or * (everyone)", v)
	}
	subject, err := ParseSubject(text)
	if err == nil {
		*s = subject
	}
	return err
}

// Group returns the name of the group that is the subject; false if it is not a group.
func (s Subject) Group() (string, bool) { return strings.CutPrefix(string(s), groupPrefix) }

// UserSubject returns a user as a subject.
func UserSubject(user scheduling.User) Subject { return userPrefix + Subject(user) }

// GroupSubject returns a group as a subject.
func GroupSubject(group string) Subject { return groupPrefix + Subject(group) }

// Who is somebody who asks for something. The zero Who is nobody, who has only the rights of
// everyone.
type Who struct {
	User scheduling.User
	// Groups are all groups of the user, sorted.
	Groups []string
	// Operator says that the user may do everything.
	Operator bool
}

// Is reports whether the subject stands for who.
func (w Who) Is(subject Subject) bool {
	if group, ok := subject.Group(); ok {
		_, is := slices.BinarySearch(w.Groups, group)
		return is
	}
	return subject == Everyone || w.User != "" && subject == UserSubject(w.User)
}

// List holds the rights that are given on one pool, or on the root of a pool tree. A nil List gives
// no rights.
type List struct {
	Read       []Subject `option:"read" max:"256" help:"who may see specifications, output, statistics and events of operations in the pool"`
	Use        []Subject `option:"use" max:"256" help:"who may start operations in the pool, and move operations into it"`
	Manage     []Subject `option:"manage" max:"256" help:"who may abort, suspend, resume, complete and update operations of others in the pool, and interrupt and abort their jobs"`
	Administer []Subject `option:"administer" max:"256" help:"who may create, change, move and remove pools below the pool, and give rights on these"`
}

// Initial returns the rights on the root of a tree that sets none: everyone may use its pools.
func Initial() *List { return &List{Use: []Subject{Everyone}} }

// Subjects returns the subjects that have a right.
func (l *List) Subjects(right Right) []Subject {
	if l == nil {
		return nil
	}
	switch right {
	case Read:
		return l.Read
	case Use:
		return l.Use
	case Manage:
		return l.Manage
	case Administer:
		return l.Administer
	}
	return nil
}

// Gives reports whether the list gives a right to who.
func (l *List) Gives(right Right, who Who) bool {
	return who.Operator || slices.ContainsFunc(l.Subjects(right), who.Is)
}

// Groups returns the groups that have rights, sorted.
func (l *List) Groups() (all []string) {
	for _, right := range Rights() {
		for _, subject := range l.Subjects(right) {
			if group, ok := subject.Group(); ok {
				all = append(all, group)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Faults returns a fault for each subject that is named twice. The parameter `path` is the path of the
// list's options.
func (l *List) Faults(path string) (faults []option.Fault) {
	for _, right := range Rights() {
		faults = append(faults, Twice(path+"/"+string(right), l.Subjects(right))...)
	}
	return faults
}

// Twice returns a fault for each subject of an option that is named twice.
func Twice(path string, subjects []Subject) (faults []option.Fault) {
	for i, subject := range subjects {
		if slices.Index(subjects, subject) < i {
			faults = append(faults, option.Fault{Path: path, Problem: string(subject) + " is named twice"})
		}
	}
	return faults
}
