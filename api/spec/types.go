package spec

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"weir/scheduling"
	"weir/scheduling/access"
	"weir/scheduling/memory"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

// textOf returns the text of a value, or an error if it is not text.
func textOf(v *option.Value) (string, error) {
	if v.Kind != option.Text {
		return "", fmt.Errorf("is %s, not text", v)
	}
	return v.Text, nil
}

// take assigns s to *to if err, the result of checking s, is nil. It returns err.
func take[T ~string](to *T, s string, err error) error {
	if err == nil {
		*to = T(s)
	}
	return err
}

// poolName is the name of a pool. The root is allowed here; the tree decides whether it accepts
// operations.
type poolName string

// ReadOption implements option.Reader.
func (p *poolName) ReadOption(v *option.Value) error {
	s, err := textOf(v)
	switch {
	case err != nil || s == string(scheduling.RootPool):
	case s == "":
		err = errors.New("it is empty: leave it out to use the tree's pool for operations that name none")
	default:
		err = pooltree.ValidateName(scheduling.PoolName(s))
	}
	return take(p, s, err)
}

// treeName is the name of a pool tree.
type treeName string

// ReadOption implements option.Reader.
func (n *treeName) ReadOption(v *option.Value) error {
	s, err := textOf(v)
	if err == nil {
		err = pooltree.ValidateName(scheduling.PoolName(s))
	}
	return take(n, s, err)
}

// alias stands for the id of an operation.
type alias string

// ReadOption implements option.Reader.
func (a *alias) ReadOption(v *option.Value) error {
	s, err := textOf(v)
	switch {
	case err != nil || s == "":
	case !strings.HasPrefix(s, "*") || len(s) == 1:
		err = fmt.Errorf("%q: it must be * followed by a name, such as %q", s, "*"+cmp.Or(strings.Trim(s, "*"), "nightly"))
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }):
		err = fmt.Errorf("%q: it must have only printable characters, and no spaces", s)
	}
	return take(a, s, err)
}

// signal is the name of a signal that asks a process to stop and that the process can handle.
type signal string

var interruptionSignals = []string{"SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGTERM", "SIGWINCH"}

// ReadOption implements option.Reader. The prefix SIG may be omitted.
func (g *signal) ReadOption(v *option.Value) error {
	s, err := textOf(v)
	full := "SIG" + strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(s)), "SIG")
	switch {
	case err != nil || slices.Contains(interruptionSignals, full):
	case full == "SIGKILL" || full == "SIGSTOP":
		err = fmt.Errorf("%s cannot be handled by a process, so no job could stop gracefully: write one of %s", full, strings.Join(interruptionSignals, ", "))
	default:
		err = fmt.Errorf("%q is not a signal that can ask a job to stop: write one of %s", option.Clip(s), strings.Join(interruptionSignals, ", "))
	}
	return take(g, full, err)
}

// account is a user or a group, by name or number.
type account string

// ReadOption implements option.Reader.
func (a *account) ReadOption(v *option.Value) error {
	written := v.Text
	switch v.Kind {
	case option.Number:
		written = strconv.FormatFloat(v.Number, 'f', -1, 64)
	case option.Text:
	default:
		return fmt.Errorf("is %s, not text", v)
	}
	id, err := strconv.ParseUint(written, 10, 32)
	switch {
	case err == nil && id < math.MaxUint32:
		written = strconv.FormatUint(id, 10)
	case v.Kind == option.Number || !access.IsAccount(written):
		return fmt.Errorf("%q is not a user or group: write a name of lower-case letters, digits, - and _, or a number from 0 to %d", option.Clip(written), uint32(math.MaxUint32-1))
	}
	*a = account(written)
	return nil
}

// profileName is the name of a memory profile.
type profileName string

// ReadOption implements option.Reader.
func (p *profileName) ReadOption(v *option.Value) error {
	s, err := textOf(v)
	switch {
	case err != nil:
	case s == "":
		err = errors.New("it is empty: leave it out to share the profile of tasks with the same name, command and isolation")
	default:
		err = memory.ValidateProfileName(s)
	}
	return take(p, s, err)
}

// workspacePath is a clean path within the workspace, without . and .. elements.
type workspacePath string

// ReadOption implements option.Reader.
func (p *workspacePath) ReadOption(v *option.Value) error {
	s, err := textOf(v)
	clean := path.Clean(s)
	switch {
	case err != nil:
	case path.IsAbs(s):
		err = fmt.Errorf("%q begins at the root: write a path within the workspace, such as %q", s, cmp.Or(strings.TrimLeft(clean, "/"), "data"))
	case clean == ".":
		err = fmt.Errorf("%q is the workspace itself: write a path within it, such as \"data\"", s)
	case clean == ".." || strings.HasPrefix(clean, "../"):
		err = fmt.Errorf("%q leads out of the workspace: write a path within it", s)
	}
	return take(p, clean, err)
}

// isWithin reports whether the clean path inner is outer, or below it.
func isWithin(inner, outer string) bool { return inner == outer || strings.HasPrefix(inner, outer+"/") }

// meet reports whether one of two clean paths is within the other.
func meet(a, b string) bool { return isWithin(a, b) || isWithin(b, a) }

// place is a path that every node sees, or a URL of an object store.
type place string

// storeScheme begins the URLs of an object store.
const storeScheme = "s3://"

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// ReadOption implements option.Reader.
func (p *place) ReadOption(v *option.Value) error {
	s, err := textOf(v)
	if err == nil {
		err = checkPlace(s)
	}
	return take(p, s, err)
}

// inputPath is a place to read from, or a pattern of places.
type inputPath string

// ReadOption implements option.Reader.
func (p *inputPath) ReadOption(v *option.Value) error {
	s, err := textOf(v)
	if err == nil {
		err = checkPlace(s)
	}
	if _, bad := path.Match(s, ""); err == nil && errors.Is(bad, path.ErrBadPattern) {
		err = fmt.Errorf("%q is not a valid pattern: close the [, or write \\[ for the character itself", option.Clip(s))
	}
	return take(p, s, err)
}

// checkPlace returns an error unless s is a valid place.
func checkPlace(s string) error {
	scheme, rest, isURL := strings.Cut(s, "://")
	bucket, key, _ := strings.Cut(rest, "/")
	switch {
	case s == "":
		return fmt.Errorf("it is empty: write a path that begins with /, or %sbucket/key", storeScheme)
	case len(s) > maxPathBytes:
		return fmt.Errorf("it has %d bytes, the limit is %d", len(s), maxPathBytes)
	case strings.ContainsAny(s, "\x00\n"):
		return fmt.Errorf("%q contains a NUL byte or a line break", option.Clip(s))
	case isURL && !strings.HasPrefix(s, "/") && scheme+"://" != storeScheme:
		return fmt.Errorf("%q: only %s URLs are supported; name files that every node sees by their path", option.Clip(s), storeScheme)
	case isURL && scheme+"://" == storeScheme && !bucketName.MatchString(bucket):
		return fmt.Errorf("%q: %q is not a bucket name: it has 3 to 63 lower-case letters, digits, dots and dashes", option.Clip(s), option.Clip(bucket))
	case isURL && scheme+"://" == storeScheme && key == "":
		return fmt.Errorf("%q names only a bucket: add a key, such as %s%s/data/", option.Clip(s), storeScheme, bucket)
	case !isURL && !path.IsAbs(s):
		return fmt.Errorf("%q does not begin with /: write the whole path, as every node sees it, or %sbucket/key", option.Clip(s), storeScheme)
	}
	return nil
}

// maxPathBytes bounds the length of a place: it is the limit of Linux.
const maxPathBytes = 4095

// base returns the last name of a place; empty if the place is a folder.
func (p place) base() string {
	if name := path.Base(string(p)); !strings.HasSuffix(string(p), "/") && name != ".." && name != "." {
		return name
	}
	return ""
}

// httpPath is the path of a GET request.
type httpPath string

// ReadOption implements option.Reader.
func (p *httpPath) ReadOption(v *option.Value) error {
	s, err := textOf(v)
	if err == nil && (!path.IsAbs(s) || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })) {
		err = fmt.Errorf("%q is not a valid path: write one that begins with / and has no spaces, such as /ready", option.Clip(s))
	}
	return take(p, s, err)
}
