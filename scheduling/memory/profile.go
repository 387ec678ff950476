package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Profile is what makes tasks of different operations alike in what they need.
type Profile struct {
	// Given is the name that the user has given it. It alone counts when it is set.
	Given string `json:"given,omitempty"`
	// Type is that of the operation.
	Type      string   `json:"type,omitempty"`
	Task      string   `json:"task,omitempty"`
	Argv      []string `json:"argv,omitempty"`
	Shell     string   `json:"shell,omitempty"`
	Isolation string   `json:"isolation,omitempty"`
	// Format is that of a map operation's input.
	Format string `json:"format,omitempty"`
}

// MaxProfileName bounds the name of a profile, in bytes.
const MaxProfileName = 100

// ValidateProfileName says what is wrong with a name that a user gives to a profile; nil:
// nothing.
func ValidateProfileName(name string) error {
	if len(name) > MaxProfileName {
		return fmt.Errorf("%q takes %d bytes: use up to %d", name, len(name), MaxProfileName)
	}
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || r != '.' && r != '_' && r != '-' && r != '/') {
			return fmt.Errorf("%q: use letters, digits and, but not at its beginning, . _ - /", name)
		}
	}
	return nil
}

// Key returns by what the profile is found: the name that was given, or a hash that no such
// name can be.
func (p Profile) Key() string {
	if p.Given != "" {
		return p.Given
	}
	text, err := json.Marshal(p)
	if err != nil {
		// Invariant: strings can be written as JSON.
		panic(fmt.Sprintf("write memory profile: %v", err))
	}
	sum := sha256.Sum256(text)
	return "#" + hex.EncodeToString(sum[:12])
}
