// Package vault seals secrets with the key of a cluster, so that state, log, snapshots and backups
// hold no secret that can be read without that key.
package vault

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
)

// KeySize is the size of a key in bytes: it selects AES-256.
const KeySize = 32

// format is the first byte of everything that is sealed.
const format = 1

// markSize is the size of the mark that tells keys apart. Format and mark precede the nonce.
const markSize = 4

var (
	// ErrNoKey is returned by a Vault without a key.
	ErrNoKey = errors.New("this replica has no vault.key in its credentials folder: run weir tls vault-key with that folder and restart the replica " +
		"(a cluster with --insecure-plaintext has no vault)")
	// ErrOtherKey is returned for secrets that were sealed with another key.
	ErrOtherKey = errors.New("sealed with another key than vault.key of this replica: all replicas need the same one, and a restored backup needs the one it was made with")
	// ErrNotSealed is returned for bytes that were not sealed for this owner, or have been changed.
	ErrNotSealed = errors.New("the sealed secrets are damaged, or belong to something else")
)

// Vault seals and opens secrets. A nil Vault has no key. It is safe for concurrent use.
type Vault struct {
	aead cipher.AEAD
	mark [markSize]byte
}

// New returns a Vault with a key of KeySize bytes; nil if key is empty.
func New(key []byte) (*Vault, error) {
	if len(key) == 0 {
		return nil, nil
	}
	if len(key) != KeySize {
		return nil, fmt.Errorf("vault key: %d bytes, must be %d", len(key), KeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	v := &Vault{aead: aead}
	sum := sha256.Sum256(append([]byte("weir vault key mark "), key...))
	copy(v.mark[:], sum[:])
	return v, nil
}

// NewKey returns a random key.
func NewKey() []byte {
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // Never fails, by the contract of crypto/rand.
	return key
}

// Seal seals secrets for an owner, such as "operation/ID". Only Open with the same owner opens them.
func (v *Vault) Seal(owner string, secrets map[string]string) ([]byte, error) {
	if v == nil {
		return nil, ErrNoKey
	}
	plain, err := json.Marshal(secrets)
	if err != nil {
		return nil, err
	}
	sealed := append([]byte{format}, v.mark[:]...)
	nonce := make([]byte, v.aead.NonceSize())
	_, _ = rand.Read(nonce) // Never fails, by the contract of crypto/rand.
	return v.aead.Seal(append(sealed, nonce...), nonce, plain, []byte(owner)), nil
}

// Open returns the secrets that Seal sealed for the owner.
func (v *Vault) Open(owner string, sealed []byte) (map[string]string, error) {
	if v == nil {
		return nil, ErrNoKey
	}
	head := 1 + markSize
	if len(sealed) < head+v.aead.NonceSize() || sealed[0] != format {
		return nil, ErrNotSealed
	}
	if [markSize]byte(sealed[1:head]) != v.mark {
		return nil, ErrOtherKey
	}
	nonce, rest := sealed[head:head+v.aead.NonceSize()], sealed[head+v.aead.NonceSize():]
	plain, err := v.aead.Open(nil, nonce, rest, []byte(owner))
	if err != nil {
		return nil, ErrNotSealed
	}
	var secrets map[string]string
	if json.Unmarshal(plain, &secrets) != nil {
		// The error would quote the secrets.
		return nil, ErrNotSealed
	}
	return secrets, nil
}

// OfOperation is the owner of an operation's secrets.
func OfOperation(id string) string { return "operation/" + id }

// OfStore is the owner of an object store's secret key.
func OfStore(name string) string { return "store/" + name }

// SecretKey is the name of that key among what is sealed.
const SecretKey = "secret_key"
