package spec

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"strings"
)

const (
	// MaxPathBytes bounds a path: Linux takes no longer one.
	MaxPathBytes = 4095
	// storeScheme begins the URLs of an object store.
	storeScheme = "s3://"
)

// workspacePath returns a path within the workspace, without what leads nowhere.
func (o options) workspacePath(name string) string {
	if o.set[name] == nil {
		o.fault(name, "it is missing: a path within the workspace is needed")
		return ""
	}
	s := o.text(name, MaxPathBytes)
	if o.set[name].kind != text {
		return ""
	}
	clean := path.Clean(s)
	switch {
	case path.IsAbs(s):
		o.fault(name, "%q begins at the root: write a path within the workspace, such as %q", s, cmp.Or(strings.TrimLeft(clean, "/"), "data"))
	case clean == ".":
		o.fault(name, "%q is the workspace itself: write a path within it, such as \"data\"", s)
	case clean == ".." || strings.HasPrefix(clean, "../"):
		o.fault(name, "%q leads out of the workspace: write a path within it", s)
	default:
		return clean
	}
	return ""
}

// isWithin tells whether a clean path is another one, or below it.
func isWithin(inner, outer string) bool { return inner == outer || strings.HasPrefix(inner, outer+"/") }

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// checkPlace tells what is wrong with a path that every node sees, or a URL of an
// object store.
func checkPlace(s string) error {
	scheme, rest, isURL := strings.Cut(s, "://")
	bucket, key, _ := strings.Cut(rest, "/")
	switch {
	case s == "":
		return fmt.Errorf("it is empty: write a path that begins with /, or %sbucket/key", storeScheme)
	case len(s) > MaxPathBytes:
		return fmt.Errorf("it has %d bytes: %d is the most", len(s), MaxPathBytes)
	case strings.ContainsAny(s, "\x00\n"):
		return fmt.Errorf("%q has a zero byte or an end of line", clip(s))
	case isURL && !strings.HasPrefix(s, "/") && scheme+"://" != storeScheme:
		return fmt.Errorf("%q: %s is the one kind of URL that is known; files that every node sees are named by their path", clip(s), storeScheme)
	case isURL && scheme+"://" == storeScheme && !bucketName.MatchString(bucket):
		return fmt.Errorf("%q: %q is no name of a bucket: it has 3 to 63 small letters, digits, dots and dashes", clip(s), clip(bucket))
	case isURL && scheme+"://" == storeScheme && key == "":
		return fmt.Errorf("%q names a bucket alone: add a key, such as %s%s/data/", clip(s), storeScheme, bucket)
	case !isURL && !path.IsAbs(s):
		return fmt.Errorf("%q does not begin with /: write the whole path, as every node sees it, or %sbucket/key", clip(s), storeScheme)
	}
	return nil
}

// place returns a path that every node sees, or a URL of an object store.
func (o options) place(name, purpose string) string {
	v := o.get(name, text)
	if v == nil {
		if o.set[name] == nil {
			o.fault(name, "it is missing: %s", purpose)
		}
		return ""
	}
	if err := checkPlace(v.text); err != nil {
		o.fault(name, "%v", err)
		return ""
	}
	return v.text
}
