package poolfile

import (
	"errors"
	"fmt"

	"weir/api/spec"
)

// newError refuses a file.
func newError(faults []spec.Fault) error { return spec.Refuse("pool file", faults) }

// wrap tells the faults that made a text no document.
func wrap(err error) error {
	var refused *spec.Error
	if !errors.As(err, &refused) {
		return fmt.Errorf("pool file: %w", err)
	}
	return newError(refused.Faults)
}
