package vault

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"
)

func open(t testing.TB, key []byte) *Vault {
	t.Helper()
	v, err := New(key)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestVault (T3) shows that secrets are opened with the key and the owner that they were sealed with
// only.
func TestVault(t *testing.T) {
	key := NewKey()
	v := open(t, key)
	secrets := map[string]string{"TOKEN": "hunter2-hunter2", "EMPTY": "", "WIDE": "ключ\n\"{}"}
	sealed, err := v.Seal(OfOperation("a"), secrets)
	if err != nil {
		t.Fatal(err)
	}
	again, err := v.Seal(OfOperation("a"), secrets)
	if err != nil || bytes.Equal(sealed, again) {
		t.Errorf("sealed twice: equal bytes, %v", err)
	}
	if bytes.Contains(sealed, []byte("hunter2")) || bytes.Contains(sealed, []byte("TOKEN")) {
		t.Errorf("sealed bytes show a secret: %q", sealed)
	}
	changed := bytes.Clone(sealed)
	changed[len(changed)-1] ^= 1
	other := bytes.Clone(sealed)
	other[0]++
	tests := map[string]struct {
		vault   *Vault
		owner   string
		sealed  []byte
		wantErr error
	}{
		"as sealed":               {vault: open(t, key), owner: OfOperation("a"), sealed: sealed},
		"moved to another owner":  {vault: v, owner: OfOperation("b"), sealed: sealed, wantErr: ErrNotSealed},
		"another key":             {vault: open(t, NewKey()), owner: OfOperation("a"), sealed: sealed, wantErr: ErrOtherKey},
		"a bit flipped":           {vault: v, owner: OfOperation("a"), sealed: changed, wantErr: ErrNotSealed},
		"of a later version":      {vault: v, owner: OfOperation("a"), sealed: other, wantErr: ErrNotSealed},
		"cut":                     {vault: v, owner: OfOperation("a"), sealed: sealed[:20], wantErr: ErrNotSealed},
		"nothing":                 {vault: v, owner: OfOperation("a"), wantErr: ErrNotSealed},
		"a replica without a key": {vault: open(t, nil), owner: OfOperation("a"), sealed: sealed, wantErr: ErrNoKey},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			opened, err := test.vault.Open(test.owner, test.sealed)
			if !errors.Is(err, test.wantErr) || (err == nil) != (test.wantErr == nil) {
				t.Fatalf("open: %v, want %v", err, test.wantErr)
			}
			if err == nil && !maps.Equal(opened, secrets) {
				t.Errorf("opened %q, want %q", opened, secrets)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	if _, err := New([]byte("short")); err == nil || !strings.Contains(err.Error(), "5 bytes, must be 32") {
		t.Errorf("a short key: %v", err)
	}
	if _, err := open(t, nil).Seal("x", nil); !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), "weir tls vault-key") || !strings.Contains(err.Error(), "vault.key") {
		t.Errorf("seal without a key: %v, want one that names the file and the command", err)
	}
}

// FuzzOpen opens bytes that nobody sealed, and secrets of any kind that were sealed.
func FuzzOpen(f *testing.F) {
	f.Add("operation/a", "NAME", "value", []byte{format})
	f.Add("", "", "\x00", bytes.Repeat([]byte{format}, 60))
	v := open(f, bytes.Repeat([]byte{7}, KeySize))
	f.Fuzz(func(t *testing.T, owner, name, value string, bytesOfAnother []byte) {
		if opened, err := v.Open(owner, bytesOfAnother); err == nil {
			t.Fatalf("opened %q, which was not sealed: %q", bytesOfAnother, opened)
		}
		if opened, err := v.Open(owner, append(append([]byte{format}, v.mark[:]...), bytesOfAnother...)); err == nil {
			t.Fatalf("opened %q, which was not sealed: %q", bytesOfAnother, opened)
		}
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return
		}
		sealed, err := v.Seal(owner, map[string]string{name: value})
		if err != nil {
			t.Fatal(err)
		}
		opened, err := v.Open(owner, sealed)
		if err != nil || !maps.Equal(opened, map[string]string{name: value}) {
			t.Fatalf("opened %q, %v, want %q=%q", opened, err, name, value)
		}
		if _, err := v.Open(owner+"x", sealed); !errors.Is(err, ErrNotSealed) {
			t.Fatalf("opened for another owner: %v", err)
		}
	})
}
