package state

import (
	"fmt"

	"weir/scheduling"
)

// VerifyOperation is Verify for one operation alone: its cookies are each in one
// place, and its counters count them. It costs time in proportion to the
// intervals of its cookies, so it can be asked whenever an operation ends. An
// operation that is not kept is no breach.
func (s *State) VerifyOperation(id scheduling.OperationID) error {
	o, ok := s.operations[id]
	if !ok {
		return nil
	}
	if err := (verifier{s}).verifyOperation(o); err != nil {
		return fmt.Errorf("state at index %d: operation %q: %w", s.lastIndex, id, err)
	}
	return nil
}
