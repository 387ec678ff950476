package runner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestClaims (T2) are given in turn, to one job at a time, whichever runner of the machine asks, and go
// on after a restart.
func TestClaims(t *testing.T) {
	c := claims{path: filepath.Join(t.TempDir(), "deep", "job-uids"), uids: UIDs{First: 1000, Last: 1003}}
	nobody := func(uint32) bool { return false }
	take := func(want uint32) *os.File {
		t.Helper()
		uid, claim, err := c.take(nobody)
		if err != nil || uid != want {
			t.Fatalf("took %d, %v, want %d", uid, err, want)
		}
		return claim
	}
	put := func(claim *os.File) {
		t.Helper()
		if err := claim.Close(); err != nil {
			t.Fatal(err)
		}
	}
	first, second := take(1000), take(1001)
	if c.again(1001) != nil {
		t.Error("an id was claimed twice")
	}
	put(first)
	// Not the one that has just become free.
	third := take(1002)
	uid, claim, err := c.take(func(uid uint32) bool { return uid == 1003 })
	if err != nil || uid != 1000 {
		t.Fatalf("took %d, %v, want 1000, because 1003 is busy", uid, err)
	}
	fourth := take(1003)
	if _, _, err := c.take(nobody); !errors.Is(err, ErrNoUID) || !strings.Contains(err.Error(), "1000-1003") {
		t.Errorf("took one more: %v", err)
	}
	put(second)
	again := c.again(1001)
	if again == nil {
		t.Error("an id was not claimed again")
	}
	for _, claim := range []*os.File{third, claim, fourth, again} {
		put(claim)
	}
	// Another range begins with its own first id.
	c.uids = UIDs{First: 2000, Last: 2003}
	put(take(2000))
}

// TestUIDs (T2) are ranges that nobody has.
func TestUIDs(t *testing.T) {
	for text, want := range map[string]string{
		"200000-265535": "", "1-1000": "", "0-5000": "must be FIRST-LAST", "5": "must be FIRST-LAST", "10-20": "at least 1000 ids",
		"9-3": "must be FIRST-LAST", "a-b": "must be FIRST-LAST", "1-4294967295": "must be FIRST-LAST", "1-99999999999": "must be FIRST-LAST",
	} {
		got, err := ParseUIDs(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || err == nil && got.String() != text {
			t.Errorf("%s: %v, %v, want %q", text, got, err, want)
		}
	}
	if err := (UIDs{First: 60_000, Last: 70_000}).CheckFree(); err == nil || !strings.Contains(err.Error(), "account nobody") {
		t.Errorf("nobody's id: %v, want its name", err)
	}
	ids := UIDs{First: 200, Last: 300}
	for list, want := range map[string]string{
		"ann:x:199:1::/:\nbob:x:301:1::/:\n": "", "ann:x:200:1::/:\n": "ann", "ann:x:7:1::/:\nbob:x:300:250::/:": "bob", "what is this\n::\n": "",
	} {
		if got := ids.holder(list, false); got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
	for list, want := range map[string]string{
		"ann:100:100\nbob:301:9\n": "", "ann:100:101\n": "ann", "bob:300:1\n": "bob", "eve:1:100000\n": "eve", "eve:250:0\n": "",
	} {
		if got := ids.holder(list, true); got != want {
			t.Errorf("ranges %q: %q, want %q", list, got, want)
		}
	}
}

// TestMachineOnWhichRootIsTraced: an agent that is root does not run where its jobs could trace their proxies.
func TestMachineOnWhichRootIsTraced(t *testing.T) {
	for text, want := range map[string]string{"0\n": "", "1\n": "set it to 0 or 2", "2\n": ""} {
		file := filepath.Join(t.TempDir(), "suid_dumpable")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkDumps(file); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if err := checkDumps(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Errorf("without the setting: %v", err)
	}
}
