package lifecycle

import (
	"fmt"
	"slices"
	"strings"
)

// number is the type of an enumeration whose names are listed by number. Unused numbers have an
// empty name.
type number interface{ ~uint8 | ~uint16 }

// nameOf returns the name of a number.
func nameOf[N number](names []string, n N) string {
	if int(n) < len(names) && names[n] != "" {
		return names[n]
	}
	return fmt.Sprintf("%T(%d)", n, n)
}

// numberOf returns the number of a name. The parameter `what` names the enumeration in the error. The
// parameter `use` lists the valid names, if the error is to name them.
func numberOf[N number](names []string, name, what string, use ...string) (N, error) {
	switch i := slices.Index(names, name); {
	case i >= 0 && name != "":
		return N(i), nil
	case len(use) > 0:
		return 0, fmt.Errorf("unknown %s %q: use one of %s", what, name, strings.Join(use, ", "))
	}
	return 0, fmt.Errorf("unknown %s %q", what, name)
}
