package pooltree

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"weir/scheduling"
)

const (
	// MaxNameBytes is the maximum length of a pool name, in bytes.
	MaxNameBytes = 100
	// MaxDepth is the maximum number of pools on a path below the root. It bounds the work of
	// walking up or down the tree.
	MaxDepth = 32
	// MaxWeight is the greatest weight of a pool or an operation. It keeps sums of
	// weights exact enough.
	MaxWeight = 1e9
)

// DefaultWeight is the weight of a pool or an operation that sets no weight.
const DefaultWeight = 1.0

// Pool is a pool as its owner set it.
type Pool struct {
	// Name is unique within the tree.
	Name scheduling.PoolName
	// ID does not change when the pool is renamed.
	ID scheduling.PoolID
	// Parent is another pool or scheduling.RootPool.
	Parent scheduling.PoolName
	// Options are the options that were set.
	Options PoolOptions
	// Ephemeral is the user for whom an ephemeral pool was created. It is "" for a permanent
	// pool. An ephemeral pool is removed with its last operation (R6, L6).
	Ephemeral scheduling.User
}

// ValidateName returns an error unless name is a valid name of a pool.
func ValidateName(name scheduling.PoolName) error {
	s := string(name)
	switch {
	case s == "":
		return errors.New("pool name is empty")
	case len(s) > MaxNameBytes:
		return fmt.Errorf("pool name of %d bytes is too long: the limit is %d", len(s), MaxNameBytes)
	case !utf8.ValidString(s):
		return fmt.Errorf("pool name %q is not UTF-8", s)
	}
	if i := strings.IndexFunc(s, forbidden); i >= 0 {
		r, _ := utf8.DecodeRuneInString(s[i:])
		return fmt.Errorf("pool name %q contains %q: not allowed are / $ < > * spaces and control characters", s, r)
	}
	return nil
}

// validateName is like ValidateName, but also allows pool$user, the name of an ephemeral subpool
// for a user.
func (p Pool) validateName() error {
	hub, user, found := strings.Cut(string(p.Name), "$")
	if p.Ephemeral == "" || !found {
		return ValidateName(p.Name)
	}
	if err := ValidateName(scheduling.PoolName(hub)); err != nil {
		return err
	}
	if err := ValidateName(scheduling.PoolName(user)); err != nil {
		return fmt.Errorf("user %q cannot have a subpool: %w", user, err)
	}
	return nil
}

// ValidateWeight returns an error unless the weight of a pool or an operation is
// in [0, MaxWeight].
func ValidateWeight(weight float64) error {
	if math.IsNaN(weight) || weight < 0 || weight > MaxWeight {
		return fmt.Errorf("weight %v is not a number from 0 to %v", weight, MaxWeight)
	}
	return nil
}

func forbidden(r rune) bool {
	return strings.ContainsRune("/$<>*", r) || unicode.IsSpace(r) || unicode.IsControl(r)
}
