package spec

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

const withVault = "tasks: {t: {job_count: 1, command: [x]}}\nsecure_vault: "

// TestSecretsOfASpec (T3) keeps secrets apart from the operation, which has their names.
func TestSecretsOfASpec(t *testing.T) {
	doc, err := Read([]byte(withVault + `{TOKEN: "hunter2", _a1: "", B: "line\nbreak"}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Set(`secure_vault.B=set"`); err != nil {
		t.Fatal(err)
	}
	op, _, err := doc.Check()
	if err != nil {
		t.Fatal(err)
	}
	if got := doc.Secrets(); !maps.Equal(got, map[string]string{"TOKEN": "hunter2", "_a1": "", "B": `set"`}) {
		t.Errorf("secrets %q", got)
	}
	if got := fmt.Sprint(op.GetVault().GetNames()); got != "[B TOKEN _a1]" || strings.Contains(op.String(), "hunter2") {
		t.Errorf("the operation is %v", op)
	}
	shown, err := Format(op)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(shown["secure_vault"]); got != "map[B:(hidden) TOKEN:(hidden) _a1:(hidden)]" {
		t.Errorf("shown as %s", got)
	}
	without, err := Read([]byte(withVault + "{}"))
	if err != nil {
		t.Fatal(err)
	}
	if op, _, err := without.Check(); err != nil || op.GetVault() != nil || len(without.Secrets()) > 0 {
		t.Errorf("an empty vault: %v, %v", op.GetVault(), err)
	}
}

// TestSecretsThatAreRefused wants errors that say what is wrong and do not contain a secret.
func TestSecretsThatAreRefused(t *testing.T) {
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprintf("N%d: hunter2", i)
	}
	tests := map[string]struct{ vault, want string }{
		"a number":          {"{PIN: 86753099}", "secure_vault.PIN: is not text: put it in quotes"},
		"a list":            {"[hunter2]", "secure_vault: is not an object"},
		"a text":            {"hunter2", "secure_vault: is not an object"},
		"an object within":  {"{A: {B: hunter2}}", "secure_vault.A: is not text"},
		"a bad name":        {"{1A: hunter2}", "secure_vault.1A: the name of a secret has"},
		"a name with =":     {"{A=B: hunter2}", "the name of a secret has"},
		"a long name":       {"{" + strings.Repeat("A", 129) + ": hunter2}", "1 to 128 letters"},
		"what a read shows": {"{A: (hidden)}", "write the secret itself"},
		"a NUL byte":        {`{A: "hunter2\0"}`, "NUL byte"},
		"a large one":       {"{A: " + strings.Repeat("hunter2", 2341) + "}", "secure_vault.A: it has 16387 bytes, the limit is 16384 (16 KiB)"},
		"large together":    {"{A: " + strings.Repeat("1hunter2", 2000) + strings.Repeat(", B%: "+strings.Repeat("1hunter2", 2000), 4) + "}", "secure_vault: it has 80009 bytes, the limit is 65536 (64 KiB)"},
		"too many":          {"{" + strings.Join(many, ", ") + "}", "secure_vault"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			text := withVault + test.vault
			for i := range strings.Count(text, "B%") {
				text = strings.Replace(text, "B%", fmt.Sprintf("B%d", i), 1)
			}
			doc, err := Read([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = doc.Check()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want %q", err, test.want)
			}
			if said := err.Error(); strings.Contains(said, "hunter2") || strings.Contains(said, "86753099") || strings.Contains(said, "8.675") {
				t.Errorf("the error has the secret: %s", said)
			}
		})
	}
}

func TestSecretsGivenAgain(t *testing.T) {
	tests := map[string]struct {
		names []string
		given map[string]string
		want  string
	}{
		"all of them":      {[]string{"A", "B"}, map[string]string{"A": "1", "B": "2"}, ""},
		"none, none":       {nil, nil, ""},
		"none":             {[]string{"A", "B"}, nil, "its secret A was removed when it ended: give all its secrets again (secure_vault: A, B)"},
		"one is missing":   {[]string{"A", "B"}, map[string]string{"A": "1"}, "its secret B was removed"},
		"one that was not": {[]string{"A"}, map[string]string{"A": "1", "C": "2"}, "secure_vault.C: the operation has no such secret"},
		"not a secret":     {[]string{"A"}, map[string]string{"A": Hidden}, "secure_vault.A: it is (hidden)"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := CheckSecrets(test.names, test.given)
			if got := fmt.Sprint(err); test.want == "" && err != nil || !strings.Contains(got, test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	if got, err := ReadSecrets([]byte(withVault + `{A: "1"}`)); err != nil || !maps.Equal(got, map[string]string{"A": "1"}) {
		t.Errorf("of a spec: %v, %v", got, err)
	}
	for text, want := range map[string]string{"A: hunter2": "it has no secure_vault", "secure_vault: hunter2": "secure_vault: is not an object"} {
		if _, err := ReadSecrets([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
