package poolfile

import (
	"errors"
	"fmt"

	"weir/scheduling/option"
)

// newError refuses a file.
func newError(faults []option.Fault) error { return option.Refuse("pool file", faults) }

// wrap tells the faults that made a text no document.
func wrap(err error) error {
	var refused *option.Error
	if !errors.As(err, &refused) {
		return fmt.Errorf("pool file: %w", err)
	}
	return newError(refused.Faults)
}
