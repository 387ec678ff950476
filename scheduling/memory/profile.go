package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Profile identifies tasks of different operations whose jobs need similar memory.
type Profile struct {
	// Given is the name that the user chose. If it is set, the other fields do not count.
	Given string `json:"given,omitempty"`
	// Type is the type of the operation.
	Type      string   `json:"type,omitempty"`
	Task      string   `json:"task,omitempty"`
	Argv      []string `json:"argv,omitempty"`
	Shell     string   `json:"shell,omitempty"`
	Isolation string   `json:"isolation,omitempty"`
	// Format is the format of a map operation's input.
	Format string `json:"format,omitempty"`
}

// MaxProfileName is the maximum length of the name of a profile, in bytes.
const MaxProfileName = 100

// ValidateProfileName returns an error if a user may not give this name to a profile.
func ValidateProfileName(name string) error {
	if len(name) > MaxProfileName {
		return fmt.Errorf("%q has %d bytes, the limit is %d", name, len(name), MaxProfileName)
	}
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || r != '.' && r != '_' && r != '-' && r != '/') {
			return fmt.Errorf("%q: use letters and digits, and after the first character also . _ - /", name)
		}
	}
	return nil
}

// Key returns the key of the profile: the given name, or a hash that cannot be a given name.
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
