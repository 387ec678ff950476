package gossip

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// keySize is the size of a key in bytes: it selects AES-256.
const keySize = 32

func validateKeys(keys [][]byte) error {
	for _, key := range keys {
		if len(key) != keySize {
			return fmt.Errorf("key: is %d bytes long, want %d", len(key), keySize)
		}
	}
	return nil
}

// UseKeys replaces Config.Keys from the next packet on. It is for one goroutine at a time. While the
// replicas of a cluster change their keys one after the other, each needs the keys with which others
// encrypt. A replica that gossips in plaintext cannot begin to encrypt, nor the other way round.
func (g *Gossip) UseKeys(keys [][]byte) error {
	if err := g.useKeys(keys); err != nil {
		return fmt.Errorf("use gossip keys: %w", err)
	}
	return nil
}

func (g *Gossip) useKeys(keys [][]byte) error {
	if g.keyring == nil || len(keys) == 0 {
		if g.keyring == nil && len(keys) == 0 {
			return nil
		}
		return errors.New("a replica that runs cannot begin or cease to encrypt: restart it")
	}
	if err := validateKeys(keys); err != nil {
		return err
	}
	add := func() error {
		for _, key := range keys {
			if err := g.keyring.AddKey(key); err != nil {
				return err
			}
		}
		return nil
	}
	if err := add(); err != nil {
		return err
	}
	if err := g.keyring.UseKey(keys[0]); err != nil {
		return err
	}
	wanted := func(key []byte) bool {
		return slices.ContainsFunc(keys, func(other []byte) bool { return bytes.Equal(key, other) })
	}
	ring := slices.Clone(g.keyring.GetKeys())
	if !slices.ContainsFunc(ring, func(key []byte) bool { return !wanted(key) }) {
		return nil
	}
	// From the back: memberlist removes a key in place, while packets are decrypted with those before.
	for _, key := range slices.Backward(ring[1:]) {
		if err := g.keyring.RemoveKey(key); err != nil {
			return err
		}
	}
	return add()
}
